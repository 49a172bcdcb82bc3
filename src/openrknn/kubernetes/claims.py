"""Claims on this node: from what the scheduler decided to a CDI file that the runtime reads.

The state is on the disk and at the API server, never in this process: two instances may serve the same claims, and each
may be killed at any moment. A claim has two files, the CDI file and a record of which claim it was written for. The
record is written first and removed last, so that the owner of every file is known.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from openrknn.errors import RknnError
from openrknn.kubernetes import cdi
from openrknn.kubernetes.allocation import grant
from openrknn.kubernetes.api import ApiError, ApiServer
from openrknn.kubernetes.inventory import Offer

__all__ = ["FILES", "KIND", "ClaimError", "Claims", "Prepared"]

_LOG = logging.getLogger(__name__)
KIND = "npu.rockchip.com/claim"
FILES = KIND.replace("/", "-") + "-"
"""How the names of the claims' CDI files begin."""
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")
_MOST_RECORD_BYTES = 256 * 1024
_BUSY = (0, 429, 500, 502, 503, 504)
"""Answers, or none, that say nothing about the claim."""
_ATTEMPTS, _LONGEST_SECONDS = 4, 4.0
"""The kubelet waits 45 seconds for an answer, and asks again later."""


class ClaimError(RknnError):
    """A claim cannot be prepared."""


class Prepared(NamedTuple):
    """One device of a claim."""

    request: str
    pool: str
    device: str
    cdi_id: str
    share: str | None = None
    """Which share of a device that is given out several times."""


