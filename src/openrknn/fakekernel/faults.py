"""Faults of the hardware that can be asked for: a core that hangs, an interrupt that does not come, memory that fails.

One line of text describes a fault:

    KIND[:NAME=VALUE,...]       missing-interrupt:core=1,start=3

`core` is the core that has it (default: any), `start` which start of that core, or of all cores, is the first one
(default: 1), `count` how many starts have it (default: 1, "all": every one from there on). A start is one task of the
driver rocket, and one job of the driver rknpu: that is what hardware sees.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from openrknn.backports import StrEnum
from openrknn.errors import DeviceError

__all__ = ["DMA_READ_ERROR", "DMA_WRITE_ERROR", "Fault", "FaultKind", "Faults", "parse_fault"]

DMA_READ_ERROR, DMA_WRITE_ERROR = 0x1000, 0x2000
"""Bits of the interrupt status."""
ALL = "all"
_ENDLESS = 1 << 62


class FaultKind(StrEnum):
    """What happens to a start."""

    MISSING_INTERRUPT = "missing-interrupt"
    """The work is done, but no interrupt is raised."""
    STUCK = "stuck"
    """Nothing is done, and the core says nothing."""
    DMA_READ_ERROR = "dma-read-error"
    """Nothing is done, and the interrupt status has the bit of this error; with `ends=yes` also that of the end."""
    DMA_WRITE_ERROR = "dma-write-error"
    PAGE_FAULT = "page-fault"
    """Nothing is done; the IOMMU reports `address` (default: that of the commands), and `access` read or write."""
    UNPLUGGED = "unplugged"
    """The core is gone from then on: all its registers read as ones, what is written is lost."""


_OWN_NAMES = {
    FaultKind.DMA_READ_ERROR: ("ends",),
    FaultKind.DMA_WRITE_ERROR: ("ends",),
    FaultKind.PAGE_FAULT: ("address", "access"),
}
_NAMES = ("core", "start", "count")


@dataclass(frozen=True)
class Fault:
    """One of them."""

    kind: FaultKind
    core: int | None = None
    start: int = 1
    count: int = 1
    address: int | None = None
    is_write: bool = False
    ends: bool = False

    @property
    def status(self) -> int:
        """What it adds to the interrupt status."""
        bits = {FaultKind.DMA_READ_ERROR: DMA_READ_ERROR, FaultKind.DMA_WRITE_ERROR: DMA_WRITE_ERROR}
        return bits.get(self.kind, 0)

    def __str__(self) -> str:
        said = [f"core={self.core}"] if self.core is not None else []
        said += [f"start={self.start}", f"count={ALL if self.count >= _ENDLESS else self.count}"]
        said += [f"address={self.address:#x}"] if self.address is not None else []
        said += ["access=write"] if self.is_write else []
        said += ["ends=yes"] if self.ends else []
        return f"{self.kind}:{','.join(said)}"


def parse_fault(text: str, cores: int) -> Fault:
    """The fault that a line describes, for an NPU with so many cores."""
    name, _, rest = text.partition(":")
    if name not in list(FaultKind):
        raise DeviceError(f"no fault is called {name!r}; there are {', '.join(FaultKind)}")
    kind = FaultKind(name)
    known = (*_NAMES, *_OWN_NAMES.get(kind, ()))
    values: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not equals or key not in known or key in values:
            raise DeviceError(f"{text!r}: {part!r} is not one of NAME=VALUE, each once; {kind} has {', '.join(known)}")
        values[key] = value
    core = _number(text, values, "core", 0, cores - 1) if "core" in values else None
    count = _ENDLESS if values.get("count") == ALL else _number(text, values, "count", 1, _ENDLESS)
    address = _number(text, values, "address", 0, 0xFFFF_FFFF) if "address" in values else None
    is_write = _choice(text, values, "access", "read", "write")
    ends = _choice(text, values, "ends", "no", "yes")
    return Fault(kind, core, _number(text, values, "start", 1, _ENDLESS), count, address, is_write, ends)


def _number(text: str, values: dict[str, str], name: str, least: int, most: int) -> int:
    given = values.get(name, "1")
    try:
        number = int(given, 0)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        upper = f"to {most}" if most < _ENDLESS else "on"
        raise DeviceError(f"{text!r}: {name}={given} is no number from {least} {upper}")
    return number


def _choice(text: str, values: dict[str, str], name: str, no: str, yes: str) -> bool:
    given = values.get(name, no)
    if given not in (no, yes):
        raise DeviceError(f"{text!r}: {name}={given}; it is {no} or {yes}")
    return given == yes


@dataclass
class Faults:
    """The faults of one board, with the starts counted."""

    wanted: Sequence[Fault] = ()
    met: dict[str, int] = field(default_factory=dict)
    """Text of a fault -> how many starts had it."""
    _starts: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, core: int) -> Fault | None:
        """A core starts: the fault that this start has, if any."""
        with self._lock:
            self._starts[core] = self._starts.get(core, 0) + 1
            for fault in self.wanted:
                if fault.core not in (None, core):
                    continue
                number = self._starts[core] if fault.core is not None else sum(self._starts.values())
                if 0 <= number - fault.start < fault.count:
                    self.met[str(fault)] = self.met.get(str(fault), 0) + 1
                    return fault
            return None

    def not_met(self) -> list[str]:
        """Faults that no start had."""
        return [str(fault) for fault in self.wanted if str(fault) not in self.met]
