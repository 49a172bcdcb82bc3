"""Files of the Container Device Interface: what Docker, Podman, containerd and CRI-O need to give a container an NPU.

Facts: SPEC.md of CDI. A reader refuses a file whose content needs more than the version that it states, and old readers
refuse new versions (Podman 4.3 stops at 0.5.0): so the file states the lowest version that holds its content.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openrknn.kubernetes.allocation import Allocation, grant
from openrknn.kubernetes.inventory import Offer, Unit
from openrknn.wholefiles import write_atomically

__all__ = ["KIND", "edits", "needed_version", "remove_halves", "specification", "write"]

KIND = "rockchip.com/npu"
_OLDEST = "0.3.0"
_HALF = ".openrknn-"
"""How the names of files begin that are being written; readers of CDI take names that end in .json or .yaml."""


def specification(
    offers: Sequence[Offer], kind: str = KIND, group_ids: Sequence[int] = (), *, variables: bool = True
) -> dict[str, Any]:
    """Each share and core by its name, each NPU by its name ("npu0") and number ("0"), and "all".

    Without `variables` the shares and cores carry none: for the device plugin, which sets them for all of a container's
    devices together.
    """
    units = list(dict.fromkeys(offer.unit for offer in offers))
    given = [(offer.id, grant([offer])) for offer in offers]
    devices = [_device(name, one if variables else replace(one, variables={}), group_ids) for name, one in given]
    for number, unit in enumerate(units):
        devices += [_device(name, grant([_whole(unit)]), group_ids) for name in (unit.name, str(number))]
    if units:
        devices.append(_device("all", grant(_whole(unit) for unit in units), group_ids))
    return with_version({"kind": kind, "devices": devices})


def with_version(content: Mapping[str, Any]) -> dict[str, Any]:
    """The file's content with its version in front."""
    return {"cdiVersion": needed_version(content), **content}


def edits(given: Allocation, group_ids: Sequence[int] = ()) -> dict[str, Any]:
    """What CDI calls container edits."""
    found: dict[str, Any] = {}
    if given.variables:
        found["env"] = [f"{name}={value}" for name, value in sorted(given.variables.items())]
    if given.nodes:
        found["deviceNodes"] = [{"path": node, "permissions": "rw"} for node in given.nodes]
    if given.mounts:
        found["mounts"] = [
            {"hostPath": host, "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
            for host, inside in given.mounts
        ]
    if group_ids:
        found["additionalGids"] = list(group_ids)
    return found


def needed_version(content: Mapping[str, Any]) -> str:
    """The lowest version of CDI that allows this content."""
    return max([_OLDEST, *_needs(content)], key=lambda version: [int(part) for part in version.split(".")])


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file at once: a runtime never reads half of it, and neither kill nor power cut leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=2) + "\n", mode=0o644, half=_HALF)


def remove_halves(folder: Path, older_than_seconds: float = 10.0) -> None:
    """What a process that was killed in `write` left; another one may be writing now, so only after a while."""
    for path in folder.glob(f"{_HALF}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > older_than_seconds:
                path.unlink()


def _whole(unit: Unit) -> Offer:
    return Offer(unit.name, unit)


def _device(name: str, given: Allocation, group_ids: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "containerEdits": edits(given, group_ids)}


def _needs(content: Mapping[str, Any]) -> Iterator[str]:
    if "." in content["kind"].partition("/")[2] or content.get("annotations"):
        yield "0.6.0"
    for device in content["devices"]:
        if not re.match(r"[a-zA-Z]", device["name"]):
            yield "0.5.0"
        if device.get("annotations"):
            yield "0.6.0"
    for part in _all_edits(content):
        if part.get("additionalGids") or part.get("intelRdt"):
            yield "0.7.0"
        if any("hostPath" in node for node in part.get("deviceNodes", ())):
            yield "0.5.0"
        if any("type" in mount for mount in part.get("mounts", ())):
            yield "0.4.0"


def _all_edits(content: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [content.get("containerEdits", {}), *(device["containerEdits"] for device in content["devices"])]
