"""Which devices a node offers: whole NPUs in shares, or their cores.

A core is a promise, not a wall: all cores are behind one device node, and a program that ignores OPENRKNN_CORE_MASK can
use them all. Rocket has no way to name a core, so it is only offered in shares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn import monitor
from openrknn.chips import CHIPS, chip_named
from openrknn.monitor import Npu, files

__all__ = ["Offer", "Settings", "Unit", "offers", "units"]

_SAFE_VERSION = (0, 9, 8)
"""Older drivers crashed boards with several clients."""
_COMPATIBLE = "/sys/firmware/devicetree/base/compatible"
_NAME = re.compile(r"[^a-zA-Z0-9-]+")


@dataclass(frozen=True)
class Settings:
    """What the administrator chose."""

    root: Path = Path("/")
    """Where the host's /dev, /sys and /proc are seen."""
    resource: str = "rockchip.com/npu"
    strategy: str = "shares"
    """shares, or cores (rknpu with several cores)."""
    shares: int | None = None
    """None: one per core with rknpu from 0.9.8 on and with rocket, else 1."""
    software: int = 0
    """How many software NPUs to offer, for laptops and tests."""
    software_chip: str = "rk3588"
    dra_shares: str = "devices"
    """DRA: each share is a device (devices), or the NPU is one that may be given out several times (capacity)."""
    taint_effect: str = "NoSchedule"
    """DRA: what an NPU that is not well does to claims: NoSchedule, NoExecute (its pods are evicted) or None."""


@dataclass(frozen=True)
class Unit:
    """One NPU of the node."""

    name: str
    """ "npu0"."""
    device: str
    """The platform device, "fdab0000.npu"; for a software NPU its chip."""
    driver: str
    interface: str
    soc: str | None
    version: str | None
    cores: int
    nodes: tuple[str, ...]
    """Paths on the host."""
    compatible: str | None = None
    """The host's file that tells the chip, if there is one."""

    @property
    def open_as(self) -> str:
        """What openrknn opens: "rknpu:/dev/dri/renderD129"."""
        if self.driver == "software":
            return "software"
        best = sorted(self.nodes, key=lambda path: "/card" in path or "/dma_heap/" in path)
        return f"{self.driver}:{best[0]}" if best else self.driver


@dataclass(frozen=True)
class Offer:
    """What one request gets: a share of an NPU, or some of its cores."""

    id: str
    unit: Unit
    core_mask: int = 0
    """0: all."""
    is_alone: bool = False
    """DRA: no counters, because nothing that is offered overlaps."""


def units(settings: Settings) -> tuple[Unit, ...]:
    """The NPUs of the node, by the names of their drivers; then the software ones."""
    reading = monitor.read(settings.root)
    real = [npu for npu in reading.npus if npu.driver != "software"]
    found = [_unit(settings, number, npu, reading.soc) for number, npu in enumerate(real)]
    chip = chip_named(settings.software_chip)
    for number in range(settings.software):
        found.append(Unit(f"soft{number}", chip.name, "software", "process", chip.name, None, chip.cores, ()))
    return tuple(found)


def _unit(settings: Settings, number: int, npu: Npu, soc: str | None) -> Unit:
    nodes = [node.path for node in npu.nodes]
    if npu.interface == "misc":
        nodes += [f"/dev/dma_heap/{heap}" for heap in files.listed(settings.root, "/dev/dma_heap")]
    cores = CHIPS[soc].cores if soc else len(npu.cores)
    compatible = _COMPATIBLE if files.exists(settings.root, _COMPATIBLE) else None
    return Unit(f"npu{number}", npu.name, npu.driver, npu.interface, soc, npu.version, cores, tuple(nodes), compatible)


def offers(settings: Settings, of: Sequence[Unit]) -> tuple[Offer, ...]:
    """What the node offers; names stay the same over restarts."""
    return tuple(offer for unit in of for offer in _offers(settings, unit))


def _offers(settings: Settings, unit: Unit) -> Iterator[Offer]:
    # 63 characters is the most that a device's name may have.
    name = _NAME.sub("-", f"{unit.name}-{unit.device}")[:50]
    if settings.strategy == "cores" and unit.driver != "rocket" and unit.cores > 1:
        yield from (Offer(f"{name}-core{core}", unit, 1 << core) for core in range(unit.cores))
    else:
        yield from (Offer(f"{name}-{share}", unit) for share in range(settings.shares or default_shares(unit)))


def default_shares(unit: Unit) -> int:
    """As many clients as are known to be safe and useful."""
    if unit.driver == "software":
        return 1
    version = tuple(int(part) for part in (unit.version or "").split(".") if part.isdigit())
    if unit.driver == "rknpu" and version < _SAFE_VERSION:
        return 1
    return unit.cores
