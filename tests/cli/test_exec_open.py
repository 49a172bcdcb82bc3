"""`openrknn exec --open`: programs for the vendor's library get ours, on no device, on emulated ones, below qemu."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.capi.programs import MODEL, OPENRKNN, PICTURE, SOURCE, arguments, done, expected, need_library, run
from tests.cli.run import messages
from tests.fakekernel.test_preload import MACHINES, compiler_for, need_emulator

HEADERS = Path(__file__).resolve().parents[2] / "native/capi/include"
STUB = "".join(
    f"int {name}(void) {{ return -99; }}\n" for name in (
        "rknn_init", "rknn_query", "rknn_inputs_set", "rknn_run", "rknn_outputs_get", "rknn_outputs_release",
        "rknn_destroy",
    )
)  # fmt: skip
SESSION = f"""
import numpy as np, openrknn
picture = np.load({str(PICTURE)!r})["x0"]
with openrknn.Session({str(MODEL)!r}, device="vendor") as session:
    print(session.context.library.path, session.run(picture)["logits"].argmax())
"""

KILLS = f"""
import ctypes, os, signal
from openrknn.capi.engine_process import running_engine
library, number, path = ctypes.CDLL("librknnrt.so"), ctypes.c_uint64(), {os.fsencode(MODEL)!r}
def started():
    assert library.rknn_init(ctypes.byref(number), path, 0, 0, None) == 0
    return running_engine(os.environ["OPENRKNN_ENGINE_SOCKET"]).pid
first = started()
os.kill(first, signal.SIGKILL)
while library.rknn_run(number, None) == 0: pass
assert started() != first
assert library.rknn_run(number, None) == 0
"""


@pytest.fixture(scope="module", params=MACHINES)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Linked with a library of the vendor's name that refuses everything, by the run path that is searched first."""
    machine = request.param
    need_library(machine)
    need_emulator(machine)
    cc = compiler_for(machine)
    folder = tmp_path_factory.mktemp("program")
    (folder / "stub.c").write_text(STUB)
    theirs = folder / "librknnrt.so"
    done(cc, "-shared", "-fPIC", "-Wl,-soname,librknnrt.so", "-o", theirs, folder / "stub.c")
    words = [f"-I{HEADERS}", f"-L{folder}", f"-Wl,--disable-new-dtags,-rpath,{folder}", "-lrknnrt"]
    done(cc, "-o", folder / "classify", SOURCE, *words)
    return folder / "classify"


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ((), ""),
        (("--driver", "rknpu"), "on the emulated NPU (RK3588, driver rknpu)"),
        (("--driver", "rocket"), "on the emulated NPU (RK3588, driver rocket)"),
    ],
)
def test_a_linked_program(program: Path, options: tuple[str, ...], summary: str, tmp_path: Path) -> None:
    result = run(*OPENRKNN, "exec", "--open", *options, "--", program, *arguments(tmp_path))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("librknnrt 2.5.0 (openrknn ")
    assert lines[1:] == expected()
    assert summary in result.stderr
    assert bool(summary) == bool(result.stderr)
    assert "no job was submitted" not in result.stderr


def test_what_opens_the_library_by_a_path_of_the_system(tmp_path: Path) -> None:
    """As the vendor's wheel does, which looks whether the file is there first."""
    need_library()
    script = (
        "import ctypes, os\n"
        "path = '/usr/lib/librknnrt.so'\n"
        "library = ctypes.CDLL(path)\n"
        "is_ours = b'(openrknn ' in open(path, 'rb').read()\n"
        "print(os.path.exists(path), is_ours, library.rknn_destroy(ctypes.c_uint64(5)))\n"
    )
    for options in ((), ("--driver", "rknpu")):
        words = ("exec", "-q", "--open", *options, "--", sys.executable, "-c", script)
        assert done(*OPENRKNN, *words) == "True True -7\n"


def test_the_loop_closes() -> None:
    """Session(device="vendor"), which looks for the vendor's library as C programs do, finds ours."""
    need_library()
    path, best = done(*OPENRKNN, "exec", "--open", "--", sys.executable, "-c", SESSION).split()
    assert Path(path).name == "librknnrt.so"
    assert expected()[0].endswith("espresso")
    assert best == "967"


def test_on_a_device_that_runs_already(program: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "npu"
        words = [*OPENRKNN, "device", "--folder", str(folder)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as device:
            assert device.stdout is not None
            device.stdout.readline()
            result = run(*OPENRKNN, "exec", "--open", "--device", folder, "--", program, *arguments(tmp_path))
            device.send_signal(signal.SIGINT)
            said = device.stdout.read()
    assert result.stdout.splitlines()[1:] == expected()
    assert "no job" not in said.splitlines()[-1]


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Neither files nor an engine, whether the program used it or not."""
    need_library()
    with tempfile.TemporaryDirectory(prefix="orknn") as base:
        script = (
            "import ctypes\n"
            "number = ctypes.byref(ctypes.c_uint64())\n"
            f"assert ctypes.CDLL('librknnrt.so').rknn_init(number, {os.fsencode(MODEL)!r}, 0, 0, None) == 0\n"
        )
        for words in (["true"], [sys.executable, "-c", script]):
            done(*OPENRKNN, "exec", "--open", "--", *words, TMPDIR=base, OPENRKNN_STATUS="off")
            assert os.listdir(base) == []
        assert base not in Path("/proc/net/unix").read_text()


def test_an_engine_that_dies_is_replaced_on_the_same_device() -> None:
    """By the library, with the starter that `exec` left for it; and that one is ended, too."""
    need_library()
    with tempfile.TemporaryDirectory(prefix="orknn") as base:
        words = ("exec", "--open", "--driver", "rknpu", "--", sys.executable, "-c", KILLS)
        result = run(*OPENRKNN, *words, TMPDIR=base, OPENRKNN_STATUS="off")
        assert result.returncode == 0, result.stderr
        assert "on the emulated NPU (RK3588, driver rknpu)" in result.stderr
        assert "no job was submitted" not in result.stderr
        assert os.listdir(base) == []
        assert base not in Path("/proc/net/unix").read_text()


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_programs(script: str, code: int) -> None:
    need_library()
    assert run(*OPENRKNN, "exec", "--open", "--", "sh", "-c", script).returncode == code


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--open", "--", "no-such-program"], 127, "no-such-program: no such program"),
        (["--open", "--driver", "rknpu", "--", "no-such-program"], 127, "no-such-program: no such program"),
        (["--open", "--library", "librknnrt.so", "--", "true"], 2, "--open takes openrknn's library"),
        (["--open", "--device", "nowhere", "--", "true"], 2, "no emulated device runs there"),
        (["--open", "--driver", "rocket", "--chip", "rk3566", "--", "true"], 2, "rocket knows RK3588 only"),
        (["--open"], 2, "name the program to run"),
    ],
)
def test_what_is_not_possible_is_one_line(words: list[str], code: int, text: str) -> None:
    need_library()
    result = run(*OPENRKNN, "exec", "-q", *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr
    assert messages(result.stderr) == 1


def test_an_engine_that_does_not_start_says_why() -> None:
    need_library()
    result = run(*OPENRKNN, "exec", "--open", "--", "true", OPENRKNN_ENGINE_IDLE="soon")
    assert result.returncode == 0  # ours has its own patience
    with tempfile.TemporaryDirectory(prefix="orknn") as base:
        deep = Path(base) / ("d" * 100)
        deep.mkdir()
        result = run(*OPENRKNN, "exec", "--open", "--", "true", TMPDIR=str(deep))
    assert result.returncode == 2
    assert "the engine of librknnrt.so did not start: " in result.stderr
