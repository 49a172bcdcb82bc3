"""What runs in the guest before the program: a script for its shell, and the files that it needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openrknn.board.files import BoardFiles, check_version, in_load_order, module_named
from openrknn.board.initramfs import Archive
from openrknn.board.nodes import bar_address, slot_of
from openrknn.errors import DeviceError

__all__ = ["EXIT_LINE", "NOT_LOADED", "READY_LINE", "Guest", "archive_of"]

EXIT_LINE = "openrknn-board: exit "
READY_LINE = "openrknn-board: ready"
NOT_LOADED = "openrknn-board: the kernel does not load "
_ROOT_MODULES = ("9pnet_virtio", "9p", "overlay")
_ELF_MACHINE, _AARCH64 = 18, 183
_PROGRAM = "/program"
_CONSOLE = "/dev/hvc0"
_BAR = 0x10
"""Of the configuration space."""


@dataclass(frozen=True)
class Guest:
    """A program and its surroundings."""

    command: Sequence[str]
    """The program is a file of this machine if there is no root, otherwise a path in the root."""
    modules: Sequence[Path]
    """Modules to load, after what they need."""
    cores: int
    has_root: bool = False
    has_share: bool = False
    is_interactive: bool = False
    texts: dict[str, bytes] = field(default_factory=dict)
    """Files for the program, by their path in a guest that has no root."""


def archive_of(guest: Guest, files: BoardFiles) -> bytes:
    """The guest's first file system."""
    archive = Archive()
    archive.file("bin/busybox", files.shell.read_bytes(), 0o755)
    archive.link("bin/sh", "busybox")
    for folder in ("proc", "sys", "dev", "root", "share", "tmp", "lower", "upper"):
        archive.folder(folder)
    archive.device("dev/console", 5, 1)
    wanted = [*guest.modules]
    if guest.has_root or guest.has_share:
        wanted = [*(module_named(name, files) for name in _ROOT_MODULES), *wanted]
    ordered = in_load_order(wanted, files.modules)
    for path in guest.modules:
        check_version(path, files)
    for path in ordered:
        archive.file(f"modules/{path.name}", path.read_bytes())
    command = list(guest.command)
    if command and not guest.has_root:
        archive.file(_PROGRAM[1:], _static_program(Path(command[0])), 0o755)
        command[0] = _PROGRAM
    for name, data in guest.texts.items():
        archive.file(name.lstrip("/"), data)
    archive.file("init", _script(guest, [path.name for path in ordered], command).encode(), 0o755)
    return archive.to_bytes()


def _static_program(path: Path) -> bytes:
    """A program that runs in a guest that has no libraries."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DeviceError(f"{path}: {error.strerror}; without --root PROGRAM is a file of this machine") from error
    if data[:4] == b"\x7fELF" and int.from_bytes(data[_ELF_MACHINE : _ELF_MACHINE + 2], "little") != _AARCH64:
        raise DeviceError(f"{path} is a program for another processor; the board has AArch64")
    if data[:4] == b"\x7fELF" and b"/lib/ld-linux-aarch64.so.1\0" in data[:65536]:
        advice = "link it statically, or name the folder of an arm64 system with --root"
        raise DeviceError(f"{path} needs libraries, which this guest does not have; {advice}")
    return data


def _script(guest: Guest, modules: Sequence[str], command: Sequence[str]) -> str:
    lines = [
        "#!/bin/busybox sh",
        "/bin/busybox --install -s /bin",
        "export PATH=/bin:/usr/bin:/sbin:/usr/sbin HOME=/root TERM=${TERM:-vt100}",
        "mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev",
        "mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm",
        "mount -t debugfs debug /sys/kernel/debug",
        "ip link set lo up",
        *(_place(core) for core in range(guest.cores)),
    ]
    give_up = "{{ echo '" + NOT_LOADED + "{0}' > /dev/kmsg; poweroff -f; }}"
    lines += [f"insmod /modules/{name} || {give_up.format(name)}" for name in modules]
    options = "trans=virtio,version=9p2000.L,msize=512000"
    if guest.has_root:
        lines += [
            f"mount -t 9p -o ro,{options},cache=loose root /lower",
            "mount -t tmpfs upper /upper; mkdir /upper/new /upper/work",
            "mount -t overlay -o lowerdir=/lower,upperdir=/upper/new,workdir=/upper/work root /root",
            "for folder in proc sys dev tmp share; do mkdir -p /root/$folder; done",
            "mount --rbind /proc /root/proc; mount --rbind /sys /root/sys; mount --rbind /dev /root/dev",
            "mount -t tmpfs tmp /root/tmp",
        ]
    share = "/root/share" if guest.has_root else "/share"
    if guest.has_share:
        lines.append(f"mount -t 9p -o {options} share {share}")
    lines.append(f"echo '{READY_LINE}' > /dev/kmsg")
    lines += _start(guest, command)
    return "\n".join([*lines, f'echo "{EXIT_LINE}$code" > /dev/kmsg', "sync", "poweroff -f", ""])


def _start(guest: Guest, command: Sequence[str]) -> list[str]:
    words = " ".join(map(shlex.quote, command)) or "/bin/sh -l"
    inner = f"chroot /root {words}" if guest.has_root else words
    if guest.is_interactive:
        return [f"setsid -c sh -c {shlex.quote(f'exec {inner}')} <{_CONSOLE} >{_CONSOLE} 2>&1", "code=$?"]
    return [f"stty raw -echo <{_CONSOLE}", f"{inner} <{_CONSOLE} >{_CONSOLE} 2>&1", "code=$?"]


def _place(core: int) -> str:
    """Put the BAR of a core where its nodes in the device tree are, and enable it."""
    device = f"/sys/bus/pci/devices/0000:00:{slot_of(core):02x}.0"
    address = "".join(f"\\x{byte:02x}" for byte in bar_address(core).to_bytes(4, "little"))
    write = f"printf '{address}' | dd of={device}/config bs=1 seek={_BAR} conv=notrunc 2>/dev/null"
    return f"{write}; echo 1 > {device}/enable"  # the kernel has to know: a suspend ends what it has not enabled
