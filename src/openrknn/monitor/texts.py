"""The texts of the drivers' files, read to the letter and with patience for the odd ones.

Facts: rknpu_debugger.c of the vendor's driver 0.9.8 (load, mm, version), devfreq's `load` of the vendor's kernels,
/proc/interrupts and /proc/meminfo; loads above 100 % were seen with old drivers (rockchip-linux/rknn-toolkit2#293).
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Sram", "devfreq_load", "driver_version", "interrupts", "loads", "meminfo", "rga_loads", "sram", "switch"]

_CORE = re.compile(r"Core\s*(\d{1,3})\s*:\s*(\d{1,9})\s*%")
_WHOLE = re.compile(r"NPU load\s*:\s*(\d{1,9})\s*%")
_DEVFREQ = re.compile(r"\s*(\d{1,9})@(\d{1,15})(?:Hz)?")
_VERSION = re.compile(r"v?(\d{1,4}(?:\.\d{1,4}){1,3})")
_SRAM = re.compile(r"SRAM total size:\s*(\d{1,15}),\s*used:\s*(\d{1,15}),\s*free:\s*(\d{1,15})")
_SCHEDULER = re.compile(r"scheduler\[\d{1,3}\]:\s*(\w{1,32})\s+load = (\d{1,3})\s*%")
_SWITCH = {"on": True, "off": False}


class Sram(NamedTuple):
    """The NPU's own fast memory."""

    total_bytes: int
    used_bytes: int
    free_bytes: int


def loads(text: str) -> dict[int, int]:
    """`load`: core -> percent as written. "NPU load:  Core0:  0%, Core1: 63%," or "NPU load:  7%" (core 0)."""
    found = {int(core): int(percent) for core, percent in _CORE.findall(text)}
    if found:
        return found
    whole = _WHOLE.search(text)
    return {0: int(whole[1])} if whole else {}


def devfreq_load(text: str) -> tuple[int, int] | None:
    """`load` of devfreq: "47@200000000Hz" -> percent, Hz."""
    match = _DEVFREQ.match(text)
    return (int(match[1]), int(match[2])) if match else None


def driver_version(text: str) -> str | None:
    """ "RKNPU driver: v0.9.8" or "0.9.8" -> "0.9.8"."""
    match = _VERSION.search(text)
    return match[1] if match else None


def rga_loads(text: str) -> list[tuple[str, int]]:
    """`load` of RGA: "scheduler[0]: rga3_core0", and in the next line "load = 42%". Old drivers give both "rga3"."""
    return [(name, int(percent)) for name, percent in _SCHEDULER.findall(text)]


def sram(text: str) -> Sram | None:
    """The last line of `mm`; the file is empty on boards without SRAM for the NPU."""
    match = _SRAM.search(text)
    return Sram(*map(int, match.groups())) if match else None


def switch(text: str) -> bool | None:
    """ "on" or "off"."""
    return _SWITCH.get(text.strip())


def interrupts(text: str) -> dict[str, int]:
    """/proc/interrupts: name of the device -> interrupts on all processors."""
    lines = text.splitlines()
    processors = len(lines[0].split()) if lines else 0
    found: dict[str, int] = {}
    for line in lines[1:]:
        parts = line.split()
        counts = [part for part in parts[1 : processors + 1] if part.isdigit()]
        if len(counts) == processors and len(parts) > processors + 1:
            for name in parts[-1].split(","):
                found[name] = found.get(name, 0) + sum(map(int, counts))
    return found


def meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in bytes."""
    rows = (line.partition(":") for line in text.splitlines())
    found = {}
    for name, _, rest in rows:
        parts = rest.split()
        if parts and parts[0].isdigit():
            found[name] = int(parts[0]) * (1024 if parts[1:] == ["kB"] else 1)
    return found
