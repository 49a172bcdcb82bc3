"""Runs an unmodified program with `openrknn.onnxruntime` in place of ONNX Runtime."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from openrknn.onnxruntime.redirect import redirect


def main(arguments: Sequence[str] | None = None) -> None:
    """Like `python [-m] NAME ARGUMENTS`; the exit status is the program's."""
    parser = argparse.ArgumentParser(
        prog="python -m openrknn.onnxruntime", usage="%(prog)s [--children] (PROGRAM.py | -m MODULE) [ARGUMENT ...]",
        description="Run a Python program so that its `import onnxruntime` gives openrknn.onnxruntime.",
    )  # fmt: skip
    parser.add_argument("--children", action="store_true", help="also in the Python programs that it starts")
    parser.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("rest", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if not given.is_module and not os.path.exists(given.program):
        parser.error(f"{given.program}: no such file (a module: -m {given.program})")
    redirect(children=given.children)
    sys.argv = [given.program, *given.rest]
    if given.is_module:
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(given.program))
        runpy.run_path(given.program, run_name="__main__")


if __name__ == "__main__":
    main()
