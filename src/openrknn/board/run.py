"""A virtual board: the cores of an NPU served to a QEMU that boots a real kernel."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openrknn.board.device_tree import parse_tree
from openrknn.board.ending import end_process, ended_by_signals
from openrknn.board.files import BoardFiles, module_named
from openrknn.board.guest import EXIT_LINE, NOT_LOADED, Guest, archive_of
from openrknn.board.nodes import NEEDED_MODULES, add_nodes, slot_of
from openrknn.board.npu_device import NpuCore, Shared
from openrknn.board.qemu import Machine, Qemu, device_option, device_tree_of
from openrknn.board.starts import Start
from openrknn.board.vfio_user import DeviceServer
from openrknn.chips import chip_named
from openrknn.errors import DeviceError
from openrknn.fakekernel.faults import Fault, Faults
from openrknn.fakekernel.outcome import Outcome

__all__ = ["Board", "Result", "Watcher"]

_EXIT = re.compile(re.escape(EXIT_LINE) + r"(\d+)")
_NOT_LOADED = re.compile(re.escape(NOT_LOADED) + r"(\S+)")
_LOG_LINES = 12
_LONGEST_SOCKET = 107
"""Bytes of a path: Linux has room for 108, with the zero behind it (unix(7))."""
_COMMAND_LINE = "console=ttyAMA0 loglevel=7 panic=-1 iommu.strict=1 printk.devkmsg=on"


@dataclass
class Result:
    """What happened."""

    code: int
    """The program's exit code."""
    seconds: float
    jobs: int = 0
    """Times that a driver started the NPU: one task of rocket, one job of rknpu."""
    failed: int = 0
    log: str = ""
    """The kernel's."""
    problems: list[str] = field(default_factory=list)
    """Why jobs failed, as the NPU sees it."""
    not_met: list[str] = field(default_factory=list)
    """Faults that were asked for, and that no start had."""


class Watcher:
    """Hears of starts, from the threads of the cores. Memory does not change before `started` returns."""

    def started(self, start: Start) -> None:
        """A driver has started a core; nothing is done yet."""

    def ended(self, start: Start, outcome: Outcome) -> None:
        """What became of it."""


@dataclass(frozen=True)
class Board:
    """A board that can be started."""

    driver: str
    """The kernel's driver: "rocket" or "rknpu"."""
    files: BoardFiles
    qemu: Qemu
    machine: Machine = field(default_factory=Machine)
    cores: int = 3
    root: Path | None = None
    """Folder with an arm64 system, which the guest sees as its own; it cannot change it."""
    share: Path | None = None
    """Folder that guest and host can write: /share in the guest."""
    faults: Sequence[Fault] = ()
    """What goes wrong with the NPU."""
    watcher: Watcher | None = None
    """Who hears of every start of the NPU, and of its end."""
    chip: str = "rk3588"

    def run(
        self,
        command: Sequence[str],
        modules: Sequence[Path],
        *,
        texts: dict[str, bytes] | None = None,
        is_interactive: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
        log: Path | None = None,
        timeout: float | None = None,
    ) -> tuple[Result, bytes]:
        """Boot, run a program, and power off. What the program writes is returned if `stdout` is a pipe."""
        needed = [module_named(name, self.files) for name in NEEDED_MODULES.get(self.driver, ())]
        guest = Guest(
            command, [*needed, *modules], self.cores, self.root is not None, self.share is not None, is_interactive,
            texts or {},
        )  # fmt: skip
        with ended_by_signals(), _folder() as folder:
            log = log or folder / "kernel.log"
            (folder / "initramfs").write_bytes(archive_of(guest, self.files))
            tree = parse_tree(device_tree_of(self.qemu, self.machine, folder / "virt.dtb"))
            add_nodes(tree, self.driver, chip_named(self.chip), self.cores)
            (folder / "board.dtb").write_bytes(tree.to_bytes())
            counted, faults = _Counted(self.watcher or Watcher()), Faults(self.faults)
            shared = Shared(
                chip_named(self.chip), waits=not self.machine.is_real_time, faults=faults,
                on_start=counted.watcher.started, on_end=counted.add,
            )  # fmt: skip
            started = time.monotonic()
            with _served(folder, shared, self.cores) as servers:
                done = self._start_qemu(folder, log, (stdin, stdout), timeout, servers, is_interactive=is_interactive)
            seconds = time.monotonic() - started
            text = log.read_text(errors="replace") if log.exists() else ""
            if refused := _NOT_LOADED.search(text):
                raise DeviceError(f"the kernel did not load {refused[1]}{_end_of(text[: refused.start()])}")
            found = _EXIT.search(text)
            if servers.error is not None:
                raise DeviceError(f"the virtual NPU ended: {servers.error}") from servers.error
            if found is None:
                raise DeviceError(_why(done, text, timeout))
            counts = (counted.jobs, counted.failed, text, counted.problems, faults.not_met())
            return Result(int(found[1]), seconds, *counts), done.stdout or b""

    def _start_qemu(
        self, folder: Path, log: Path, streams: tuple[int | None, int | None], timeout: float | None,
        servers: _Servers, *, is_interactive: bool,
    ) -> subprocess.CompletedProcess[bytes]:
        command = [
            *_ends_with_this_process(), *self.qemu.command, *self.machine.options(),
            "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", f"file:{log}", "-chardev", f"stdio,id=program,signal={'off' if is_interactive else 'on'}",
            "-device", "virtio-serial-pci,addr=8", "-device", "virtconsole,chardev=program",
            "-kernel", str(self.files.kernel), "-initrd", str(folder / "initramfs"), "-dtb", str(folder / "board.dtb"),
            "-append", _COMMAND_LINE,
            *(option for core in range(self.cores) for option in device_option(_socket(folder, core), slot_of(core))),
            *_shared_folder("root", self.root, 12, can_write=False), *_shared_folder("share", self.share, 16),
        ]  # fmt: skip
        stdin, stdout = streams
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        servers.serve(process)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            end_process(process)
            output, errors = process.communicate()
            return subprocess.CompletedProcess(command, -1, output, errors)
        except BaseException:
            end_process(process)
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _ends_with_this_process() -> tuple[str, ...]:
    """Starts QEMU so that it is killed with this process; otherwise it could wait indefinitely for the NPU."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL") if setpriv else ()


class _Servers:
    """The threads that play the cores. If one fails, QEMU is ended: the guest would read nothing but ones."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def serve(self, process: subprocess.Popen[bytes]) -> None:
        """Whom they serve."""
        with self._lock:
            self._process = process
            if self.error is not None:
                process.kill()

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self.error = self.error or error
            if self._process is not None:
                self._process.kill()


