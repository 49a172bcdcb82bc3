"""Namespaces, folders and addresses of our own: nothing of the machine is touched, and the kernel removes everything.

What is left are empty cgroups, which `remove_cgroups` removes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

NODE_ADDRESS, SERVICE_ADDRESS = "10.99.0.1", "10.96.0.1"
_DEVICES = (
    ("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("kmsg", 1, 11),
    ("tty", 5, 0), ("accel/accel0", 1, 5),
)  # fmt: skip


def enter(script: str, words: list[str], *, network: bool) -> int:
    """Run the script again in namespaces of its own; how it ended."""
    own = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if network:
        own.append("--net")
    code = subprocess.run([*own, sys.executable, script, "inside", *words], check=False).returncode
    remove_cgroups()
    return code


def own_folders() -> None:
    """In this mount namespace only: empty folders where the kubelet writes, and a /dev with a node for the fake NPU."""
    for place in ("/var/lib", "/var/log", "/dev", "/run"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    os.umask(0)
    for name, major, minor in _DEVICES:
        (Path("/dev") / name).parent.mkdir(exist_ok=True)
        os.mknod(f"/dev/{name}", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    for name in ("pts", "shm", "mqueue"):
        (Path("/dev") / name).mkdir()
    Path("/dev/fd").symlink_to("/proc/self/fd")
    os.umask(0o022)


def own_addresses() -> None:
    """In this network namespace only: the node's address, and that of the API server's service.

    The API server listens on both, so that pods reach it without a kube-proxy.
    """
    for words in (
        ["link", "set", "lo", "up"],
        ["address", "add", f"{NODE_ADDRESS}/32", "dev", "lo"],
        ["address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo"],
    ):
        subprocess.run(["ip", *words], check=True)
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def fake_board(board: Path) -> Path:
    """A tree with rocket and a device node that can really be read: /dev/zero under another name."""
    for path in ("sys/devices/platform/rknn/accel/accel0", "sys/class/accel", "dev/accel", "proc"):
        (board / path).mkdir(parents=True)
    (board / "sys/devices/platform/rknn/accel/accel0/device").symlink_to("../../../rknn")
    (board / "sys/class/accel/accel0").symlink_to("../../devices/platform/rknn/accel/accel0")
    add_node(board)
    return board


def add_node(board: Path) -> None:
    """The fake NPU's device node."""
    os.mknod(board / "dev/accel/accel0", 0o666 | stat.S_IFCHR, os.makedev(1, 5))


def unmount(work: Path) -> None:
    """Containers' file systems, so that the folder can be removed."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        place = line.split()[1]
        if place.startswith(str(work)):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def remove_cgroups() -> None:
    """What containers leave: empty groups whose names are 64 hex digits."""
    for group in Path("/sys/fs/cgroup").glob("**/" + "[0-9a-f]" * 64):
        with contextlib.suppress(OSError):
            group.rmdir()
    for group in Path("/sys/fs/cgroup").glob("*/k8s.io"):
        with contextlib.suppress(OSError):
            group.rmdir()
