"""The software NPU: each process that has one says in a small file what it does, and others can read it.

The file has fixed places for counters, is mapped into memory, and costs two stores per job:

    /run/user/UID/openrknn/PID-N-NAMESPACE    or /tmp/openrknn-UID/... where there is no such folder

Only its owner can read it, and it goes away with the device. `OPENRKNN_STATUS=off` switches it off; any other value
names the folder. Nothing depends on the file: where it cannot be written, or where the disk is full, there is none. A
forked process gets a file of its own when it runs its first job.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from openrknn.chips import Chip
from openrknn.forks import in_child
from openrknn.monitor import files
from openrknn.monitor.reading import Client, Core, Memory, Npu

__all__ = ["Status", "folder", "publish", "read"]

VARIABLE = "OPENRKNN_STATUS"
_MAGIC = b"orknpu1\n"
_HEADER = struct.Struct("<8sIIQ16sQQQ")  # magic, pid, cores, start of the process, chip, memory, jobs, failed
_MEMORY, _JOBS, _FAILED, _FIRST_CORE = 5, 6, 7, 8
"""Fields of the header as indexes of 64-bit words, as the writer sees them."""
_CORE = struct.Struct("<QQ")  # busy until now, running since (0: idle); nanoseconds of the monotonic clock
_SIZE = 4096
_MOST_CORES = (_SIZE - _HEADER.size) // _CORE.size
_STAT_START = 19
"""Place of the start time in /proc/PID/stat, after the command's closing bracket."""
_TEMPORARY = ("/tmp", "/var/tmp")
_numbers = itertools.count()


class Status:
    """The counters of one software NPU."""

    def __init__(self, path: Path, chip: Chip) -> None:
        self.path: Path | None = path
        self._chip = chip
        self._words = _new_file(path, chip)
        self._begin_anew()
        in_child(self, Status._leave_to_parent)

    def job(self, cores: int) -> _Job:
        """While a job runs: it takes the cores with the least to do."""
        return _Job(self, cores)

    def add_memory(self, size_bytes: int) -> None:
        """Allocated, or with a minus freed."""
        with self._lock:
            self._words[_MEMORY] = max(self._words[_MEMORY] + size_bytes, 0)

    def close(self) -> None:
        """Remove the file."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def begin(self, count: int) -> list[int]:
        """A job starts; the cores that it counts for."""
        if self._is_inherited:
            self._publish_again()
        running, words = self._running, self._words
        with self._lock:
            if count == 1:
                chosen = [running.index(min(running))]
            else:
                chosen = sorted(range(len(running)), key=running.__getitem__)[:count]
            for core in chosen:
                running[core] += 1
                if running[core] == 1:
                    words[_FIRST_CORE + 2 * core + 1] = time.monotonic_ns()
        return chosen

    def end(self, chosen: list[int], failed: bool) -> None:
        """It is done."""
        running, words = self._running, self._words
        with self._lock:
            now = time.monotonic_ns()
            for core in chosen:
                running[core] -= 1
                if running[core] == 0:
                    place = _FIRST_CORE + 2 * core
                    words[place] += now - words[place + 1]
                    words[place + 1] = 0
            words[_JOBS] += 1
            if failed:
                words[_FAILED] += 1


    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._running = [0] * self._chip.cores
        self._is_inherited = False

    def _leave_to_parent(self) -> None:
        """In a child: the file is the parent's, and so is the memory behind it."""
        memory = self._words[_MEMORY]
        self._begin_anew()
        self.path, self._words = None, memoryview(bytearray(_SIZE)).cast("Q")
        self._words[_MEMORY] = memory
        self._is_inherited = True

    def _publish_again(self) -> None:
        with self._lock:
            place = _folder_for_us() if self._is_inherited else None
            self._is_inherited = False
            if place is not None:
                path, memory = _next_path(place), self._words[_MEMORY]
                with contextlib.suppress(OSError):
                    self._words = _new_file(path, self._chip)
                    self._words[_MEMORY], self.path = memory, path


