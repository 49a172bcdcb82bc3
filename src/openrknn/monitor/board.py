"""Chip and temperatures of a board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from openrknn.chips import chip_in
from openrknn.monitor import files
from openrknn.monitor.reading import Temperature

__all__ = ["COMPATIBLE", "soc", "temperatures"]

COMPATIBLE = (
    "/run/openrknn/compatible",
    "/proc/device-tree/compatible",
    "/sys/firmware/devicetree/base/compatible",
)
"""The first one is where our container files mount it: containers hide the other two."""
_THERMAL = "/sys/class/thermal"
_WITHOUT_ZONE = ("soc-thermal", "soc_thermal")
"""Chips without a sensor in the NPU have one for everything."""


def soc(root: Path) -> str | None:
    """The chip's name; None without a device tree and on other chips."""
    for path in COMPATIBLE:
        found = files.text(root, path)
        if found is not None:
            return chip_in(found)
    return None


def temperatures(root: Path) -> tuple[Temperature, ...]:
    """The zones of the NPU by type, never by number; that of the whole chip where the NPU has none."""
    zones = [(name, (files.text(root, f"{_THERMAL}/{name}/type") or "").strip()) for name in _zones(root)]
    chosen = [zone for zone in zones if "npu" in zone[1]] or [zone for zone in zones if zone[1] in _WITHOUT_ZONE]
    return tuple(found for name, kind in chosen if (found := _temperature(root, name, kind)))


def _zones(root: Path) -> Iterator[str]:
    return (name for name in files.listed(root, _THERMAL) if name.startswith("thermal_zone"))


def _temperature(root: Path, name: str, kind: str) -> Temperature | None:
    folder = f"{_THERMAL}/{name}"
    value = files.number(root, f"{folder}/temp")
    if value is None:
        return None
    trips: dict[str, list[float]] = {}
    for entry in files.listed(root, folder):
        if entry.startswith("trip_point_") and entry.endswith("_temp"):
            level = files.number(root, f"{folder}/{entry}")
            sort = (files.text(root, f"{folder}/{entry.removesuffix('temp')}type") or "").strip()
            if level is not None and level > 0:
                trips.setdefault(sort, []).append(level / 1000)
    return Temperature(kind, value / 1000, min(trips.get("passive", ()), default=None),
                       min(trips.get("critical", ()), default=None))  # fmt: skip
