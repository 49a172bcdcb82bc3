"""Claims on this node: from what the scheduler decided to a CDI file that the runtime reads."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openrknn.errors import RknnError
from openrknn.kubernetes import cdi
from openrknn.kubernetes.api import ApiServer
from openrknn.kubernetes.grants import grant
from openrknn.kubernetes.inventory import Offer

__all__ = ["FILES", "KIND", "ClaimError", "Claims", "Prepared"]

KIND = "npu.rockchip.com/claim"
FILES = KIND.replace("/", "-") + "-"
"""How the names of the claims' CDI files begin."""
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")


class ClaimError(RknnError):
    """A claim cannot be prepared."""


class Prepared(NamedTuple):
    """One device of a claim."""

    request: str
    pool: str
    device: str
    cdi_id: str


class Claims:
    """One CDI file per claim; preparing twice gives the same, unpreparing twice is fine."""

    def __init__(self, api: ApiServer, driver: str, node: str, folder: Path) -> None:
        self._api, self._driver, self._node, self._folder = api, driver, node, folder

    def prepare(self, namespace: str, name: str, uid: str, offered: Mapping[str, Offer]) -> list[Prepared]:
        """Write the file, and say which devices are in it."""
        path = self._path(uid)
        claim = self._api.get(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
        if claim["metadata"]["uid"] != uid:
            raise ClaimError(f"the claim {namespace}/{name} was made again meanwhile (another uid)")
        results = [one for one in _results(claim) if one["driver"] == self._driver and one["pool"] == self._node]
        if not results:
            raise ClaimError(f"the claim {namespace}/{name} has no device of {self._driver} on {self._node}")
        missing = [one["device"] for one in results if one["device"] not in offered]
        if missing:
            raise ClaimError(f"this node has no {missing[0]} (any more)")
        names = {one["device"]: f"{uid}-{one['device']}" for one in results}
        # Variables are for the container, and a container names requests: each device carries those of its request.
        joint = {
            request: grant(offered[one["device"]] for one in results if one["request"] == request)
            for request in dict.fromkeys(one["request"] for one in results)
        }
        devices = [
            {"name": names[one["device"]], "containerEdits": cdi.edits(joint[one["request"]])} for one in results
        ]
        cdi.write(path, cdi.with_version({"kind": KIND, "devices": devices}))
        return [
            Prepared(one["request"], one["pool"], one["device"], f"{KIND}={names[one['device']]}") for one in results
        ]

    def unprepare(self, uid: str) -> None:
        """Remove the file."""
        with contextlib.suppress(FileNotFoundError):
            self._path(uid).unlink()

    def _path(self, uid: str) -> Path:
        if not _UID.fullmatch(uid):
            raise ClaimError(f"{uid!r} is not the uid of a claim")
        return self._folder / f"{FILES}{uid}.json"


def _results(claim: Mapping[str, Any]) -> list[dict[str, str]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())
