"""A real kernel on the software NPU. Skipped where `openrknn board setup` has not run, or no compiler is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.board.conformance import compare, emulated_answers, real_answers
from openrknn.board.files import find_files
from openrknn.board.qemu import Machine, find_qemu
from openrknn.board.run import Board
from openrknn.errors import DeviceError

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 240


@pytest.fixture(scope="module")
def board() -> Board:
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no aarch64-linux-gnu-gcc to compile programs of the guest")
    try:
        files = find_files()
        return Board("rocket", files, find_qemu(files.folder / "qemu"))
    except DeviceError as error:
        pytest.skip(f"no virtual board: {error}")


def test_both_kernels_answer_the_same(board: Board, tmp_path: Path) -> None:
    real, result = real_answers(board, [board.files.modules["rocket"]], tmp_path / "log", SECONDS)
    assert compare(emulated_answers(), real).differences == []
    assert result.jobs > 30


@pytest.mark.parametrize("is_real_time", [False, True], ids=["counted", "real-time"])
def test_a_program_of_the_guest(board: Board, tmp_path: Path, is_real_time: bool) -> None:
    program = tmp_path / "program"
    source = EXAMPLES / "raw_rocket_matmul.c"
    subprocess.run(["aarch64-linux-gnu-gcc", "-static", "-O1", str(source), "-o", str(program)], check=True)
    machine = Machine(is_real_time=is_real_time)
    timed = Board("rocket", board.files, board.qemu, machine, cores=1)
    result, output = timed.run(
        [str(program)], [board.files.modules["rocket"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        timeout=SECONDS,
    )  # fmt: skip
    assert (result.code, result.jobs, result.problems) == (0, 1, [])
    assert b"right" in output
