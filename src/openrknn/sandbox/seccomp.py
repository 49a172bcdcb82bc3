"""A seccomp filter: no sockets, no programs, no processes, nothing to other processes, no change of files' owners.

Landlock decides which files are opened; it knows neither UDP nor Unix sockets, nor chmod. Every system call of the list
fails with EPERM. Threads are allowed: `clone` with CLONE_THREAD; `clone3`, whose flags a filter cannot see, answers
ENOSYS, after which the C library uses `clone`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

__all__ = ["restrict"]

_SET_SECCOMP, _MODE_FILTER = 22, 2  # prctl(2), linux/prctl.h
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000  # linux/seccomp.h
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_THREAD, _EPERM, _ENOSYS = 0x00010000, 1, 38
_X32 = 0x40000000
"""Bit of the second set of system calls that x86-64 has."""

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_DENIED: dict[str, tuple[int, ...]] = {
    "x86_64": (
        41, 59, 322, 57, 58,  # socket, execve, execveat, fork, vfork
        101, 310, 311, 200, 129, 297, 424, 434, 438, 312, 440,  # ptrace and signals, memory, descriptors of others
        272, 308, 165, 166, 155, 161, 428, 429, 430, 431, 432, 442, 304,  # namespaces, mounts, open_by_handle_at
        248, 249, 250, 321, 298, 323, 425, 426, 427,  # keys, bpf, perf, userfaultfd, io_uring
        175, 313, 176, 246, 320, 169, 167, 168, 164, 227, 170, 171,  # modules, kexec, reboot, swap, clock, names
        29, 68, 64, 240,  # shared memory, queues and semaphores of System V and POSIX
        90, 91, 268, 452, 92, 93, 94, 260, 188, 189, 190, 197, 198, 199, 132, 235, 261, 280, 133, 259,  # metadata
    ),
    "aarch64": (
        198, 221, 281,
        117, 270, 271, 130, 138, 240, 424, 434, 438, 272, 440,
        97, 268, 40, 39, 41, 51, 428, 429, 430, 431, 432, 442, 265,
        217, 218, 219, 280, 241, 282, 425, 426, 427,
        105, 273, 106, 104, 294, 142, 224, 225, 170, 112, 161, 162,
        194, 186, 190, 180,
        52, 53, 452, 54, 55, 5, 6, 7, 14, 15, 16, 88, 33,
    ),
}  # fmt: skip
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_OWN = {"x86_64": (62, 234), "aarch64": (129, 131)}
"""kill and tgkill: to this process only."""
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
"""Of this process (0) only."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def restrict() -> bool:
    """Whether the kernel took the filter. It needs `no_new_privs`."""
    machine = platform.machine()
    if machine not in _MACHINES or sys.maxsize < 2**32:
        return False
    code = b"".join(_program(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), 0, 0) == 0)


def _program(machine: str) -> list[bytes]:
    refuse, absent = _step(_RETURN, _ERROR | _EPERM), _step(_RETURN, _ERROR | _ENOSYS)
    made = [
        _step(_LOAD, _MACHINE_AT),
        _step(_EQUAL, _MACHINES[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
    ]
    if machine == "x86_64":
        made += [_step(_AT_LEAST, _X32, 0, 1), refuse]
    for number in _DENIED[machine]:
        made += [_step(_EQUAL, number, 0, 1), refuse]
    made += [_step(_EQUAL, _CLONE3, 0, 1), absent]
    made += [_step(_EQUAL, _CLONE[machine], 0, 3), _step(_LOAD, _FIRST_ARGUMENT_AT), _step(_HAS_BITS, _THREAD, 1, 0)]
    made += [refuse]
    made += [_step(_LOAD, _NUMBER_AT)]
    for number, allowed in (*((number, os.getpid()) for number in _OWN[machine]), (_PRLIMIT[machine], 0)):
        made += [_step(_EQUAL, number, 0, 4), _step(_LOAD, _FIRST_ARGUMENT_AT), _step(_EQUAL, allowed, 1, 0), refuse]
        made += [_step(_LOAD, _NUMBER_AT)]
    return [*made, _step(_RETURN, _ALLOW)]


def _step(code: int, value: int, jump: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump, otherwise, value)
