"""Programs of the other architecture, by qemu's user emulation and the kernel's table of foreign programs."""

from __future__ import annotations

import contextlib
import fcntl
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from packing.errors import PackingError

_TABLE = Path("/proc/sys/fs/binfmt_misc")
_LOCKS = Path("/run/lock")
_MACHINES = {"amd64": ("x86_64", 0x3E), "arm64": ("aarch64", 0xB7)}
"""qemu's name of a processor, and its number in the head of a program."""


def registration(architecture: str, emulator: str) -> bytes:
    """The line for the kernel's table. F: the emulator is opened now, so that roots need none of their own."""
    name, number = _MACHINES[architecture]
    # 64 bits, little end first, version 1, any system; a program or a shared object for this processor.
    magic = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + bytes([number, 0])
    mask = b"\xff" * 7 + b"\x00" + bytes(8) + b"\xfe\xff" + b"\xff\xff"
    escaped = ["".join(f"\\x{byte:02x}" for byte in part) for part in (magic, mask)]
    return f":openrknn-{name}:M::{escaped[0]}:{escaped[1]}:{emulator}:F".encode()


@contextmanager
def emulated(architecture: str) -> Iterator[None]:
    """While this is open, programs of that architecture run. Nothing is done for this machine's own."""
    name, _ = _MACHINES[architecture]
    if platform.machine() == name:
        yield
        return
    if not (_TABLE / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(_TABLE)], check=True)
    if (_TABLE / f"qemu-{name}").exists():
        yield  # the system's own entry
        return
    entry = _TABLE / f"openrknn-{name}"
    with (_LOCKS / f"openrknn-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # several runs share one entry
        if not entry.exists():
            _register(architecture, name)
        try:
            yield
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the last one takes it away
                if entry.exists():
                    entry.write_text("-1")


def _register(architecture: str, name: str) -> None:
    emulator = shutil.which(f"qemu-{name}-static") or shutil.which(f"qemu-{name}")
    if emulator is None:
        raise PackingError(f"programs for {architecture} need an emulator; on Debian: apt install qemu-user-static")
    (_TABLE / "register").write_bytes(registration(architecture, emulator))
