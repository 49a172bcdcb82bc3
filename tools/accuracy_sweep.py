#!/usr/bin/env python3
"""Signal to noise of fp16 normalisations, reductions and softmax for inputs of any size, without calibration.

    .venv/bin/python tools/accuracy_sweep.py [--target rk3588 rk3566] [--case NAME ...] [--least 55] [--workers 2]

Writes a Markdown table to stdout: decibels against ONNX Runtime in float on the software NPU, for inputs with a
standard deviation of 0.003 to 300 and for whole numbers from 0 to 255. "-" where fp16 has no normal
number for the result. Exit code 1 if a number is below --least.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from openrknn.errors import RknnError
from tools.accuracy.measure import SIZES, Runner
from tools.accuracy.models import CASES

TARGETS = ("rk3588", "rk3576", "rk3566", "rk3562")


def row(target: str, name: str) -> tuple[list[float | None], str]:
    """The decibels of a case, and the tasks that it takes or why it is refused."""
    try:
        runner = Runner(CASES[name], target)
        found = [runner.of_size(size) for size in SIZES]
        found.append(runner.of_pictures())
    except RknnError as error:
        return [], f"refused: {str(error)[:90]}"
    return found, str(runner.tasks)


def main() -> int:
    """All cases on all targets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", nargs="+", default=list(TARGETS))
    parser.add_argument("--case", nargs="+", default=list(CASES), help="begin with one of these")
    parser.add_argument("--least", type=float, default=55.0, help="decibels")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    names = [name for name in CASES if name.startswith(tuple(options.case))]
    pairs = [(target, name) for target in options.target for name in names]
    print("| chip | operator | " + " | ".join(f"{size:g}" for size in SIZES) + " | 0..255 | tasks |")
    print("|---|---|" + "---:|" * (len(SIZES) + 2))
    worst = float("inf")
    with ProcessPoolExecutor(options.workers) as pool:
        for (target, name), (found, text) in zip(pairs, pool.map(row, *zip(*pairs, strict=True)), strict=True):
            cells = ["-" if value is None else f"{value:.0f}" for value in found] or [""] * (len(SIZES) + 1)
            print(f"| {target} | {name} | {' | '.join(cells)} | {text} |", flush=True)
            worst = min([worst, *(value for value in found if value is not None)])
    print(f"\nleast: {worst:.1f} dB", file=sys.stderr)
    return int(not worst >= options.least)


if __name__ == "__main__":
    sys.exit(main())
