"""QEMU: which one to start, and how."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn.errors import DeviceError

__all__ = ["QEMU_VARIABLE", "Machine", "Qemu", "find_qemu"]

QEMU_VARIABLE = "OPENRKNN_QEMU"
"""The program to start, if it is not the one in PATH."""
_PROGRAM = "qemu-system-aarch64"
_DEVICE = "vfio-user-pci"
_SECONDS = 60
_NEEDED = f"a virtual board needs QEMU 10.1 or newer with the device {_DEVICE}"
_ADVICE = "`openrknn board setup` unpacks Debian's into the cache, or name one in OPENRKNN_QEMU"
_MESSAGE_MILLISECONDS = 600_000
"""A job may take long, and an access to a register waits for it."""


@dataclass(frozen=True)
class Qemu:
    """How to start it."""

    command: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class Machine:
    """The guest's machine."""

    memory_megabytes: int = 1024
    is_real_time: bool = False
    """The guest's clock goes on while the NPU computes; otherwise it counts instructions."""

    def options(self) -> list[str]:
        """Of QEMU, for the machine without its devices."""
        is_native = platform.machine() == "aarch64" and os.access("/dev/kvm", os.R_OK | os.W_OK)
        size = f"{self.memory_megabytes}M"
        backend = f"memory-backend-memfd,id=ram,size={size},share=on"
        uses_kvm = is_native and self.is_real_time
        gic = "host" if uses_kvm else "3"  # KVM can have that of the machine only
        options = ["-M", f"virt,gic-version={gic},memory-backend=ram", "-m", size, "-object", backend, "-smp", "1"]
        if uses_kvm:
            return [*options, "-accel", "kvm", "-cpu", "host"]
        options += ["-accel", "tcg", "-cpu", "cortex-a76"]
        return options if self.is_real_time else [*options, "-icount", "shift=0,sleep=off"]


def find_qemu(unpacked: Path | None) -> Qemu:
    """The one that the user names, the one in PATH, or the one that `openrknn board setup` has unpacked."""
    named = os.environ.get(QEMU_VARIABLE, "")
    if named:
        return _checked((named,))
    problem = f"there is no {_PROGRAM} in PATH"
    system = shutil.which(_PROGRAM)
    if system is not None:
        try:
            return _checked((system,))
        except DeviceError as error:
            problem = str(error)
    command = _unpacked_command(unpacked)
    if command is None:
        raise DeviceError(f"{problem}; {_NEEDED}: {_ADVICE}")
    return _checked(command)


def device_option(socket: Path, slot: int) -> list[str]:
    """A device that another process serves."""
    return [
        "-device",
        json.dumps({
            "driver": _DEVICE, "addr": f"{slot:x}", "x-msg-timeout": _MESSAGE_MILLISECONDS, "x-no-posted-writes": True,
            "socket": {"path": str(socket), "type": "unix"},
        }),
    ]  # fmt: skip


def device_tree_of(qemu: Qemu, machine: Machine, path: Path) -> bytes:
    """The device tree that QEMU would give to the guest."""
    options = [option + f",dumpdtb={path}" if option.startswith("virt,") else option for option in machine.options()]
    done = _run([*qemu.command, *options, "-nodefaults", "-display", "none"])
    if done.returncode or not path.exists():
        raise DeviceError(f"{qemu.command[0]} does not write a device tree: {done.stderr.strip()}")
    return path.read_bytes()


def _checked(command: Sequence[str]) -> Qemu:
    """QEMU, if it has the device."""
    try:
        version = _run([*command, "--version"])
        devices = _run([*command, "-M", "virt", "-device", "help"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{command[0]} does not start: {error}; {_NEEDED}: {_ADVICE}") from error
    first = (version.stdout or version.stderr).partition("\n")[0].strip()
    if version.returncode:
        raise DeviceError(f"{command[0]} does not start: {first}; {_NEEDED}: {_ADVICE}")
    if f'"{_DEVICE}"' not in devices.stdout:
        raise DeviceError(f"{command[-1]} is {first}; {_NEEDED}: {_ADVICE}")
    return Qemu(tuple(command), first)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def _unpacked_command(root: Path | None) -> tuple[str, ...] | None:
    """Debian's packages in a folder: with their own loader and libraries, whatever this system has."""
    if root is None:
        return None
    program = root / "usr/bin" / _PROGRAM
    machine = platform.machine()
    libraries = root / f"usr/lib/{machine}-linux-gnu"
    loaders = [*libraries.glob("ld-linux-*.so.*"), *(root / "usr/lib").glob("ld-linux-*.so.*")]
    if not program.exists() or not loaders:
        return None
    data = root / "usr/share/qemu"
    return str(loaders[0]), "--library-path", str(libraries), str(program), "-L", str(data)
