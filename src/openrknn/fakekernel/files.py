"""The files that programs look at: device nodes, sysfs and the device tree of the board, in the kernel's words.

Facts about the texts: drivers/devfreq/devfreq.c, and what libdrm and the vendor's tools look for.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import NamedTuple

from openrknn.fakekernel.debugfs import driver_files, drm_files
from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.entries import Device, Entry, Link, LiveText, Text
from openrknn.fakekernel.file import Driver
from openrknn.fakekernel.heap import HEAPS
from openrknn.fakekernel.rga import Rga, load_text
from openrknn.fakekernel.system import System
from openrknn.uapi import rga as uapi_rga
from openrknn.uapi import rknpu

__all__ = ["entries", "hidden_paths"]

DRM_MAJOR = 226
ACCEL_MAJOR = 261
MISC_MAJOR = 10
HEAP_MAJOR = 251
VIDEO_MAJOR = 81
_CAMERA = "video0"
_PLATFORM = "/sys/devices/platform"
_ROCKET_PARENT = "rknn"
_GOVERNORS = "userspace powersave performance simple_ondemand rknpu_ondemand"


class _Drm(NamedTuple):
    """A DRM minor."""

    name: str
    number: int
    folder: str
    """Of the node below /dev."""
    major: int


def entries(
    system: System, driver: Driver, others: tuple[Driver, Rga, Driver | None], library: str | None
) -> Iterator[Entry]:
    """Every emulated file of a board with this driver; `others`: dma-heaps, RGA, and a camera if there is one."""
    heap, rga, camera = others
    if camera is not None:
        yield Device(f"/dev/{_CAMERA}", camera, VIDEO_MAJOR, 0)
        yield Text(f"/sys/class/video4linux/{_CAMERA}/name", "Emulated camera\n")
        yield Text(f"/sys/class/video4linux/{_CAMERA}/dev", f"{VIDEO_MAJOR}:0\n")
    is_rocket = driver.table.name == "rocket"
    yield from _device_tree(system, is_rocket=is_rocket)
    if library:
        yield Link("/usr/lib/librknnrt.so", library)
    if is_rocket:
        yield from _rocket(system, driver)
        return
    for name in HEAPS:
        yield Device(f"/dev/dma_heap/{name}", heap, HEAP_MAJOR, HEAPS.index(name))
    if rga.cores:
        yield from _rga(rga)
    if driver.table.name == "rknpu_misc":
        yield Device("/dev/rknpu", driver, MISC_MAJOR, 120)
    else:
        for drm in (_Drm("card1", 1, "/dev/dri", DRM_MAJOR), _Drm("renderD129", 129, "/dev/dri", DRM_MAJOR)):
            yield from _minor(system, driver, drm, "RKNPU", "drm")
            kind = "render" if drm.number >= 128 else "card"
            yield Link(f"/dev/dri/by-path/platform-{system.board.npu}-{kind}", f"../{drm.name}")
        yield Text("/sys/class/drm/version", "drm 1.1.0 20060810\n")
        assert isinstance(driver, DrmDriver)
        yield from drm_files(system, driver)
    yield Text("/sys/module/rknpu/version", ".".join(map(str, rknpu.VERSION)) + "\n")
    yield from driver_files(system)
    yield from _devfreq(system)


def hidden_paths(system: System, driver: Driver, camera: Driver | None = None) -> list[str]:
    """What is emulated as a whole: nothing of the real machine shows below these."""
    npu = system.board.npu
    common = [f"/dev/{_CAMERA}", "/sys/class/video4linux"] if camera is not None else []
    common += ["/proc/device-tree", "/sys/firmware/devicetree", f"/sys/devices/platform/{npu}"]
    common += [f"/sys/bus/platform/devices/{npu}", "/usr/lib/librknnrt.so", "/dev/accel", "/sys/class/accel"]
    if driver.table.name == "rocket":
        names = (*system.board.cores, _ROCKET_PARENT)
        cores = [f"{folder}/{name}" for name in names for folder in (_PLATFORM, "/sys/bus/platform/devices")]
        drivers = ["/sys/bus/platform/drivers/rocket", "/sys/bus/platform/drivers/RKNPU", "/sys/module/rknpu"]
        return [*common, *cores, *drivers, f"/sys/dev/char/{ACCEL_MAJOR}:0"]
    drm = ["/dev/dri", "/sys/class/drm", f"/sys/dev/char/{DRM_MAJOR}:1", f"/sys/dev/char/{DRM_MAJOR}:129"]
    drm += ["/sys/kernel/debug/dri"]
    other = ["/dev/rknpu", "/dev/dma_heap", "/sys/module/rknpu", "/sys/kernel/debug/rknpu", "/proc/rknpu"]
    other += ["/dev/rga", "/sys/kernel/debug/rkrga", "/proc/rkrga"]
    return [*common, *drm, *other, "/sys/class/devfreq", "/sys/bus/platform/drivers/RKNPU"]


def _device_tree(system: System, *, is_rocket: bool) -> Iterator[Entry]:
    board, title = system.board, system.chip.title
    base = "/proc/device-tree"
    yield Text(f"{base}/compatible", f"openrknn,{board.soc}\0rockchip,{board.soc}\0")
    yield Text(f"{base}/model", f"{title} board, emulated by openrknn\0")
    for npu in board.cores if is_rocket else (board.npu,):
        place = f"{base}/npu@{npu.partition('.')[0]}"
        yield Text(f"{place}/compatible", f"{board.core_compatible if is_rocket else board.compatible}\0")
        yield Text(f"{place}/status", "okay\0")
    yield Link("/sys/firmware/devicetree/base", "../../../proc/device-tree")


def _rocket(system: System, driver: Driver) -> Iterator[Entry]:
    """The mainline driver: a device for each core, and one without hardware, "rknn", that has the node of all."""
    board = system.board
    yield from _node(driver, _Drm("accel0", 0, "/dev/accel", ACCEL_MAJOR), "accel", _ROCKET_PARENT)
    yield Text(f"{_PLATFORM}/{_ROCKET_PARENT}/uevent", f"MODALIAS=platform:{_ROCKET_PARENT}\n")
    yield Link(f"{_PLATFORM}/{_ROCKET_PARENT}/subsystem", "../../../bus/platform")
    yield Link(f"/sys/bus/platform/devices/{_ROCKET_PARENT}", f"../../../devices/platform/{_ROCKET_PARENT}")
    for npu in board.cores:
        address = npu.partition(".")[0]
        yield from _bound(npu, "rocket", _uevent("rocket", address, board.core_compatible))
        yield Text(f"{_PLATFORM}/{npu}/of_node/compatible", f"{board.core_compatible}\0")


def _minor(system: System, driver: Driver, drm: _Drm, module: str, kind: str) -> Iterator[Entry]:
    """A DRM node of the vendor's driver with its place in sysfs."""
    board = system.board
    yield from _node(driver, drm, kind, board.npu)
    yield from _bound(board.npu, module, _uevent(module, board.address, board.compatible))


