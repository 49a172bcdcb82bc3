"""Which NPUs there are, by the names of their drivers in sysfs: never by the number of a node.

The DRM nodes of rknpu are often card1 and renderD129, and on other boards they are not. Rocket's node belongs to a
device called "rknn", which stands for all cores; its cores are the devices that are bound to the driver "rocket".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from openrknn.monitor import files
from openrknn.monitor.reading import Node
from openrknn.records import dataclass

__all__ = ["Found", "find", "node_at"]

MISC_NODE = "/dev/rknpu"
_DRIVERS = "/sys/bus/platform/drivers"
_ROCKET_PARENT = "rknn"
_RKNPU_FOLDERS = ("/sys/module/rknpu", "/proc/rknpu", "/sys/kernel/debug/rknpu", f"{_DRIVERS}/RKNPU")


@dataclass(frozen=True, slots=True)
class Found:
    """A driver that has bound an NPU."""

    driver: str
    interface: str
    devices: tuple[str, ...]
    """Platform devices; rocket has one per core."""
    nodes: tuple[Node, ...]


def find(root: Path) -> Iterator[Found]:
    """Every NPU of the machine; without nodes where a driver is loaded and made none."""
    render = tuple(_minors(root, "drm", "dri", "rknpu"))
    misc = _misc(root)
    devices = tuple(_bound(root, "RKNPU"))
    if render:
        yield Found("rknpu", "drm", devices or _parents(root, "drm", render), render)
    elif misc:
        yield Found("rknpu", "misc", devices, (misc,))
    elif any(files.exists(root, path) for path in _RKNPU_FOLDERS):
        yield Found("rknpu", "drm", devices, ())
    accel = tuple(_minors(root, "accel", "accel", "rocket"))
    cores = tuple(_bound(root, "rocket"))
    if accel or cores:
        yield Found("rocket", "accel", cores or _parents(root, "accel", accel), accel)


def node_at(root: Path, path: str, kind: str) -> Node:
    """What is at this path; a link is looked at, not followed."""
    try:
        found = files.below(root, path).lstat()
    except OSError:
        return Node(path, kind, exists=False)
    is_device = stat.S_ISCHR(found.st_mode)
    return Node(
        path,
        kind,
        exists=True,
        major=os.major(found.st_rdev) if is_device else None,
        minor=os.minor(found.st_rdev) if is_device else None,
        mode=found.st_mode,
        user_id=found.st_uid,
        group_id=found.st_gid,
    )


def _minors(root: Path, subsystem: str, folder: str, driver: str) -> Iterator[Node]:
    for name in files.listed(root, f"/sys/class/{subsystem}"):
        place = f"/sys/class/{subsystem}/{name}"
        if not name.startswith(("card", "renderD", "accel")) or "-" in name:  # card0-HDMI-A-1 is a connector
            continue
        if _driver_of(root, place) == driver:
            kind = "render" if name.startswith("renderD") else "card" if name.startswith("card") else "accel"
            yield node_at(root, f"/dev/{folder}/{name}", kind)


def _driver_of(root: Path, place: str) -> str | None:
    device = f"{place}/device"
    for line in (files.text(root, f"{device}/uevent") or "").splitlines():
        if line.startswith("DRIVER="):
            return line.partition("=")[2].strip().lower()
    name = files.link_name(root, f"{device}/driver")
    if name is not None:
        return name.lower()
    return "rocket" if files.link_name(root, device) == _ROCKET_PARENT else None


def _parents(root: Path, subsystem: str, nodes: tuple[Node, ...]) -> tuple[str, ...]:
    names = (files.link_name(root, f"/sys/class/{subsystem}/{os.path.basename(node.path)}/device") for node in nodes)
    return tuple(dict.fromkeys(name for name in names if name))


def _bound(root: Path, driver: str) -> Iterator[str]:
    return (name for name in files.listed(root, f"{_DRIVERS}/{driver}") if name.endswith(".npu"))


def _misc(root: Path) -> Node | None:
    """/dev/rknpu of builds without DRM. A link there is a mistake, which the doctor names."""
    if os.path.islink(files.below(root, MISC_NODE)):
        return None
    if files.exists(root, MISC_NODE) or files.exists(root, "/sys/class/misc/rknpu"):
        return node_at(root, MISC_NODE, "misc")
    return None
