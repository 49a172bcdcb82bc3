"""A program for tests: each golden in a Session on the software NPU and in one on the library that is named.

python tests/capi/loop.py LIBRARY FOLDER > REPORT.json     {"same": [names], "different": {name: why}}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.container.load import load
from openrknn.errors import RknnError
from openrknn.runtime.io.outputs import OutputKind
from openrknn.runtime.session import Session

Arrays = Mapping[str, npt.NDArray[Any]]
KINDS: tuple[OutputKind, ...] = ("float", "raw")


def inputs_for(session: Session) -> list[npt.NDArray[Any]]:
    """Pixels, or zeros and ones where indices are wanted."""
    generator = np.random.default_rng(1)
    return [
        generator.integers(0, 2, one.shape, np.int64) if one.dtype == "int64"
        else generator.integers(0, 255, one.shape).astype(np.uint8)
        for one in session.inputs
    ]  # fmt: skip


def difference(left: Arrays, right: Arrays) -> str:
    """Why two runs are not the same, to the bit; empty if they are."""
    if list(left) != list(right):
        return f"outputs {list(left)} and {list(right)}"
    for name in left:
        one, other = left[name], right[name]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{name}: {one.dtype}{one.shape} and {other.dtype}{other.shape}"
        if one.tobytes() != other.tobytes():
            return f"{name}: {np.count_nonzero(one != other)} of {one.size} numbers"
    return ""


def compare(path: Path, library: str) -> str | None:
    """The difference; None if openrknn itself cannot run the file."""
    try:
        session = Session(str(path), device=f"software:{load(path).chip.name}")
        with session:
            arrays = inputs_for(session)
            wanted = [session.run(arrays, outputs=kind) for kind in KINDS]
    except RknnError:
        return None
    try:
        with Session(str(path), device=f"vendor:{library}") as session:
            found = [session.run(arrays, outputs=kind) for kind in KINDS]
    except RknnError as error:
        return f"{type(error).__name__}: {error}"
    return next(filter(None, map(difference, wanted, found)), "")


def main(library: str, folder: str) -> int:
    """Compare all, and print the report."""
    results = {path.stem: compare(path, library) for path in sorted(Path(folder).glob("*.rknn"))}
    different = {name: text for name, text in results.items() if text}
    json.dump({"same": [name for name, text in results.items() if text == ""], "different": different}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
