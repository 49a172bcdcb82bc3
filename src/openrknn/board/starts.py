"""One start of a core by a driver, and what becomes of it: work of the software NPU, or a fault that was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.fakekernel.execution import ExecutionSpace, run_lists
from openrknn.fakekernel.faults import Fault, FaultKind
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.space import counted_from
from openrknn.fakekernel.tasks import COUNTER, started_at

__all__ = ["Start", "outcome_of"]


@dataclass(frozen=True, eq=False)
class Start:
    """What the registers said when a driver started a core."""

    number: int
    """From 1 on, over all cores."""
    core: int
    directory: int
    """Of the page tables: it stands for an address space."""
    space: ExecutionSpace
    """The memory behind them."""
    address: int
    """Of the first commands."""
    amounts: int
    count: int
    """Tasks."""
    base: int
    """What the NPU adds to every address in commands."""

    @property
    def registers(self) -> bytes:
        """As `read_chain` takes them."""
        return started_at(self.address, self.amounts, self.count)


def outcome_of(start: Start, fault: Fault | None) -> Outcome:
    """Do the work, or what the fault says."""
    said = f"fault {fault}, as asked for"
    if fault is None:
        return _run(start)
    if fault.kind == FaultKind.MISSING_INTERRUPT:
        return _run(start)._replace(status={}, error=said, problem="stuck")
    if fault.kind == FaultKind.PAGE_FAULT:
        address = counted_from(start.base, start.address if fault.address is None else fault.address)
        return Outcome(error=said, problem="fault", address=address, is_write=fault.is_write)
    ended = _run(start, executes=False).status.get(start.core, 0) if fault.ends else 0
    return Outcome({start.core: fault.status | ended}, error=said, problem="dma" if fault.status else "stuck")


def _run(start: Start, *, executes: bool = True) -> Outcome:
    return run_lists(start.space.at(start.base), COUNTER, {start.core: (0, start.registers)}, executes=executes)
