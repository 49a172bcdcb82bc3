"""RGA as the vendor's driver shows it: its node, its version, and the load of its cores."""

from __future__ import annotations

from pathlib import Path

from openrknn.monitor import files, texts
from openrknn.monitor.nodes import node_at
from openrknn.monitor.reading import Engine, Rga

__all__ = ["NODE", "read"]

NODE = "/dev/rga"
_FOLDERS = ("/sys/kernel/debug/rkrga", "/proc/rkrga")
"""The first one is for root alone; kernels have one of them or both."""


def read(root: Path) -> Rga | None:
    """None where there is neither a node nor a driver."""
    loads = next(filter(None, (files.text(root, f"{folder}/load") for folder in _FOLDERS)), "")
    version = next(filter(None, (files.text(root, f"{folder}/driver_version") for folder in _FOLDERS)), "")
    if not files.exists(root, NODE) and not version:
        return None
    engines = tuple(Engine(name, percent) for name, percent in texts.rga_loads(loads))
    return Rga(node_at(root, NODE, "misc"), texts.driver_version(version), engines)
