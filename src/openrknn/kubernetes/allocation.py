"""What a container gets for its devices: nodes, variables, mounts; and which devices go well together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from openrknn.kubernetes.inventory import Offer
from openrknn.monitor.board import COMPATIBLE
from openrknn.monitor.variables import MASK_VARIABLE, NPU_VARIABLE

__all__ = ["Allocation", "grant", "prefer", "startable"]


@dataclass(frozen=True)
class Allocation:
    """The device plugin and CDI files use it."""

    variables: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    """Host path, container path; read-only."""


def grant(chosen: Iterable[Offer]) -> Allocation:
    """Everything that the chosen devices need."""
    # The kubelet names devices in any order; a real NPU is what `auto` should mean before a software one.
    wanted = sorted(chosen, key=lambda offer: (offer.unit.driver == "software", offer.id))
    parts = list(dict.fromkeys(offer.unit for offer in wanted))
    variables: dict[str, str] = {}
    if parts:
        # A process opens one NPU; it can still name the others itself.
        variables[NPU_VARIABLE] = parts[0].open_as
        variables["OPENRKNN_NPUS"] = ",".join(unit.open_as for unit in parts)
    mask = 0
    for offer in wanted:
        if offer.unit == parts[0]:
            mask |= offer.core_mask
    if mask:
        variables[MASK_VARIABLE] = str(startable(mask))
    mounts = {(unit.compatible, COMPATIBLE[0]) for unit in parts if unit.compatible}
    nodes = dict.fromkeys(node for unit in parts for node in unit.nodes)
    return Allocation(variables, tuple(nodes), tuple(sorted((host, inside) for host, inside in mounts if host)))


def startable(mask: int) -> int:
    """The largest part of the mask that the driver starts a job on: cores 0 to n, or else one core.

    After pods came and went the free cores may be 1 and 2. Nothing starts on that pair, so such a container computes on
    one of them.
    """
    prefix = mask & (mask ^ (mask + 1))  # the ones at the low end
    return prefix or mask & -mask


def prefer(available: Sequence[Offer], required: Sequence[Offer], count: int) -> list[Offer]:
    """The best `count` devices: required ones first.

    Cores: of one NPU; two must be cores 0 and 1, because the driver starts no other pair; a single one leaves that pair
    free if it can. Shares: of different NPUs, because a second share of the same one adds nothing.
    """
    chosen = list(required)[:count]
    rest = [offer for offer in available if offer not in chosen]
    while len(chosen) < count and rest:
        best = min(rest, key=lambda offer: _cost(offer, chosen, rest, count))
        chosen.append(best)
        rest.remove(best)
    return chosen


def _cost(offer: Offer, chosen: Sequence[Offer], rest: Sequence[Offer], count: int) -> tuple[int, int, int, str]:
    used = sum(other.unit == offer.unit for other in chosen)
    if not offer.core_mask:
        return (used, 0, 0, offer.id)
    free = sum(other.unit == offer.unit for other in rest)
    # One core: from the NPU with the fewest left, and its highest. Several: all from one NPU, from core 0 on.
    if count == 1:
        return (0, free, -offer.core_mask, offer.id)
    return (-used, 0 if free >= count - len(chosen) else 1, offer.core_mask, offer.id)
