"""A virtual board for tests, where `openrknn board setup` has run; otherwise they are skipped, and say what to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.board.files import find_files
from openrknn.board.qemu import find_qemu
from openrknn.board.run import Board
from openrknn.errors import DeviceError

__all__ = ["SECONDS", "compiled", "real_board"]

EXAMPLES = Path(__file__).parents[2] / "examples"
COMPILER = "aarch64-linux-gnu-gcc"
SECONDS = 240


def real_board() -> Board:
    if shutil.which(COMPILER) is None:
        pytest.skip(f"no {COMPILER} to compile programs of the guest (Debian: apt install gcc-aarch64-linux-gnu)")
    try:
        files = find_files()
        return Board("rocket", files, find_qemu(files.folder / "qemu"))
    except DeviceError as error:
        pytest.skip(f"no virtual board: {error}")


def compiled(folder: Path) -> Path:
    """The example for rocket, as a program that needs no libraries."""
    program = folder / "program"
    source = EXAMPLES / "raw_rocket_matmul.c"
    subprocess.run([COMPILER, "-static", "-O1", str(source), "-o", str(program)], check=True)
    return program