class Claims:
    """One CDI file per claim; preparing twice gives the same, unpreparing twice is fine."""

    def __init__(self, api: ApiServer, driver: str, node: str, folder: Path, records: Path) -> None:
        self._api, self._driver, self._node = api, driver, node
        self._folder, self._records = folder, records

    def prepare(self, namespace: str, name: str, uid: str, offered: Mapping[str, Offer]) -> list[Prepared]:
        """Write the file, and say which devices are in it."""
        path = self._path(uid)
        try:
            claim = self._claim(namespace, name)
        except ApiError as error:
            if error.status in _BUSY and (before := self._prepared_before(uid)):
                _LOG.warning("%s; the claim %s/%s was prepared before, and stays so", error, namespace, name)
                return before
            raise
        if claim["metadata"]["uid"] != uid:
            raise ClaimError(f"the claim {namespace}/{name} was made again meanwhile (another uid)")
        results = self._results(claim)
        if not results:
            raise ClaimError(f"the claim {namespace}/{name} has no device of {self._driver} on {self._node}")
        if kinds := _parameters(claim, self._driver):
            raise ClaimError(f"the claim {namespace}/{name} has parameters ({kinds[0]}), and {self._driver} takes none")
        missing = [one["device"] for one in results if one["device"] not in offered]
        if missing:
            raise ClaimError(f"this node has no {missing[0]} (any more)")
        # Variables are for the container, and a container names requests: each device carries those of its request.
        joint = {
            request: grant(offered[one["device"]] for one in results if _request(one) == request)
            for request in dict.fromkeys(map(_request, results))
        }
        made: dict[tuple[str, str], str] = {}
        for one in results:
            made.setdefault((_request(one), one["device"]), _device_name(uid, one, len(joint) > 1))
        devices = [
            {"name": device, "containerEdits": cdi.edits(joint[request])} for (request, _), device in made.items()
        ]
        answer = [
            Prepared(
                _request(one), one["pool"], one["device"], f"{KIND}={made[_request(one), one['device']]}",
                one.get("shareID"),
            )
            for one in results
        ]  # fmt: skip
        record = {"namespace": namespace, "name": name, "uid": uid, "devices": [one._asdict() for one in answer]}
        cdi.write(self._record(uid), record)
        cdi.write(path, cdi.with_version({"kind": KIND, "devices": devices}))
        return answer

    def unprepare(self, uid: str) -> None:
        """Remove the files."""
        for path in (self._path(uid), self._record(uid)):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def prepared(self) -> set[str]:
        """The uids of claims that have a file."""
        return {path.name[len(FILES) : -len(".json")] for path in self._folder.glob(f"{FILES}*.json")}

    def sweep(self) -> list[str]:
        """Remove prepared claims that will never be unprepared; uids of the claims that were removed.

        A claim goes only if the API server itself says that it does not exist, or that it is another one now. Files
        without a record are of older versions, and stay.
        """
        for folder in (self._folder, self._records):
            cdi.remove_halves(folder)
        removed = []
        for path in sorted(self._records.glob("*.json")):
            uid = path.stem
            is_orphan = self._is_orphan(path, uid) if _UID.fullmatch(uid) else False
            if is_orphan is None:  # no answer: not now
                break
            if is_orphan:
                _LOG.info("removing the files of claim %s, which does not exist any more", uid)
                self.unprepare(uid)
                removed.append(uid)
        return removed

    # ------------------------------------------------------------ inside

    def _is_orphan(self, path: Path, uid: str) -> bool | None:
        """Whether the claim is gone; None if the API server does not say."""
        try:
            record = self._read(path)
            claim = self._api.get(_address(str(record["namespace"]), str(record["name"])))
            return bool(claim["metadata"]["uid"] != uid)
        except ApiError as error:
            return True if error.status == 404 else None
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _prepared_before(self, uid: str) -> list[Prepared]:
        """What was answered then, if the files are still there."""
        try:
            if not self._path(uid).exists():
                return []
            return [Prepared(**one) for one in self._read(self._record(uid))["devices"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    @staticmethod
    def _read(path: Path) -> Any:
        with path.open("rb") as stream:
            return json.loads(stream.read(_MOST_RECORD_BYTES))

    def _claim(self, namespace: str, name: str) -> Any:
        """A server that is busy or being replaced is asked again: the pod waits for this."""
        pause = 0.2
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                claim = self._api.get(_address(namespace, name))
                if not isinstance(claim, dict) or "uid" not in claim.get("metadata", {}):
                    raise ClaimError(f"the API server's answer for {namespace}/{name} is not a claim")
                return claim
            except ApiError as error:
                if attempt == _ATTEMPTS or error.status not in _BUSY:
                    raise
                time.sleep(min(max(error.retry_after, pause), _LONGEST_SECONDS))
                pause *= 2
        raise AssertionError

    def _results(self, claim: Mapping[str, Any]) -> list[dict[str, Any]]:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        return [one for one in results if one["driver"] == self._driver and one["pool"] == self._node]

    def _path(self, uid: str) -> Path:
        return self._folder / f"{FILES}{_checked(uid)}.json"

    def _record(self, uid: str) -> Path:
        return self._records / f"{_checked(uid)}.json"


def _checked(uid: str) -> str:
    if not _UID.fullmatch(uid):
        raise ClaimError(f"{uid!r} is not the uid of a claim")
    return uid


def _address(namespace: str, name: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"


def _parameters(claim: Mapping[str, Any], driver: str) -> list[str]:
    """Kinds of parameters for this driver: rejected, so that they are not silently ignored."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    given = [one.get("opaque") or {} for one in (allocation.get("devices") or {}).get("config") or ()]
    ours = [one.get("parameters") or {} for one in given if one.get("driver") == driver]
    return [str(one.get("kind", "of no kind")) for one in ours]


def _request(result: Mapping[str, Any]) -> str:
    """Without the alternative that the scheduler took of it ("npu/fast"): containers and the kubelet name requests."""
    return str(result["request"]).partition("/")[0]


def _device_name(uid: str, result: Mapping[str, Any], several: bool) -> str:
    """One device may be in two requests (shares of it): then each has its own name, with its own variables."""
    return f"{uid}-{result['device']}" + (f"-{_request(result)}" if several and result.get("shareID") else "")
