"""ResourceSlices: what a node offers, in the words of dynamic resource allocation.

Cores are counters: RK3588 has three, and five ways to use them (each alone, 0 and 1, all), which are the masks that its
driver starts. A claim for one way takes its counters, and the scheduler sees what is left. Counters and devices have to
be in different slices of the pool. Shares are devices of their own, or one device that may be given out several times
(consumable capacity). What the API server does not know is done without: see `features`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openrknn.kubernetes.features import ALL, Features
from openrknn.kubernetes.health import code
from openrknn.kubernetes.inventory import Offer, Settings, Unit, default_shares

__all__ = ["SHARES", "TAINT", "Pool", "parts", "pool"]

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
TAINT = "npu.rockchip.com/unhealthy"
SHARES = "shares"
"""The capacity of an NPU that is shared."""
_MOST_DEVICES = 64
"""In one slice, if they have taints or counters."""
_MOST_COUNTERS = 8


@dataclass(frozen=True)
class Pool:
    """The devices of a node, and how they are published."""

    offers: tuple[Offer, ...]
    shares: Mapping[str, int]
    """Devices that may be given out several times, and how often."""
    effect: str = "NoSchedule"

    def contents(self, reasons: Mapping[str, str | None]) -> list[dict[str, Any]]:
        """What the slices hold, in order. NPUs that are not well are in it with a taint."""
        devices = [self._device(offer, reasons.get(offer.unit.name)) for offer in self.offers]
        counted = dict.fromkeys(offer.unit for offer in self.offers if _is_counted(offer))
        sets = [_counters(unit) for unit in counted]
        found = [{"sharedCounters": list(some)} for some in _cut(sets, _MOST_COUNTERS)]
        found += [{"devices": list(some)} for some in _cut(devices, _MOST_DEVICES)]
        return found or [{"devices": []}]

    def _device(self, offer: Offer, reason: str | None) -> dict[str, Any]:
        unit = offer.unit
        cores = [core for core in range(unit.cores) if offer.core_mask >> core & 1]
        attributes: dict[str, Any] = {
            "driver": {"string": unit.driver},
            "npu": {"string": unit.name},
            "cores": {"int": len(cores) or unit.cores},
            "shared": {"bool": not cores},
            "soc": {"string": unit.soc or "unknown"},
        }
        # Every device has every attribute: an expression that reads one that is not there is an error, and then the
        # scheduler places the pod nowhere, not even on devices that match.
        version = _VERSION.match(unit.version or "")
        attributes["driverVersion"] = {
            "version": ".".join(part or "0" for part in version.groups()) if version else "0.0.0"
        }
        device: dict[str, Any] = {"name": offer.id, "attributes": attributes}
        if _is_counted(offer):
            consumed = {f"core-{core}": {"value": "1"} for core in cores}
            device["consumesCounters"] = [{"counterSet": unit.name, "counters": consumed}]
        if offer.id in self.shares:
            device["allowMultipleAllocations"] = True
            policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
            count = self.shares[offer.id]
            # One share alone: a range with a step would be larger than the capacity.
            given = {"value": str(count), **({"requestPolicy": policy} if count > 1 else {})}
            device["capacity"] = {SHARES: given}
        if reason is not None:
            device["taints"] = [{"key": TAINT, "value": code(reason), "effect": self.effect}]
        return device


def pool(
    settings: Settings, units: Sequence[Unit], reasons: Mapping[str, str | None], features: Features = ALL
) -> Pool:
    """What to publish. Without taints an NPU that is not well is left out."""
    shown = [unit for unit in units if features.taints or reasons.get(unit.name) is None]
    shares: dict[str, int] = {}
    offers: list[Offer] = []
    for unit in shown:
        if settings.strategy == "cores" and unit.driver != "rocket" and unit.cores > 1:
            # Sets that overlap need counters; single cores are devices like any other.
            offers += [offer for offer in _core_sets(unit) if features.counters or offer.core_mask.bit_count() == 1]
        elif settings.dra_shares == "capacity" and features.capacity:
            offers.append(Offer(unit.name, unit))
            shares[unit.name] = settings.shares or default_shares(unit)
        else:
            offers += _shares(settings, unit)
    if not features.counters:
        offers = [Offer(offer.id, offer.unit, offer.core_mask, is_alone=True) for offer in offers]
    return Pool(tuple(offers), shares, settings.taint_effect)


def parts(settings: Settings, units: Sequence[Unit]) -> tuple[Offer, ...]:
    """Every device that a claim of this node may name, in any form: claims outlive a change of settings."""
    found: list[Offer] = []
    for unit in units:
        if unit.driver != "rocket" and unit.cores > 1:
            found += _core_sets(unit)
        found += _shares(settings, unit)
        found.append(Offer(unit.name, unit))
    return tuple(found)


def _core_sets(unit: Unit) -> Iterator[Offer]:
    """Those that the driver starts: one core, or cores 0 to n."""
    yield from (Offer(f"{unit.name}-core-{core}", unit, 1 << core) for core in range(unit.cores))
    for count in range(2, unit.cores + 1):
        yield Offer(f"{unit.name}-cores-{''.join(map(str, range(count)))}", unit, (1 << count) - 1)


def _shares(settings: Settings, unit: Unit) -> Iterator[Offer]:
    count = settings.shares or default_shares(unit)
    yield from (Offer(f"{unit.name}-share-{share}", unit) for share in range(count))


def _is_counted(offer: Offer) -> bool:
    return bool(offer.core_mask) and not offer.is_alone


def _counters(unit: Unit) -> dict[str, Any]:
    return {"name": unit.name, "counters": {f"core-{core}": {"value": "1"} for core in range(unit.cores)}}


def _cut(items: Sequence[dict[str, Any]], most: int) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]
