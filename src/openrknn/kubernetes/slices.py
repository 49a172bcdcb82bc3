"""ResourceSlices: what a node offers, in the words of dynamic resource allocation.

Cores are counters: RK3588 has three, and five ways to use them (each alone, 0 and 1, all), which are the masks that its
driver starts. A claim for one way takes its counters, and the scheduler sees what is left. Counters and devices have to
be in different slices of the pool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.kubernetes.inventory import Offer, Settings, Unit, default_shares

__all__ = ["parts", "slices"]

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parts(settings: Settings, units: Sequence[Unit]) -> tuple[Offer, ...]:
    """The devices of the pool."""
    found: list[Offer] = []
    for unit in units:
        if settings.strategy == "cores" and unit.driver != "rocket" and unit.cores > 1:
            found += [Offer(f"{unit.name}-core-{core}", unit, 1 << core) for core in range(unit.cores)]
            found += [
                Offer(f"{unit.name}-cores-{''.join(map(str, range(count)))}", unit, (1 << count) - 1)
                for count in range(2, unit.cores + 1)
            ]
        else:
            count = settings.shares or default_shares(unit)
            found += [Offer(f"{unit.name}-share-{share}", unit) for share in range(count)]
    return tuple(found)


def slices(
    driver: str, node: Mapping[str, str], offered: Sequence[Offer], reasons: Mapping[str, str | None], generation: int
) -> list[dict[str, Any]]:
    """The objects for the API server; `node` has name and uid. NPUs that are not well are left out."""
    well = [offer for offer in offered if reasons.get(offer.unit.name) is None]
    counted = [unit for unit in dict.fromkeys(offer.unit for offer in well) if _is_counted(unit, well)]
    contents: list[dict[str, Any]] = [{"devices": [_device(offer) for offer in well]}]
    if counted:
        contents.insert(0, {"sharedCounters": [_counters(unit) for unit in counted]})
    pool = {"name": node["name"], "generation": generation, "resourceSliceCount": len(contents)}
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node['name']}-{driver}-{number}", "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": node["name"], "pool": pool, **content},
        }
        for number, content in enumerate(contents)
    ]


def _is_counted(unit: Unit, offered: Sequence[Offer]) -> bool:
    return any(offer.unit == unit and offer.core_mask for offer in offered)


def _counters(unit: Unit) -> dict[str, Any]:
    return {"name": unit.name, "counters": {f"core-{core}": {"value": "1"} for core in range(unit.cores)}}


def _device(offer: Offer) -> dict[str, Any]:
    unit = offer.unit
    cores = [core for core in range(unit.cores) if offer.core_mask >> core & 1]
    attributes: dict[str, Any] = {
        "driver": {"string": unit.driver},
        "npu": {"string": unit.name},
        "cores": {"int": len(cores) or unit.cores},
        "shared": {"bool": not cores},
    }
    if unit.soc:
        attributes["soc"] = {"string": unit.soc}
    if version := _VERSION.match(unit.version or ""):
        attributes["driverVersion"] = {"version": ".".join(part or "0" for part in version.groups())}
    device: dict[str, Any] = {"name": offer.id, "attributes": attributes}
    if cores:
        consumed = {f"core-{core}": {"value": "1"} for core in cores}
        device["consumesCounters"] = [{"counterSet": unit.name, "counters": consumed}]
    return device
