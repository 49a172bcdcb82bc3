"""Permanently drops rights of the current process: rlimits, no new privileges, seccomp, Landlock."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import resource
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from openrknn.sandbox import landlock, seccomp

__all__ = ["confine", "readable"]

_NO_NEW_PRIVILEGES = 38  # prctl(2), linux/prctl.h
_MORE_ADDRESSES = 64 << 30
"""Libraries map far more addresses than they use; private writable memory is limited separately."""
_MOST_FILES, _MORE_THREADS = 512, 256
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/opt/rocm", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/proc/self",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm", "/sys/devices/system",
    "/sys/kernel/mm",
)  # fmt: skip


def confine(folder: str, memory: int, seconds: float, file_bytes: int) -> frozenset[str]:
    """The names of the guards that this kernel has, of `openrknn.sandbox.FILES` and `NETWORK`."""
    _limit(memory, seconds, file_bytes)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return frozenset()
    guards = set()
    if landlock.restrict(read=readable(), write=[folder], devices=["/dev/null"]):
        guards.add("files")
    if seccomp.restrict():
        guards.add("network")
    return frozenset(guards)


def readable() -> list[str]:
    """Files and folders that the interpreter and its libraries read."""
    return [path for path in dict.fromkeys(_readable()) if os.path.exists(path)]


def _readable() -> Iterator[str]:
    yield from _SYSTEM
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    yield from sysconfig.get_paths().values()
    # The folder of the program that was started stands first on the path of imports, and may be anyone's home.
    yield from (os.path.realpath(path) for path in sys.path if path and _is_library(path))
    yield from (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path.startswith("/"))
    spec = importlib.util.find_spec("openrknn")
    for path in (spec.submodule_search_locations or ()) if spec else ():
        yield os.path.realpath(path)


def _is_library(path: str) -> bool:
    """The root of the file system and the home folder are not opened as a whole."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = "/"
    return os.path.realpath(path) not in {"/", "/tmp", os.path.realpath(home)}


def _limit(memory: int, seconds: float, file_bytes: int) -> None:
    processors = max(len(os.sched_getaffinity(0)), 1)
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_AS: memory + _MORE_ADDRESSES,
        resource.RLIMIT_CPU: max(int(seconds * min(processors, 4)), 1),
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: _MOST_FILES,
        resource.RLIMIT_NPROC: _threads_of_user() + _MORE_THREADS,
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901
        with contextlib.suppress(OSError, ValueError):
            # At the hard limit of processor time the kernel kills, at the soft one it says why: SIGXCPU comes first.
            highest = value + 1 if kind == resource.RLIMIT_CPU and value != hard else value
            resource.setrlimit(kind, (value, highest))


def _threads_of_user() -> int:
    """RLIMIT_NPROC counts the threads of all processes of the user."""
    total, user = 0, os.getuid()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == user:
                total += len(os.listdir(entry / "task"))
    return total
