"""The mainline driver. It has no load file: the time that a core was powered and its interrupts are what it counts."""

from __future__ import annotations

from pathlib import Path

from openrknn.monitor import board, files, texts
from openrknn.monitor.clients import clients
from openrknn.monitor.nodes import Found
from openrknn.monitor.reading import Core, Memory, Npu

__all__ = ["read"]

_DEVICES = "/sys/bus/platform/devices"


def read(root: Path, found: Found) -> Npu:
    """Counters per core; loads come from two readings."""
    counts = texts.interrupts(files.text(root, "/proc/interrupts") or "")
    states = [(files.text(root, f"{_DEVICES}/{name}/power/runtime_status") or "").strip() for name in found.devices]
    memory = texts.meminfo(files.text(root, "/proc/meminfo") or "")
    return Npu(
        driver="rocket",
        name=found.devices[0] if found.devices else "rocket",
        interface=found.interface,
        version=(files.text(root, "/proc/sys/kernel/osrelease") or "").strip() or None,
        nodes=found.nodes,
        cores=tuple(_core(root, number, name, counts) for number, name in enumerate(found.devices)) or (Core(0),),
        memory=Memory(cma_total_bytes=memory.get("CmaTotal"), cma_free_bytes=memory.get("CmaFree")),
        temperatures=board.temperatures(root),
        is_powered="active" in states if any(states) else None,
        clients=clients(root, [node.path for node in found.nodes]),
    )


def _core(root: Path, number: int, name: str, counts: dict[str, int]) -> Core:
    milliseconds = files.number(root, f"{_DEVICES}/{name}/power/runtime_active_time")
    return Core(number, busy_seconds=None if milliseconds is None else milliseconds / 1000, interrupts=counts.get(name))
