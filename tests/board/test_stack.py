"""Programs of users on a real kernel: Session, SessionPool, tools, the open library, and Mesa's delegate.

Skipped unless OPENRKNN_BOARD_ROOT names the folder of an arm64 system (docs/board.md says which packages) and
`openrknn board setup` has run: all of it takes some minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.board.files import find_files
from openrknn.board.qemu import find_qemu
from openrknn.board.run import Board, Result
from openrknn.capi.parts import header_folder, library_for
from openrknn.errors import DeviceError
from tests.board.stack_models import write_models
from tests.board.teflon_cases import models

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
ROOT_VARIABLE = "OPENRKNN_BOARD_ROOT"
PYTHON = "usr/bin/python3"
TEFLON = "/usr/lib/teflon/libteflon.so"
LITERT = "usr/lib/python3/dist-packages/ai_edge_litert"
SECONDS = 1500
MANY = 200


@pytest.fixture(scope="module")
def root() -> Path:
    named = os.environ.get(ROOT_VARIABLE, "")
    if not named:
        pytest.skip(f"{ROOT_VARIABLE} names no arm64 system (docs/board.md)")
    found = Path(named).absolute()
    if not (found / PYTHON).exists():
        pytest.skip(f"{found} has no {PYTHON}")
    return found


class Guest:
    """A board, and a folder that it shares with this machine."""

    def __init__(self, root: Path, share: Path) -> None:
        try:
            files = find_files()
            self._board = Board("rocket", files, find_qemu(files.folder / "qemu"), root=root, share=share)
        except DeviceError as error:
            pytest.skip(f"no virtual board: {error}")
        self.share = share

    def python(self, words: Sequence[str]) -> tuple[Result, list[str]]:
        """Run Python in the guest, with openrknn of this checkout if it is in the shared folder; its lines."""
        command = ["/usr/bin/env", "PYTHONPATH=/share", "PYTHONPYCACHEPREFIX=/tmp/compiled", f"/{PYTHON}", *words]
        result, output = self._board.run(
            command, [self._board.files.modules["rocket"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            log=self.share / "kernel.log", timeout=SECONDS,
        )  # fmt: skip
        text = output.decode(errors="replace").replace("\r", "")
        assert result.code == 0, text[-3000:]
        return result, text.splitlines()


@pytest.fixture
def guest(root: Path, tmp_path: Path) -> Guest:
    share = tmp_path / "share"
    share.mkdir()
    return Guest(root, share)


def test_sessions_and_tools(guest: Guest) -> None:
    package = Path(openrknn.__file__).parent
    shutil.copytree(package, guest.share / "openrknn", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(HERE / "stack_program.py", guest.share)
    (guest.share / "models").mkdir()
    names = write_models(guest.share / "models")
    parts = ["models", "threads", "pool", "programs", "tools", "health"]
    wanted = _program_of_the_library(guest.share)
    parts += ["library"] if wanted else []
    result, lines = guest.python(["/share/stack_program.py", "/share/models", *parts])
    answers: dict[str, Any] = {(answer := json.loads(line))["part"]: answer for line in lines if line.startswith("{")}
    assert [answers[part]["problems"] for part in parts[:4]] == [[]] * 4
    assert answers["models"]["runs"] == len(names)
    assert answers["programs"]["codes"] == [0, 0, 0]
    assert (result.failed, result.problems) == (0, [])
    assert answers["tools"]["doctor"]["said"]["soc"] == "rk3588"
    found = {finding["code"]: finding for finding in answers["tools"]["doctor"]["said"]["findings"]}
    assert (found["driver"]["severity"], found["node"]["severity"]) == ("ok", "ok")
    (npu,) = answers["tools"]["top"]["said"]["npus"]
    assert (npu["driver"], len(npu["cores"])) == ("rocket", 3)
    assert answers["health"]["reasons"] == {"npu0": None}
    if wanted:
        said = [answers["library"]["said"], *answers["library"]["together"]]
        assert [text.partition("\n")[2] for text in said] == [wanted] * 4


def _program_of_the_library(folder: Path) -> str:
    """Put examples/classify.c and the open library for the guest into a folder; what the program says on this machine.

    Empty without compilers for both.
    """
    compilers = {"aarch64": shutil.which("aarch64-linux-gnu-gcc"), None: shutil.which("cc")}
    if None in compilers.values():
        return ""
    with np.load(EXAMPLES / "models/efficientnet_lite0_rk3588_i8_coffee.npz") as file:
        (folder / "picture.ppm").write_bytes(b"P6 224 224 255\n" + file["x0"].tobytes())
    shutil.copy(EXAMPLES / "models/efficientnet_lite0_rk3588_i8.rknn", folder / "model.rknn")
    shutil.copy(EXAMPLES / "models/imagenet_labels.txt", folder / "labels.txt")
    (folder / "engine").write_text(f'#!/bin/sh\nexec /{PYTHON} -m openrknn.capi.engine "$@"\n')
    (folder / "engine").chmod(0o755)
    for machine, compiler in compilers.items():
        library = library_for(machine)
        program = folder / ("classify" if machine else "classify-here")
        words = [str(compiler), "-O1", f"-I{header_folder()}", str(EXAMPLES / "classify.c"), str(library)]
        subprocess.run([*words, "-o", str(program)], check=True)
        if machine:
            shutil.copy(library, folder / "librknnrt.so")
    words = [str(folder / name) for name in ("classify-here", "model.rknn", "picture.ppm", "labels.txt")]
    done = subprocess.run(
        [sys.executable, "-m", "openrknn", "exec", "-q", "--open", "--", *words], capture_output=True, text=True,
        check=True, timeout=SECONDS,
    )  # fmt: skip
    return done.stdout.partition("\n")[2]


def test_mesa_computes_what_it_computes_on_the_emulated_kernel(guest: Guest, root: Path, tmp_path: Path) -> None:
    if not (root / TEFLON[1:]).exists() or not (root / LITERT).exists():
        pytest.skip(f"{root} lacks {TEFLON} (Debian: mesa-teflon-delegate) or the Python package ai-edge-litert")
    program = HERE / "teflon_program.py"
    cases = list(models())
    assert len(cases) > MANY
    for folder in ("cases", "real"):
        (guest.share / folder).mkdir()
    for case in cases:
        (guest.share / "cases" / f"{case.name}.tflite").write_bytes(case.to_bytes())
        case.input().tofile(guest.share / "cases" / f"{case.name}.in")
    shutil.copy(program, guest.share)
    emulated = _emulated(root, program, guest.share / "cases", tmp_path)
    result, lines = guest.python(["/share/teflon_program.py", TEFLON, "/share/cases", "/share/real"])
    real = [line for line in lines if line.count(" ") == 3]
    assert real == emulated
    assert len(real) == len(cases)
    assert all(line.split()[1] == "0" and int(line.split()[2]) for line in real), "every model ran, with the delegate"
    assert (result.failed, result.problems) == (0, [])


def _emulated(root: Path, program: Path, cases: Path, folder: Path) -> list[str]:
    """What it says below `openrknn exec`; qemu's user emulation runs it where this machine is no arm64."""
    target = folder / "emulated"
    target.mkdir()
    words = [str(root / PYTHON), str(program), TEFLON, str(cases), str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "openrknn", "exec", "-q", "--driver", "rocket", "--", *words], capture_output=True,
        text=True, timeout=SECONDS, check=False,
        env={**os.environ, "QEMU_LD_PREFIX": str(root), "QEMU_CPU": "cortex-a76"},
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.count(" ") == 3]
    if found and all(line.split()[1] == "-11" for line in found):
        pytest.skip("LiteRT does not run below this qemu-user: 11.1 can, 7.2 cannot")
    return found