def _node(driver: Driver, drm: _Drm, kind: str, parent: str) -> Iterator[Entry]:
    """A DRM node with its place in sysfs, as libdrm walks through it."""
    place = f"{_PLATFORM}/{parent}/{kind}/{drm.name}"
    number = f"{drm.major}:{drm.number}"
    is_render = drm.major == DRM_MAJOR and drm.number >= 128
    # Root's alone on a board until udev comes; everybody's here, as after udev.
    yield Device(f"{drm.folder}/{drm.name}", driver, drm.major, drm.number, stat.S_IFCHR | 0o666, is_render)
    yield Text(f"{place}/dev", f"{number}\n")
    name = drm.folder.removeprefix("/dev/") + "/" + drm.name
    yield Text(f"{place}/uevent", f"MAJOR={drm.major}\nMINOR={drm.number}\nDEVNAME={name}\nDEVTYPE={kind}_minor\n")
    yield Link(f"{place}/device", f"../../../{parent}")
    yield Link(f"{place}/subsystem", f"../../../../../class/{kind}")
    yield Link(f"/sys/class/{kind}/{drm.name}", f"../../devices/platform/{parent}/{kind}/{drm.name}")
    yield Link(f"/sys/dev/char/{number}", f"../../devices/platform/{parent}/{kind}/{drm.name}")


def _bound(npu: str, module: str, uevent: str) -> Iterator[Entry]:
    """A platform device that a driver has bound."""
    platform = f"{_PLATFORM}/{npu}"
    yield Text(f"{platform}/uevent", uevent)
    yield Link(f"{platform}/subsystem", "../../../bus/platform")
    yield Link(f"{platform}/driver", f"../../../bus/platform/drivers/{module}")
    yield Link(f"/sys/bus/platform/devices/{npu}", f"../../../devices/platform/{npu}")
    yield Link(f"/sys/bus/platform/drivers/{module}/{npu}", f"../../../../devices/platform/{npu}")


def _uevent(module: str, address: str, compatible: str) -> str:
    return (
        f"DRIVER={module}\nOF_NAME=npu\nOF_FULLNAME=/npu@{address}\n"
        f"OF_COMPATIBLE_0={compatible}\nOF_COMPATIBLE_N=1\nMODALIAS=of:NnpuT(null)C{compatible}\n"
    )


def _rga(driver: Rga) -> Iterator[Entry]:
    """RGA with its files for people, in debugfs for root and in procfs for all."""
    yield Device(uapi_rga.NODE, driver, MISC_MAJOR, 121, stat.S_IFCHR | 0o666)
    version = ".".join(map(str, uapi_rga.DRIVER_VERSION))
    for folder in ("/sys/kernel/debug/rkrga", "/proc/rkrga"):
        yield Text(f"{folder}/driver_version", f"RGA multicore Device Driver: v{version}\n")
        yield LiveText(f"{folder}/load", lambda: load_text(driver))


def _devfreq(system: System) -> Iterator[Entry]:
    folder = f"/sys/class/devfreq/{system.board.npu}"
    steps = system.chip.clocks
    yield LiveText(f"{folder}/cur_freq", lambda: f"{system.frequency}\n")
    yield LiveText(f"{folder}/target_freq", lambda: f"{system.frequency}\n")
    yield Text(f"{folder}/min_freq", f"{steps[0]}\n")
    yield Text(f"{folder}/max_freq", f"{steps[-1]}\n")
    yield Text(f"{folder}/available_frequencies", " ".join(map(str, steps)) + "\n")
    yield Text(f"{folder}/available_governors", f"{_GOVERNORS}\n")
    yield Text(f"{folder}/polling_interval", "50\n")
    yield Text(f"{folder}/name", f"{system.board.npu}\n")
    yield LiveText(f"{folder}/governor", lambda: f"{system.governor}\n", lambda text: _set_governor(system, text))
    yield LiveText(f"{folder}/load", lambda: f"{_highest_load(system)}@{system.frequency}Hz\n")
    yield LiveText(f"{folder}/trans_stat", lambda: _transitions(system))
    yield Link(f"{folder}/device", f"../../../devices/platform/{system.board.npu}")


def _highest_load(system: System) -> int:
    return max(meter.percent() for meter in system.scheduler.meters)


def _transitions(system: System) -> str:
    """A clock that has never changed."""
    steps = system.chip.clocks
    lines = ["     From  :   To", "           :" + "".join(f"{step:10d}" for step in steps) + "   time(ms)"]
    for step in steps:
        mark = "*" if step == system.frequency else " "
        lines.append(f"{mark}{step:10d}:" + "".join(f"{0:10d}" for _ in steps) + f"{0:10d}")
    return "\n".join([*lines, "Total transition : 0", ""])


def _set_governor(system: System, text: str) -> None:
    if text.strip() in _GOVERNORS.split():
        system.governor = text.strip()
