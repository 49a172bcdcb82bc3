"""Numbers of packages that others use, for tests/voice: silero-vad's rules, features of librosa, torchaudio, Whisper.

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


def sound() -> np.ndarray:
    """0.6 s at 16 kHz: tones that rise, noise, a click and silence; 16-bit integers."""
    rng = np.random.default_rng(7)
    time = np.arange(9600) / 16_000
    made = 0.3 * np.sin(2 * np.pi * (200 * time + 2500 * time**2)) + 0.02 * rng.standard_normal(len(time))
    made[4000] += 0.5
    made[7000:8200] = 0
    return np.rint(made * 32767).astype(np.int16)


def features(samples: np.ndarray) -> dict[str, np.ndarray]:
    """What the packages make of it."""
    import librosa  # type: ignore[import-not-found]
    import torch
    from torchaudio.compliance import kaldi  # type: ignore[import-not-found]
    from whisper import audio as whisper  # type: ignore[import-not-found]

    floats = samples.astype(np.float32) / 32768
    wave = torch.from_numpy(floats)[None]
    short = librosa.stft(floats, n_fft=512, hop_length=160, win_length=400, pad_mode="reflect")
    return {
        "stft_real": short.real[:, ::4], "stft_imag": short.imag[:, ::4],
        "mel_slaney": librosa.filters.mel(sr=16_000, n_fft=400, n_mels=40),
        "mel_htk": librosa.filters.mel(sr=22_050, n_fft=512, n_mels=30, fmin=80, fmax=7600, htk=True, norm=None),
        "mfcc": librosa.feature.mfcc(y=floats, sr=16_000, n_mfcc=13, n_fft=512, hop_length=160, n_mels=40),
        "whisper_80": whisper.log_mel_spectrogram(floats, 80).numpy(),
        "whisper_128": whisper.log_mel_spectrogram(floats, 128).numpy()[:, ::8],
        "fbank": kaldi.fbank(wave * 32768, num_mel_bins=40).numpy(),
        "fbank_80": kaldi.fbank(
            wave, num_mel_bins=80, snip_edges=False, high_freq=-400, window_type="hamming", use_power=False
        ).numpy()[::4],
        "kaldi_mfcc": kaldi.mfcc(wave * 32768).numpy(),
    }  # fmt: skip


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spans.json").write_text(json.dumps(spans(), separators=(",", ":")).replace("Infinity", "1e999") + "\n")
    made = sound()
    floats = {name: value.astype(np.float32) for name, value in features(made).items()}
    np.savez_compressed(folder / "features.npz", sound=made, **floats)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