def _new_file(path: Path, chip: Chip) -> memoryview:
    """The counters in shared memory. Reserved on disk: writing into a hole of a full disk would end the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _SIZE)
        content = mmap.mmap(descriptor, _SIZE)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
    pid, name = os.getpid(), chip.name.encode()
    _HEADER.pack_into(content, 0, _MAGIC, pid, chip.cores, _started(Path("/"), pid) or 0, name, 0, 0, 0)
    return memoryview(content).cast("Q")


class _Job:
    """A context manager by hand: it is entered for every job, and a generator would cost as much as the counting."""

    __slots__ = ("_chosen", "_count", "_status")

    def __init__(self, status: Status, count: int) -> None:
        self._status, self._count = status, count

    def __enter__(self) -> None:
        self._chosen = self._status.begin(self._count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.end(self._chosen, kind is not None)


def folder() -> Path | None:
    """Where this process publishes its status; None where that is switched off, or no folder is writable."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted:
        return None if wanted == "off" else Path(wanted)
    runtime = Path(f"/run/user/{os.getuid()}")
    if os.path.isdir(runtime) and os.access(runtime, os.W_OK):
        return runtime / "openrknn"
    for place in (os.environ.get("TMPDIR", ""), *_TEMPORARY):  # not `tempfile`: it takes longer to import than to use
        if os.path.isdir(place) and os.access(place, os.W_OK):
            return Path(place) / f"openrknn-{os.getuid()}"
    return None  # a read-only system without /tmp


def publish(chip: Chip) -> Status | None:
    """Begin to publish; None where there is no place to do it."""
    place = _folder_for_us()
    if place is None:
        return None
    try:
        return Status(_next_path(place), chip)
    except OSError:
        return None


def _folder_for_us() -> Path | None:
    """The folder, made and swept; None where there is none to write to."""
    place = folder()
    if place is None:
        return None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.is_symlink() or place.stat().st_uid != os.getuid():  # somebody else's folder in /tmp
            return None
        _remove_stale(place)
    except OSError:
        return None
    return place


def _next_path(place: Path) -> Path:
    return place / f"{os.getpid()}-{next(_numbers)}-{_namespace()}"


def _namespace() -> int:
    """Of process numbers: containers that share a folder have the same numbers for different processes."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def read(root: Path) -> Iterator[Npu]:
    """The software NPUs of all processes whose files one may read."""
    for place in _folders(root):
        for name in files.listed(root, place):
            npu = _npu(root, f"{place}/{name}")
            if npu is not None:
                yield npu


def _folders(root: Path) -> list[str]:
    places = ["/run/openrknn"]  # of our service
    places += [f"/run/user/{user}/openrknn" for user in files.listed(root, "/run/user")]
    places += [f"/tmp/{name}" for name in files.listed(root, "/tmp") if name.startswith("openrknn-")]
    own = folder() if root == Path("/") else None
    return list(dict.fromkeys([*places, *([str(own)] if own else [])]))


def _npu(root: Path, path: str) -> Npu | None:
    try:
        with open(files.below(root, path), "rb") as stream:
            content = stream.read(_SIZE)
            owner = os.fstat(stream.fileno()).st_uid
    except OSError:
        return None
    if len(content) != _SIZE or not content.startswith(_MAGIC):
        return None
    _, pid, count, started, chip, memory, jobs, failed = _HEADER.unpack_from(content)
    if started == 0 or _started(root, pid) != started or count > _MOST_CORES:
        return None
    now = time.monotonic_ns()
    cores = []
    for number in range(count):
        busy, since = _CORE.unpack_from(content, _place(number))
        cores.append(Core(number, busy_seconds=(busy + max(now - since, 0) if since else busy) / 1e9))
    command = (files.text(root, f"/proc/{pid}/comm") or "?").strip()
    name = chip.rstrip(b"\0").decode("ascii", "replace")
    return Npu(
        driver="software",
        name=f"software:{name}",
        interface="process",
        cores=tuple(cores),
        memory=Memory(used_bytes=memory),
        is_powered=True,
        clients=(Client(pid, command, owner, path),),
        jobs=jobs,
        failed_jobs=failed,
    )


def _place(core: int) -> int:
    return _HEADER.size + core * _CORE.size


def _started(root: Path, pid: int) -> int | None:
    """When the process started: with its number, who it is."""
    fields = (files.text(root, f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[_STAT_START]) if len(fields) > _STAT_START and fields[_STAT_START].isdigit() else None


def _remove_stale(place: Path) -> None:
    """What processes left behind that were killed. Those of another container may live: we cannot see them."""
    here = str(_namespace())
    for entry in place.iterdir():
        pid, *more = entry.name.split("-")
        if pid.isdigit() and more[1:] in ([], [here]) and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                entry.unlink()
