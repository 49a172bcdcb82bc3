"""The vendor's build of a network on the same calibration data, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from trained.network import Network

SCRIPT = """
import json, resource, sys, time
ask = json.loads(sys.argv[1])
from rknn.api import RKNN
started = time.perf_counter()
rknn = RKNN(verbose=False)
steps = (
    lambda: rknn.config(target_platform=ask["target"]),
    lambda: rknn.load_onnx(model=ask["source"], inputs=ask["inputs"], input_size_list=ask["sizes"]),
    lambda: rknn.build(do_quantization=ask["quantise"], dataset=ask["dataset"]),
    lambda: rknn.export_rknn(ask["file"]),
)
for step in steps:
    if step() not in (0, None):
        sys.exit(1)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("MEASURED", json.dumps({"seconds": time.perf_counter() - started, "peak_mb": peak / 1024}))
"""
_PATIENCE = 1200


def build(network: Network, form: str, python: str, target: str, file: Path) -> dict[str, Any]:
    """Seconds and peak memory, or why not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ask = {
            "source": str(network.model.resolve()), "quantise": form == "i8", "file": str(folder / "out.rknn"),
            "target": target, "inputs": list(network.shapes), "sizes": list(network.shapes.values()), "dataset": None,
        }  # fmt: skip
        if form == "i8":
            ask["dataset"] = str(_dataset(network, folder))
        words = [python, "-c", SCRIPT, json.dumps(ask)]
        try:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
                                  timeout=_PATIENCE)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"gave up after {_PATIENCE} s"}
        text = done.stdout + done.stderr
        file.with_suffix(".log").write_text(text)
        made = folder / "out.rknn"
        if done.returncode or not made.exists():
            return {"error": _reason(text)}
        file.write_bytes(made.read_bytes())
    measured = next(line for line in text.splitlines() if line.startswith("MEASURED"))
    return dict(json.loads(measured.removeprefix("MEASURED")))


def _dataset(network: Network, folder: Path) -> Path:
    """One line per item, one array per input."""
    lines = []
    for number, feed in enumerate(network.feeds("calibration")):
        names = [str(folder / f"{number}_{index}.npy") for index in range(len(feed))]
        for path, array in zip(names, feed.values(), strict=True):
            np.save(path, array)
        lines.append(" ".join(names))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def _reason(text: str) -> str:
    """The last line of the log that says what was wrong."""
    told = [line for line in text.splitlines() if line.startswith(("E ", "\x1b[31mE")) or "Error" in line]
    lines = told or text.strip().splitlines() or ["nothing was said"]
    return lines[-1].replace("\x1b[31m", "").replace("\x1b[0m", "").strip()[:200]
