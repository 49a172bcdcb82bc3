"""Topics of MQTT, in the manner of Frigate, and the messages by which Home Assistant finds the sensors.

    PREFIX/available                 online or offline (the broker says offline when the program is gone)
    PREFIX/events                    every event, as JSON
    PREFIX/CAMERA/available          online or offline
    PREFIX/CAMERA/LABEL              how many are in the image;  LABEL "all": all together
    PREFIX/CAMERA/ZONE/LABEL         how many are in a zone
    PREFIX/CAMERA/LABEL/snapshot     the newest event's image, as JPEG
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openrknn.watch.settings import Camera

__all__ = ["ALL", "ONLINE", "discovery", "label_topic", "states", "words"]

ALL = "all"
ONLINE, OFFLINE = "online", "offline"


def label_topic(label: str) -> str:
    """A label as one level of a topic: without the characters that mean something there."""
    return re.sub(r"[\s/#+\x00]+", "_", label) or "_"


def words(is_online: bool) -> str:
    """The payload of availability."""
    return ONLINE if is_online else OFFLINE


def states(
    prefix: str, camera: Camera, labels: Sequence[str], totals: Mapping[str, int],
    zones: Mapping[str, Mapping[str, int]], *, is_online: bool,
) -> dict[str, str]:  # fmt: skip
    """Topic -> payload: what is in sight of one camera now. `labels` have a topic even where there is none of them."""
    base = f"{prefix}/{camera.name}"
    found = {f"{base}/available": words(is_online)}
    for place, counts in (("", totals), *((f"/{name}", counts) for name, counts in zones.items())):
        for label in {*labels, *counts}:
            found[f"{base}{place}/{label_topic(label)}"] = str(counts.get(label, 0))
        found[f"{base}{place}/{ALL}"] = str(sum(counts.values()))
    return found


def discovery(
    prefix: str, root: str, node: str, cameras: Iterable[tuple[Camera, Sequence[str]]], version: str
) -> dict[str, str]:
    """Topic -> payload: for each camera and label a sensor of the count, for each zone and label occupancy too.

    `node` tells several programs apart that share a broker.
    """
    found: dict[str, str] = {}
    for camera, labels in cameras:
        base = f"{prefix}/{camera.name}"
        about: dict[str, Any] = {
            "availability": [{"topic": f"{prefix}/available"}, {"topic": f"{base}/available"}],
            "availability_mode": "all",
            "device": {
                "identifiers": [f"openrknn_{node}_{camera.name}"],
                "name": camera.name,
                "manufacturer": "openrknn",
                "model": "openrknn watch",
                "sw_version": version,
            },
        }
        for zone in ("", *(zone.name for zone in camera.zones)):
            for label in (*labels, ALL):
                place = f"{base}/{zone}/{label_topic(label)}" if zone else f"{base}/{label_topic(label)}"
                key = re.sub(r"[^A-Za-z0-9_-]", "_", "_".join(filter(None, (node, camera.name, zone, label))))
                name = " ".join(filter(None, (zone, label)))
                count = {**about, "name": f"{name} count", "unique_id": f"openrknn_{key}_count", "state_topic": place,
                         "state_class": "measurement", "icon": "mdi:counter"}  # fmt: skip
                found[f"{root}/sensor/openrknn_{key}/config"] = json.dumps(count)
                occupied = {**about, "name": f"{name} occupancy", "unique_id": f"openrknn_{key}_occupancy",
                            "state_topic": place, "device_class": "occupancy",
                            "value_template": "{{ 'ON' if value | int(0) > 0 else 'OFF' }}"}  # fmt: skip
                found[f"{root}/binary_sensor/openrknn_{key}/config"] = json.dumps(occupied)
    return found
