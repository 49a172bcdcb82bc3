"""Boards that do not get as far as their program, or are ended before it: an error that says so, and nothing left."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from openrknn.board import run as module
from openrknn.board.device_tree import Node
from openrknn.board.files import BoardFiles, find_files
from openrknn.board.guest import EXIT_LINE, NOT_LOADED, Guest, archive_of
from openrknn.board.qemu import Machine, Qemu
from openrknn.board.run import Board
from openrknn.cli.board import _own_root
from openrknn.errors import DeviceError

ELF = b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little")


def made_files(folder: Path, version: str = "7.2.13 aarch64") -> BoardFiles:
    (folder / "modules").mkdir()
    for name in ("vmlinuz", "busybox"):
        (folder / name).write_bytes(ELF)
    write_module(folder / "modules/rocket.ko", version)
    return find_files(folder)


def write_module(path: Path, version: str) -> Path:
    path.write_bytes(b"\x7fELF\0depends=\0vermagic=" + version.encode() + b"\0")
    return path


def write_qemu(folder: Path, lines: str) -> Qemu:
    """A program in its place. It knows where the log belongs from the option of the serial line."""
    path = folder / "qemu"
    script = f"""\
        #!{sys.executable}
        import sys, time
        log = next((word[5:] for word in sys.argv if word.startswith("file:")), "")
        if not log:
            tree = next(word for word in sys.argv if "dumpdtb=" in word).partition("dumpdtb=")[2]
            open(tree, "wb").write({Node("").to_bytes()!r})
            sys.exit()
        """
    path.write_text(textwrap.dedent(script) + textwrap.dedent(lines))
    path.chmod(0o755)
    return Qemu((str(path),), "QEMU emulator version 11.1.3")


def made_board(folder: Path, lines: str) -> Board:
    return Board("rocket", made_files(folder), write_qemu(folder, lines))


def start(board: Board, timeout: float | None = 30) -> int:
    result, _ = board.run(
        [str(board.files.shell)], [board.files.modules["rocket"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        timeout=timeout,
    )  # fmt: skip
    return result.code


def test_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    assert start(made_board(tmp_path, f'open(log, "w").write("{EXIT_LINE}7")')) == 7


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (f'open(log, "w").write("bad\\n{NOT_LOADED}rocket.ko\\n")', r"did not load rocket\.ko; .*\n  bad"),
        ('sys.stderr.write("no such device"); sys.exit(3)', r"QEMU ended \(3\): no such device"),
        ('open(log, "w").write("Kernel panic")', r"ended before the program did; .*\n  Kernel panic"),
    ],
    ids=["module", "qemu", "panic"],
)
def test_a_board_that_ends_too_early(tmp_path: Path, lines: str, wanted: str) -> None:
    with pytest.raises(DeviceError, match=f"(?s){wanted}"):
        start(made_board(tmp_path, lines))


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder whose path leaves room for the names of sockets."""
    return tmp_path_factory.mktemp("t")


def test_a_folder_for_which_sockets_have_no_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = place / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(DeviceError, match="too long for the sockets of a board; set TMPDIR"):
        start(made_board(place, ""))
    assert list(long.iterdir()) == []


def test_a_board_that_takes_too_long(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises(DeviceError, match=r"stopped after 0\.5 s"):
        start(made_board(tmp_path, "time.sleep(60)"), timeout=0.5)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_leave_neither_a_folder_nor_qemu(tmp_path: Path, place: Path, number: signal.Signals) -> None:
    tells = f'import os; open("{tmp_path}/process", "w").write(str(os.getpid())); time.sleep(60)'
    board = made_board(tmp_path, tells)
    code = f"""\
        import signal, sys
        from pathlib import Path
        from openrknn.board.files import find_files
        from openrknn.board.qemu import Qemu
        from openrknn.board.run import Board
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup leaves it ignored
        files = find_files(Path({str(tmp_path)!r}))
        board = Board("rocket", files, Qemu({board.qemu.command!r}, "QEMU emulator version 11.1.3"))
        board.run([str(files.shell)], [files.modules["rocket"]], stdin=-3)
        """
    command, environment = [sys.executable, "-c", textwrap.dedent(code)], {**os.environ, "TMPDIR": str(place)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    told = tmp_path / "process"
    until = time.monotonic() + 60
    while not (told.exists() and told.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    try:
        assert process.wait(30) in (128 + number, -number, 1)
    finally:
        process.kill()
        process.wait()
    assert list(place.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_a_full_disk_is_said_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "archive_of", full)
    with pytest.raises(DeviceError, match=r"No space left on device; .*TMPDIR"):
        start(made_board(tmp_path, ""))


def test_a_module_of_another_kernel(tmp_path: Path) -> None:
    files = made_files(tmp_path)
    other = write_module(tmp_path / "rocket.ko", "6.18.0 aarch64")
    with pytest.raises(DeviceError, match=r"rocket\.ko is for Linux 6\.18\.0 aarch64; .* has 7\.2\.13 aarch64"):
        archive_of(Guest([str(files.shell)], [other], 1), files)


def test_on_an_arm64_machine_the_guest_has_its_system_and_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert _own_root() == Path("/")
    assert {"kvm", "virt,gic-version=host,memory-backend=ram"} <= set(Machine(is_real_time=True).options())
    assert {"tcg", "virt,gic-version=3,memory-backend=ram"} <= set(Machine().options())
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert _own_root() is None
    assert "tcg" in Machine(is_real_time=True).options()
