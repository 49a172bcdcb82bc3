"""The screen of `openrknn top`."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from openrknn.cli.common.output import printable
from openrknn.monitor.reading import Core, Npu, Reading, Temperature
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["History", "screen"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 30
_MOST = 60
_MHZ = 1_000_000
_HOT, _BUSY = 90, 60


class History:
    """The last loads of each core, for the small curves."""

    def __init__(self) -> None:
        self.loads: defaultdict[tuple[str, int], deque[float]] = defaultdict(lambda: deque(maxlen=_MOST))

    def add(self, reading: Reading) -> None:
        for npu in reading.npus:
            for core in npu.cores:
                self.loads[_key(npu), core.number].append(core.load_percent or 0)


def screen(reading: Reading, history: History | None = None) -> RenderableType:
    """Everything, from top to bottom."""
    from rich.console import Group
    from rich.text import Text

    if not reading.npus:
        return Text(
            "There is no NPU here, and none of your processes runs a software NPU.\n"
            "`openrknn doctor` says what is missing; `openrknn bench MODEL.rknn` in another terminal is one to watch."
        )
    parts: list[RenderableType] = []
    for npu in reading.npus:
        parts += [_title(npu, reading.soc), *(_core(npu, core, history) for core in npu.cores), _facts(npu)]
        if npu.clients and npu.driver != "software":
            parts.append(_clients(npu))
        parts.append(Text())
    return Group(*parts[:-1], *_rga(reading))


def _key(npu: Npu) -> str:
    return npu.clients[0].node if npu.driver == "software" else npu.name


def _title(npu: Npu, soc: str | None) -> Text:
    from rich.text import Text

    text = Text()
    if npu.driver == "software":
        client = npu.clients[0]
        return text.append(npu.name, "bold").append(f"  {printable(client.command)} ({client.pid})")
    text.append(f"{(soc or '').upper()} {npu.name}".strip(), "bold")
    return text.append(f"  {npu.driver} {npu.version or ''}  {' '.join(node.path for node in npu.nodes)}", "dim")


def _core(npu: Npu, core: Core, history: History | None) -> Text:
    from rich.text import Text

    text = Text(f"  core {core.number}  ")
    if core.load_percent is None:
        return text.append("load unavailable" + (" without root: use sudo" if npu.hidden else ""), "dim")
    filled = round(core.load_percent / 100 * _WIDTH)
    style = "red" if core.load_percent >= _HOT else "yellow" if core.load_percent >= _BUSY else "green"
    text.append("[").append("|" * filled, style).append(" " * (_WIDTH - filled)).append("]")
    text.append(f" {core.load_percent:5.1f} %")
    if core.reported_percent is not None and core.reported_percent > 100:
        text.append(f"  the driver reports {core.reported_percent} %: a job hangs", "red")
    if npu.driver == "rocket":
        text.append("  at most", "dim")
    if history is not None:
        loads = history.loads[_key(npu), core.number]
        text.append("  " + "".join(_BLOCKS[round(load / 100 * (len(_BLOCKS) - 1))] for load in loads), "dim")
    return text


def _facts(npu: Npu) -> Text:
    from rich.text import Text

    clock, memory = npu.clock, npu.memory
    parts: list[str] = []
    if clock.hz is not None:
        parts.append(f"{clock.hz // _MHZ} MHz" + (f" of {clock.maximum_hz // _MHZ}" if clock.maximum_hz else ""))
    if clock.governor:
        parts.append(clock.governor)
    if npu.microvolts:
        parts.append(f"{npu.microvolts / 1e6:.3f} V")
    parts += [_celsius(zone) for zone in npu.temperatures]
    if npu.is_powered is not None and npu.driver != "software":
        parts.append("powered" if npu.is_powered else "asleep")
    if memory.sram_total_bytes:
        parts.append(f"SRAM {size_text(memory.sram_used_bytes or 0)} of {size_text(memory.sram_total_bytes)}")
    if memory.cma_total_bytes:
        parts.append(f"CMA {size_text(memory.cma_free_bytes or 0)} free of {size_text(memory.cma_total_bytes)}")
    if memory.used_bytes is not None:
        parts.append(f"memory {size_text(memory.used_bytes)}")
    if npu.jobs is not None:
        parts.append(f"{npu.jobs} jobs" + (f", {npu.failed_jobs} failed" if npu.failed_jobs else ""))
    return Text("  " + " · ".join(parts))


def _rga(reading: Reading) -> list[Text]:
    from rich.text import Text

    if reading.rga is None:
        return []
    loads = [f"{one.name} {one.load_percent:.0f} %" for one in reading.rga.engines if one.load_percent is not None]
    title = Text("RGA", "bold").append(f"  {reading.rga.version or ''}  {reading.rga.node.path}", "dim")
    return [Text(), title, Text("  " + (" · ".join(loads) or "load unavailable: use sudo"))]


def _celsius(zone: Temperature) -> str:
    return f"{zone.celsius:.0f} °C" + (" THROTTLED" if zone.is_throttling else "")


def _clients(npu: Npu) -> RenderableType:
    from rich.table import Table

    table = Table("pid", "command", "user", "node", box=None, header_style="bold", pad_edge=True)
    for client in npu.clients:
        table.add_row(str(client.pid), printable(client.command), str(client.user_id), client.node)
    return table
