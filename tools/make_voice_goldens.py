"""Numbers of the packages that others use, for tests/voice: silero-vad's rules, librosa's and torchaudio's features.

python -m pip install silero-vad==6.2.3 torchaudio librosa
python tools/make_voice_goldens.py tests/goldens/voice
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np


def spans() -> list[dict[str, Any]]:
    """Random walks of probabilities, and what silero-vad makes of them under several rules."""
    from silero_vad.utils_vad import get_speech_timestamps_from_probs  # type: ignore[import-not-found]

    rng = np.random.default_rng(18)
    rows = []
    for number in range(60):
        count = int(rng.integers(0, 160))
        walk = np.cumsum(rng.normal(0, rng.choice([0.3, 1.0, 2.5]), count)) - rng.normal(0, 0.05) * np.arange(count)
        chances = np.round(1 / (1 + np.exp(-(walk - (walk.mean() if count else 0)))), 3)
        total = max(0, count * 512 - int(rng.integers(0, 512)))
        rules = {
            "threshold": float(rng.choice([0.3, 0.5, 0.8])),
            "min_speech": float(rng.choice([0.0, 0.064, 0.25])),
            "max_speech": float(rng.choice([0.5, 1.0, 2.0, math.inf])),
            "min_silence": float(rng.choice([0.0, 0.1, 0.4])),
            "pad": float(rng.choice([0.0, 0.03, 0.2])),
        }
        if number < 10:
            rules = {"threshold": 0.5, "min_speech": 0.25, "max_speech": math.inf, "min_silence": 0.1, "pad": 0.03}
        found = get_speech_timestamps_from_probs(
            chances.tolist(),
            threshold=rules["threshold"],
            min_speech_duration_ms=rules["min_speech"] * 1000,
            max_speech_duration_s=rules["max_speech"],
            min_silence_duration_ms=rules["min_silence"] * 1000,
            speech_pad_ms=rules["pad"] * 1000,
            audio_length_samples=total,
        )
        rows.append({
            "chances": chances.tolist(), "total": total, "rules": rules,
            "spans": [[int(one["start"]), int(one["end"])] for one in found],
        })  # fmt: skip
    return rows


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spans.json").write_text(json.dumps(spans(), separators=(",", ":")).replace("Infinity", "1e999") + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
