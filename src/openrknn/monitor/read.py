"""`read`: one reading of everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from openrknn.monitor import board, nodes, rga, rknpu, rocket, software
from openrknn.monitor.reading import Core, Npu, Reading

__all__ = ["read"]


def read(root: Path = Path("/"), previous: Reading | None = None) -> Reading:
    """The NPUs of the machine whose files are below `root`.

    Never raises for what is missing. Rocket and the software NPU only count their busy time: give the previous reading
    to get their load since then.
    """
    soc = board.soc(root)
    now = time.monotonic()
    npus = tuple(_npus(root, soc))
    if previous is not None and now > previous.seconds:
        before = {_identity(npu): npu for npu in previous.npus}
        npus = tuple(_with_loads(npu, before.get(_identity(npu)), now - previous.seconds) for npu in npus)
    return Reading(now, soc, npus, rga.read(root))


def _npus(root: Path, soc: str | None) -> Iterator[Npu]:
    for found in nodes.find(root):
        yield rocket.read(root, found) if found.driver == "rocket" else rknpu.read(root, found, soc)
    yield from software.read(root)


def _identity(npu: Npu) -> tuple[str, str, str]:
    return npu.driver, npu.name, npu.clients[0].node if npu.driver == "software" else ""


def _with_loads(npu: Npu, before: Npu | None, seconds: float) -> Npu:
    if before is None:
        return npu
    counted = {core.number: core.busy_seconds for core in before.cores}
    return replace(npu, cores=tuple(_with_load(core, counted.get(core.number), seconds) for core in npu.cores))


def _with_load(core: Core, before: float | None, seconds: float) -> Core:
    if core.load_percent is not None or core.busy_seconds is None or before is None:
        return core
    return replace(core, load_percent=round(min(max((core.busy_seconds - before) / seconds, 0.0), 1.0) * 100, 1))