class _Counted:
    """Jobs of all cores."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.jobs = self.failed = 0
        self.problems: list[str] = []
        self._lock = threading.Lock()

    def add(self, start: Start, outcome: Outcome) -> None:
        with self._lock:
            self.jobs += 1
            if outcome.problem:
                self.failed += 1
                self.problems.append(f"core {start.core}: {outcome.error}")
        self.watcher.ended(start, outcome)


@contextlib.contextmanager
def _served(folder: Path, shared: Shared, cores: int) -> Iterator[_Servers]:
    """Sockets for the cores, each with a thread that serves it."""
    servers = _Servers()
    with contextlib.ExitStack() as stack:
        for core in range(cores):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(_socket(folder, core)))
            listener.listen(1)
            thread = threading.Thread(target=_serve, args=(listener, NpuCore(core, shared), servers), daemon=True)
            thread.start()
        yield servers


def _serve(listener: socket.socket, core: NpuCore, servers: _Servers) -> None:
    try:
        connection, _ = listener.accept()
        with connection:
            DeviceServer(connection, core).serve()
    except OSError:
        return  # the listener is closed when QEMU has ended, or never connected
    except BaseException as error:
        servers.fail(error)
        raise


def _socket(folder: Path, core: int) -> Path:
    return folder / f"core{core}"


def _shared_folder(tag: str, folder: Path | None, slot: int, *, can_write: bool = True) -> list[str]:
    if folder is None:
        return []
    mode = "" if can_write else ",readonly=on"
    return [
        "-fsdev", f"local,id={tag},path={folder},security_model=none,multidevs=remap{mode}",
        "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},addr={slot:x}",
    ]  # fmt: skip


def _why(done: subprocess.CompletedProcess[bytes], log: str, timeout: float | None) -> str:
    """What to say if the guest did not end by itself."""
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == -1:
        what = f"the virtual board was stopped after {timeout:g} s" if timeout else "the virtual board was stopped"
    elif said:
        what = f"QEMU ended ({done.returncode}): {said}"
    else:
        what = "the virtual board ended before the program did"
    return what + _end_of(log)


def _end_of(log: str) -> str:
    last = "\n  ".join(log.strip().splitlines()[-_LOG_LINES:])
    return f"; the end of its kernel's log:\n  {last}" if last else ""


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """For the files of one run. A full disk is said to be one."""
    try:
        with tempfile.TemporaryDirectory(prefix="openrknn-board-") as name:
            if len(os.fsencode(_socket(Path(name), 0))) > _LONGEST_SOCKET:
                advice = "set TMPDIR to a folder with a shorter path"
                raise DeviceError(f"{tempfile.gettempdir()}: its path is too long for the sockets of a board; {advice}")
            yield Path(name)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        advice = "a board needs up to 50 MB there; TMPDIR names another folder"
        raise DeviceError(f"{tempfile.gettempdir()}: {error.strerror}; {advice}") from error
