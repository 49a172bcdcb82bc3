"""What this API server knows: asked by writing without effect (a dry run), never guessed from version numbers.

A server whose feature is off takes the object and drops the field without a word. A device without its taint would look
well, and overlapping sets of cores without their counters would be given to two pods.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.watch import SLICES

__all__ = ["ALL", "NONE", "Features", "ask"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Features:
    """Each needs a feature gate: DRAPartitionableDevices, DRADeviceTaints, DRAConsumableCapacity (1.36: all on)."""

    counters: bool
    taints: bool
    capacity: bool


ALL = Features(counters=True, taints=True, capacity=True)
NONE = Features(counters=False, taints=False, capacity=False)


def ask(api: ApiServer, driver: str, node: str) -> Features:
    """Two writes that the API server checks, answers and forgets."""
    counters = _dry(api, driver, node, {"sharedCounters": [{"name": "a", "counters": {"b": {"value": "1"}}}]})
    taint = {"key": f"{driver}/unhealthy", "value": "probe", "effect": "NoSchedule"}
    tainted = _dry(api, driver, node, {"devices": [{"name": "a", "taints": [taint]}]})
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    shared = {"name": "a", "allowMultipleAllocations": True}
    capacity = {"shares": {"value": "2", "requestPolicy": policy}}
    consumed = _dry(api, driver, node, {"devices": [{**shared, "capacity": capacity}]})
    found = Features(
        counters=bool(counters.get("sharedCounters")),
        taints=bool(_first(tainted).get("taints")),
        capacity=bool(_first(consumed).get("allowMultipleAllocations")),
    )
    missing = [name for name in ("counters", "taints", "capacity") if not getattr(found, name)]
    if missing:
        _LOG.info("this API server has no device %s; doing without", ", ".join(missing))
    return found


def _dry(api: ApiServer, driver: str, node: str, content: dict[str, Any]) -> dict[str, Any]:
    """The spec that the server would have stored; empty if it refuses the content."""
    item = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "openrknn-probe-"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            **content,
        },
    }
    try:
        answer = api.call("POST", f"{SLICES}?dryRun=All", item)
    except ApiError as error:
        if error.status in (400, 422):
            return {}
        raise
    spec = answer.get("spec") if isinstance(answer, dict) else None
    return spec if isinstance(spec, dict) else {}


def _first(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices") or [{}]
    return devices[0] if isinstance(devices[0], dict) else {}
