"""The vendor's build of each network for each chip; kept, because it takes a while."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx

__all__ = ["build"]

_SCRIPT = """
import json, sys
from rknn.api import RKNN
ask = json.loads(sys.argv[1])
for chip, target in ask["targets"].items():
    rknn = RKNN(verbose=False)
    steps = (
        lambda: rknn.config(target_platform=chip, **ask["config"]),
        lambda: rknn.load_onnx(model=ask["source"], **ask["load"]),
        lambda: rknn.build(do_quantization=ask["quantise"], dataset=ask["dataset"]),
        lambda: rknn.export_rknn(target),
    )
    for step in steps:
        if step() not in (0, None):
            print("FAILED", chip, flush=True)
            break
    rknn.release()
"""
"""What a Python with the toolkit runs; its only argument is what to do, as JSON."""
_PICTURES = 2


def build(source: Path, python: str, kept: Path, chips: tuple[str, ...], *, quantise: bool) -> dict[str, Path]:
    """Chip -> file, of those that the toolkit makes."""
    kept.mkdir(parents=True, exist_ok=True)
    form = "i8" if quantise else "fp"
    paths = {chip: kept / f"{source.stem}-{form}-{chip}.rknn" for chip in chips}
    missing = {chip: path for chip, path in paths.items() if not path.exists()}
    if missing:
        _run(source, python, kept / f"{source.stem}-{form}.log", missing, quantise=quantise)
    return {chip: path for chip, path in paths.items() if path.exists() and path.stat().st_size}


def _run(source: Path, python: str, log: Path, missing: dict[str, Path], *, quantise: bool) -> None:
    inputs = onnx.load(source, load_external_data=False).graph.input
    shapes = [[entry.dim_value or 1 for entry in one.type.tensor_type.shape.dim] for one in inputs]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        picture = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] == 3
        ask = {
            "source": str(source.resolve()), "quantise": quantise, "load": {},
            "targets": {chip: str(folder / f"{chip}.rknn") for chip in missing},
            "config": {"mean_values": [[0] * 3], "std_values": [[255] * 3]} if picture else {},
            "dataset": str(_dataset(shapes[0], folder)) if quantise else None,
        }  # fmt: skip
        words = [python, "-c", _SCRIPT, json.dumps(ask)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        log.write_text(done.stdout + done.stderr)
        for chip, path in missing.items():
            made = folder / f"{chip}.rknn"
            path.write_bytes(made.read_bytes() if made.exists() else b"")


def _dataset(shape: list[int], folder: Path) -> Path:
    """Random pictures: ranges do not change what a task costs."""
    random = np.random.default_rng(0)
    for number in range(_PICTURES):
        np.save(folder / f"{number}.npy", random.integers(0, 256, shape).astype(np.float32))
    listing = folder / "dataset.txt"
    listing.write_text("".join(f"{folder / f'{number}.npy'}\n" for number in range(_PICTURES)))
    return listing
