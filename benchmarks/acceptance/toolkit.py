"""The vendor's build of a case, on the same calibration data; kept, because it takes a while."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx

from acceptance.cases import Case

SCRIPT = """
import json, sys
from rknn.api import RKNN
ask = json.loads(sys.argv[1])
rknn = RKNN(verbose=False)
steps = (
    lambda: rknn.config(target_platform="rk3588", **ask["config"]),
    lambda: rknn.load_onnx(model=ask["source"], **ask["load"]),
    lambda: rknn.build(do_quantization=ask["quantise"], dataset=ask["dataset"]),
    lambda: rknn.export_rknn(ask["target"]),
)
for step in steps:
    if step() not in (0, None):
        sys.exit(1)
"""
"""What a Python with the toolkit runs; its only argument is what to do, as JSON."""


def build(case: Case, python: str, kept: Path) -> Path | None:
    """The file, or None where the toolkit refuses the network."""
    path = kept / f"{case.title.replace(' ', '_')}.rknn"
    if path.exists():
        return path if path.stat().st_size else None
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ask = {
            "source": str(case.source.resolve()), "quantise": case.form == "i8", "target": str(folder / "out.rknn"),
            "config": {}, "load": {}, "dataset": None,
        }  # fmt: skip
        if "mean" in case.options:
            ask["config"] = {"mean_values": [list(case.options["mean"])], "std_values": [list(case.options["std"])]}
        if "shapes" in case.options:
            shapes = case.options["shapes"]
            ask["load"] = {"inputs": list(shapes), "input_size_list": list(shapes.values())}
        if case.form == "i8":
            ask["dataset"] = str(_dataset(case, folder))
        words = [python, "-c", SCRIPT, json.dumps(ask)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        (kept / f"{path.stem}.log").write_text(done.stdout + done.stderr)
        made = folder / "out.rknn"
        path.write_bytes(made.read_bytes() if made.exists() and not done.returncode else b"")
    return path if path.stat().st_size else None


def _dataset(case: Case, folder: Path) -> Path:
    """One line per input; pictures as planes."""
    lines = []
    ranks = [len(entry.type.tensor_type.shape.dim) for entry in onnx.load(case.source).graph.input]
    for number, arrays in enumerate(case.calibration()):
        names = []
        for index, array in enumerate(arrays):
            planes = array.transpose(0, 3, 1, 2) if array.dtype == np.uint8 and ranks[index] == 4 else array
            np.save(folder / f"{number}_{index}.npy", np.ascontiguousarray(planes, np.float32))
            names.append(str(folder / f"{number}_{index}.npy"))
        lines.append(" ".join(names))
    listing = folder / "dataset.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing
