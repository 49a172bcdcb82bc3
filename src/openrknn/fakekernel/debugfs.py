"""Files for people who look into the kernel: debugfs and procfs of the vendor's driver, lists of the DRM core.

Facts about the texts: rknpu_debugger.c and rknpu_mm.c of the vendor's driver 0.9.8, drm_debugfs.c of Linux 6.1.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.entries import Entry, Link, LiveText, Text
from openrknn.fakekernel.system import System
from openrknn.uapi import rknpu

__all__ = ["driver_files", "drm_files", "load_text"]


def drm_files(system: System, driver: DrmDriver) -> Iterator[Entry]:
    """The lists of the DRM core (drm_debugfs.c)."""
    folder = "/sys/kernel/debug/dri/1"
    yield Text(f"{folder}/name", f"{driver.name} dev={driver.unique} unique={driver.unique}\n")
    yield LiveText(f"{folder}/clients", lambda: _clients(system))
    yield LiveText(f"{folder}/gem_names", lambda: _gem_names(system))
    yield Link("/sys/kernel/debug/dri/129", "1")


def _clients(system: System) -> str:
    lines = [f"{'command':>20s} {'tgid':>5s} {'dev':>3s} master a {'uid':>5s} {'magic':>10s}\n"]
    for file in system.open_files():
        with contextlib.suppress(OSError):  # it may just have ended
            command = Path(f"/proc/{file.process}/comm").read_text().strip()
            owner = os.stat(f"/proc/{file.process}").st_uid
            numbers = f"{file.process:5d} {file.node.minor:3d}   n    {'n' if file.node.is_render else 'y'}"
            lines.append(f"{command:>20s} {numbers} {owner:5d} {file.number:10d}\n")
    return "".join(lines)


def _gem_names(system: System) -> str:
    rows = [
        f"{buffer.name:6d} {buffer.size:8d} {buffer.references:7d} {buffer.references + 1:8d}\n"
        for buffer in system.buffers
        if buffer.name
    ]
    return "".join(["  name     size handles refcount\n", *rows])


def driver_files(system: System) -> Iterator[Entry]:
    """Each file twice: in debugfs for root, in procfs for all."""
    version = ".".join(map(str, rknpu.VERSION))
    for folder in ("/sys/kernel/debug/rknpu", "/proc/rknpu"):
        yield Text(f"{folder}/version", f"{rknpu.DESCRIPTION}: v{version}\n")
        yield LiveText(f"{folder}/load", lambda: load_text(system))
        yield LiveText(f"{folder}/power", lambda: "on\n", lambda text: None)
        yield LiveText(f"{folder}/freq", lambda: f"{system.frequency}\n", lambda text: _set_frequency(system, text))
        yield LiveText(f"{folder}/volt", lambda: f"{system.board.microvolts}\n")
        yield LiveText(f"{folder}/delayms", lambda: f"{system.delay_ms}\n", lambda text: _set_delay(system, text))
        reset = LiveText(
            f"{folder}/reset", lambda: "on\n" if system.soft_reset else "off\n", lambda text: _reset(system, text)
        )
        yield reset
        yield Text(f"{folder}/mm", "")


def load_text(system: System) -> str:
    """The driver's `load`, to the letter."""
    loads = [meter.percent() for meter in system.scheduler.meters]
    if len(loads) == 1:
        return f"NPU load: {loads[0]:2d}%\n"
    return "NPU load: " + "".join(f" Core{core}: {load:2d}%," for core, load in enumerate(loads)) + "\n"


def _set_frequency(system: System, text: str) -> None:
    if text.strip().isdecimal() and int(text) in system.chip.clocks:
        system.frequency = int(text)


def _set_delay(system: System, text: str) -> None:
    if text.strip().isdecimal():
        system.delay_ms = int(text)


def _reset(system: System, text: str) -> None:
    match text.strip():
        case "on" | "off" as word:
            system.soft_reset = word == "on"
        case "1" if system.scheduler.link is not None:
            system.scheduler.link.reset()
