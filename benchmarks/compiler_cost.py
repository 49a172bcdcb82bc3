#!/usr/bin/env python3
"""Seconds and memory of a compilation: `openrknn compile` beside the vendor's toolkit, turn by turn in one run.

    python benchmarks/compiler_cost.py PYTHON_OF_THE_TOOLKIT NET.onnx=BUILD.rknn ... [--rounds 3] [-- OPTION ...]

BUILD.rknn is the vendor's build of the net, with an input in BUILD.npz: mean and std come from it, and the input
is what both calibrate with. Each compilation is a process of its own, from its start to the written file; the memory
is the largest resident set of it. OPTIONs go to `openrknn compile`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import openrknn

VENDOR = """
import sys
from rknn.api import RKNN
source, dataset, target, mean, std = sys.argv[1:]
rknn = RKNN(verbose=False)
numbers = [[[float(n) for n in text.split(",")]] for text in (mean, std)]
steps = (
    lambda: rknn.config(mean_values=numbers[0], std_values=numbers[1], target_platform="rk3588"),
    lambda: rknn.load_onnx(model=source),
    lambda: rknn.build(do_quantization=True, dataset=dataset),
    lambda: rknn.export_rknn(target),
)
for step in steps:
    if step() not in (0, None):
        sys.exit(1)
"""


def spent(words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds and MB of a process and what it starts."""
    started = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} failed: {(folder / 'log').read_text(errors='replace')[-2000:]}")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def measure(pair: str, toolkit: str, rounds: int, options: list[str], folder: Path) -> str:
    """One line of the table."""
    source, _, build = pair.partition("=")
    with np.load(Path(build).with_suffix(".npz")) as archive:
        picture = archive["x0"]
    norm = openrknn.load(build).graphs[0].normalizations[0]
    planes = picture.transpose(0, 3, 1, 2) if picture.dtype == np.uint8 else picture  # what the toolkit wants
    channels = planes.shape[1]
    mean, std = (",".join(f"{number:g}" for number in part[:channels]) for part in (norm.mean, norm.std))
    np.save(folder / "picture.npy", picture)
    np.save(folder / "planes.npy", np.ascontiguousarray(planes))
    (folder / "dataset.txt").write_text(f"{folder / 'planes.npy'}\n")
    name = str(Path(source).resolve())
    ours = [sys.executable, "-m", "openrknn.cli", "compile", name, "-o", str(folder / "ours.rknn"), "--force",
            "--calibrate", str(folder / "picture.npy"), f"--mean={mean}", f"--std={std}", *options]  # fmt: skip
    theirs = [toolkit, "-c", VENDOR, name, str(folder / "dataset.txt"), str(folder / "theirs.rknn"), mean, std]
    found = [(spent(ours, folder), spent(theirs, folder)) for _ in range(rounds)]
    (a, b), (c, d) = (map(statistics.median, zip(*(row[side] for row in found), strict=True)) for side in (0, 1))
    return f"| {Path(source).stem} | {a:.1f} | {c:.1f} | {c / a:.1f} | {b:.0f} | {d:.0f} | {d / b:.1f} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkit", help="a Python that can import rknn.api")
    parser.add_argument("pairs", nargs="+", metavar="NET.onnx=BUILD.rknn")
    parser.add_argument("--rounds", type=int, default=3)
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    arguments = parser.parse_args(given[:at])
    print("| net | s ours | s vendor | times | MB ours | MB vendor | times |\n|---|---|---|---|---|---|---|")
    for pair in arguments.pairs:
        with tempfile.TemporaryDirectory() as name:
            print(measure(pair, arguments.toolkit, arguments.rounds, given[at + 1 :], Path(name)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
