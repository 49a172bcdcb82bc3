"""What the NPUs of this machine are doing: load, clock, memory, temperature, clients.

    from openrknn import monitor
    reading = monitor.read()                        # of this machine, or of a tree: read(Path("tests/tree"))
    later = monitor.read(previous=reading)          # loads of drivers that only count need two readings

    texts       the exact texts of the drivers' files
    files       reading below a root path
    nodes       which NPUs there are, by the names of their drivers
    rknpu, rocket, software    one file per kind of NPU
    rga         the engine that converts images
    board       chip and temperatures
    clients     who has a node open
    prometheus, exporter    the same for Prometheus
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.monitor.read import read
    from openrknn.monitor.reading import Client, Clock, Core, Engine, Memory, Node, Npu, Reading, Rga, Temperature

__all__ = ["Client", "Clock", "Core", "Engine", "Memory", "Node", "Npu", "Reading", "Rga", "Temperature", "read"]

__getattr__, __dir__ = lazy_names(
    __name__, {"read": "read", "reading": "Client Clock Core Engine Memory Node Npu Reading Rga Temperature"}
)
