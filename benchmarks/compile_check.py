"""Compile time with the check of the build, and without it.

    python benchmarks/compile_check.py MODEL.onnx ... [--calibrate PICTURES] [--std 255] [--shapes NAME=1,3,224,224]

Each model is compiled in a process of its own, without and with the check; the last column is what the check found.
Times are those of the CPU, so that other programs on the machine do not count. TFLite files and others are read too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any


def measure(model: str, options: dict[str, Any]) -> tuple[float, float, str]:
    """(seconds without, seconds of the check, its verdict)."""
    from openrknn.compiler import compile_model
    from openrknn.compiler.check import check
    from openrknn.errors import RknnError

    try:
        started = time.process_time()
        made = compile_model(model, check=False, **options)
        plain = time.process_time() - started
        started = time.process_time()
        found = check(made)
        return plain, time.process_time() - started, found.brief
    except RknnError as error:
        return 0.0, 0.0, f"{type(error).__name__}: {error}"


def main() -> None:
    """One line a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--calibrate", help="a folder of pictures: int8 instead of fp16")
    parser.add_argument("--std", type=float)
    parser.add_argument("--shapes", action="append", default=[], metavar="NAME=N,...")
    wish = parser.parse_args()
    options: dict[str, Any] = {"calibration": wish.calibrate, "std": wish.std}
    if wish.shapes:
        pairs = [text.rpartition("=") for text in wish.shapes]
        options["shapes"] = {name: [int(size) for size in sizes.split(",")] for name, _, sizes in pairs}
    print(f"{'model':32} {'compile':>9} {'check':>9} {'together':>9}")
    for model in wish.models:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            plain, checked, said = pool.apply(measure, (model, options))
        print(f"{Path(model).name:32} {plain:8.1f}s {checked:8.1f}s {plain + checked:8.1f}s  {said}", flush=True)


if __name__ == "__main__":
    main()
