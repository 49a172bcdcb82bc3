"""What a reading consists of: frozen dataclasses. None means that the value is unavailable on this machine."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from openrknn.records import dataclass

__all__ = ["Client", "Clock", "Core", "Engine", "Memory", "Node", "Npu", "Reading", "Rga", "Temperature"]


@dataclass(frozen=True, slots=True)
class Node:
    """A device file."""

    path: str
    """Below the root: "/dev/dri/renderD129"."""
    kind: str
    """card, render, accel or misc."""
    exists: bool
    """Whether it is in /dev; a container may see a driver in /sys and have no node."""
    major: int | None = None
    minor: int | None = None
    mode: int | None = None
    user_id: int | None = None
    group_id: int | None = None


@dataclass(frozen=True, slots=True)
class Core:
    """One core of an NPU."""

    number: int
    load_percent: float | None = None
    """From 0 to 100. Of the last second with rknpu; since the previous reading elsewhere."""
    reported_percent: int | None = None
    """What rknpu wrote, which old drivers let grow past 100."""
    busy_seconds: float | None = None
    """A counter, where there is one. Rocket counts the time that the core was powered, which is an upper bound."""
    interrupts: int | None = None
    """A counter: rocket has one interrupt per task."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The NPU's clock, from devfreq."""

    hz: int | None = None
    minimum_hz: int | None = None
    maximum_hz: int | None = None
    available_hz: tuple[int, ...] = ()
    governor: str | None = None
    available_governors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of an NPU, in bytes."""

    used_bytes: int | None = None
    """Of buffers in the main memory (software NPU)."""
    sram_total_bytes: int | None = None
    sram_used_bytes: int | None = None
    cma_total_bytes: int | None = None
    """The kernel's contiguous memory, which NPUs without an IOMMU live on."""
    cma_free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Temperature:
    """A thermal zone."""

    zone: str
    """"npu-thermal"."""
    celsius: float
    throttle_celsius: float | None = None
    """Where the kernel begins to lower clocks."""
    critical_celsius: float | None = None

    @property
    def is_throttling(self) -> bool:
        return self.throttle_celsius is not None and self.celsius >= self.throttle_celsius


@dataclass(frozen=True, slots=True)
class Client:
    """A process that has the NPU open."""

    pid: int
    command: str
    user_id: int | None
    node: str


@dataclass(frozen=True, slots=True)
class Npu:
    """One NPU."""

    driver: str
    """rknpu, rocket or software."""
    name: str
    """The platform device ("fdab0000.npu"), or "software:rk3588"."""
    interface: str
    """drm, misc, accel or process."""
    version: str | None = None
    """Of the driver."""
    nodes: tuple[Node, ...] = ()
    cores: tuple[Core, ...] = ()
    clock: Clock = Clock()
    memory: Memory = Memory()
    temperatures: tuple[Temperature, ...] = ()
    microvolts: int | None = None
    is_powered: bool | None = None
    clients: tuple[Client, ...] = ()
    jobs: int | None = None
    """A counter (software NPU)."""
    failed_jobs: int | None = None
    hidden: tuple[str, ...] = ()
    """Files that are there and that this user may not read."""

    @property
    def load_percent(self) -> float | None:
        """Of the busiest core."""
        loads = [core.load_percent for core in self.cores if core.load_percent is not None]
        return max(loads, default=None)


@dataclass(frozen=True, slots=True)
class Engine:
    """One core of RGA."""

    name: str
    """"rga3_core0"."""
    load_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Rga:
    """RGA, the engine for scaling and colour conversion beside the NPU."""

    node: Node
    version: str | None = None
    """Of the vendor's driver."""
    engines: tuple[Engine, ...] = ()
    """Empty where the driver does not tell their load, or not to this user."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything, at one moment."""

    seconds: float
    """Monotonic time; only differences mean something."""
    soc: str | None
    """Name of the chip as in `openrknn.chips`; None on other machines."""
    npus: tuple[Npu, ...] = field(default=())
    rga: Rga | None = None
    """None without /dev/rga: on other machines, and on the mainline kernel, whose RGA is a V4L2 device."""

    def as_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)
