"""One core of the NPU as a device: registers of its PC, its IOMMU, its reset, and one interrupt line.

What tasks compute is the software NPU's business, and what an address space is the IOMMU's; the code that follows
tasks and runs them is the emulated kernel's. Here is only what a driver reads and writes.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from openrknn.board.domain import PHYSICAL, Domains
from openrknn.board.guest_memory import GuestMemory
from openrknn.board.iommu import BANK_BYTES, PAGE_BYTES, Bank
from openrknn.board.pci import CONFIG_SIZE, ConfigSpace
from openrknn.board.starts import Start, outcome_of
from openrknn.board.vfio_user import CONFIG_REGION
from openrknn.chips import Chip
from openrknn.fakekernel.faults import FaultKind, Faults
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.space import on_bus

__all__ = ["BAR_BYTES", "RESET_OFFSET", "NpuCore", "Register", "Shared", "bank_offsets"]

LOG = logging.getLogger(__name__)
BAR_BYTES = 0x20000
RESET_OFFSET = 0x10000
"""Behind the 64 KiB of the core: one register, a bit for each of its two resets."""
_BANKS = {("rk3588", 0): (9 * PAGE_BYTES, 10 * PAGE_BYTES)}
_ONE_BANK = (10 * PAGE_BYTES,)
"""Offsets of the IOMMU: the first core of an RK3588 has two banks of it."""
_WITHOUT_IOMMU = ("rv1106", "rv1106b")
_LATE_TASK_STATUS = ("rk3562", "rk3576")
"""Families whose TASK_STATUS has another place."""
_BASE_MASK = 0xFFFF_FFF0
_NOTHING = 0xFFFF_FFFF
"""What is read where no device answers."""


class Register(IntEnum):
    """Of the PC."""

    VERSION = 0x00
    VERSION_NUM = 0x04
    OPERATION_ENABLE = 0x08
    BASE_ADDRESS = 0x10
    REGISTER_AMOUNTS = 0x14
    INTERRUPT_MASK = 0x20
    INTERRUPT_CLEAR = 0x24
    INTERRUPT_STATUS = 0x28
    INTERRUPT_RAW_STATUS = 0x2C
    TASK_CON = 0x30
    TASK_DMA_BASE_ADDR = 0x34
    TASK_STATUS = 0x3C
    LATE_TASK_STATUS = 0x48


def bank_offsets(chip: Chip, core: int) -> tuple[int, ...]:
    """Where in the core's 64 KiB its IOMMU has registers; nowhere if the chip has none."""
    return () if chip.family in _WITHOUT_IOMMU else _BANKS.get((chip.family, core), _ONE_BANK)


@dataclass
class Shared:
    """What the cores of one board have in common."""

    chip: Chip
    memory: GuestMemory = field(default_factory=GuestMemory)
    waits: bool = True
    """Whether a job is done when the write that starts it returns: then the guest's time stands still meanwhile."""
    faults: Faults = field(default_factory=Faults)
    on_start: Callable[[Start], None] = lambda start: None
    """Called before a start does anything."""
    on_end: Callable[[Start, Outcome], None] = lambda start, outcome: None
    """Called when nothing more comes of it, well or not."""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.domains = Domains(self.chip, self.memory)


class NpuCore:
    """A PCI device whose BAR holds the registers of one core."""

    def __init__(self, number: int, shared: Shared) -> None:
        self._number = number
        self._shared = shared
        self._config = ConfigSpace(BAR_BYTES)
        chip = shared.chip
        self._banks = {offset: Bank() for offset in bank_offsets(chip, number)}
        self._version = chip.hw_version or 0
        self._task_mask = (1 << chip.pc_task_bits) - 1
        is_late = chip.family in _LATE_TASK_STATUS
        self._task_status = Register.LATE_TASK_STATUS if is_late else Register.TASK_STATUS
        self._registers: dict[int, int] = {}
        self._raw = 0
        self._tasks_done = 0
        self._resets = 0
        self._job: threading.Thread | None = None
        self._interrupt: int | None = None
        self._is_masked = self._is_gone = False
        self._lock = threading.RLock()
        self.region_sizes = {0: BAR_BYTES, CONFIG_REGION: CONFIG_SIZE}

    def read(self, region: int, offset: int, size: int) -> bytes:
        """Registers have 32 bits."""
        if region == CONFIG_REGION:
            return self._config.read(offset, size)
        with self._lock:
            value = self._read(offset & ~3) >> 8 * (offset & 3)
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def write(self, region: int, offset: int, data: bytes) -> None:
        """A start may run the job before it returns."""
        if region == CONFIG_REGION:
            self._config.write(offset, data)
            return
        if len(data) != 4 or offset & 3:
            LOG.warning("core %d: a write of %d bytes at %#x is ignored", self._number, len(data), offset)
            return
        self._write(offset, int.from_bytes(data, "little"))
        with self._lock:
            self._signal()

    def map_memory(self, address: int, size: int, descriptor: int, offset: int) -> None:
        self._shared.memory.add(address, size, descriptor, offset)

    def unmap_memory(self, address: int, size: int) -> None:
        self._shared.memory.remove(address)

    def set_interrupt(self, descriptor: int | None) -> None:
        with self._lock:
            if self._interrupt is not None:
                os.close(self._interrupt)
            self._interrupt, self._is_masked = descriptor, False
            self._signal()

    def unmask_interrupt(self) -> None:
        with self._lock:
            self._is_masked = False
            self._signal()

    def reset(self) -> None:
        """Registers as after power-on. A job that runs is waited for: its memory may go to others afterwards."""
        self._end_job()
        with self._lock:
            self._registers.clear()
            self._raw = self._tasks_done = 0
            for bank in self._banks.values():
                bank.reset()
        self._shared.domains.states.reset(self._number)

    def _read(self, offset: int) -> int:
        if self._is_gone:
            return _NOTHING
        for start, bank in self._banks.items():
            if start <= offset < start + BANK_BYTES:
                return bank.read(offset - start)
        if offset == RESET_OFFSET:
            return self._resets
        if offset == Register.VERSION:
            return self._version
        if offset == Register.INTERRUPT_STATUS:
            return self._raw & self._registers.get(Register.INTERRUPT_MASK, 0)
        if offset == Register.INTERRUPT_RAW_STATUS:
            return self._raw
        if offset == self._task_status:
            return self._tasks_done
        return self._registers.get(offset, 0)

    def _write(self, offset: int, value: int) -> None:
        if self._is_gone:
            return
        for start, bank in self._banks.items():
            if start <= offset < start + BANK_BYTES:
                with self._lock:
                    bank.write(offset - start, value)
                return
        if offset == RESET_OFFSET:
            is_asserted = value & ~self._resets
            self._resets = value
            if is_asserted:
                self._reset_core()
        elif offset == Register.OPERATION_ENABLE:
            self._registers[offset] = value
            if value & 1:
                self._start()
        elif offset == Register.INTERRUPT_CLEAR:
            with self._lock:
                self._raw &= ~value
        else:
            with self._lock:
                self._registers[offset] = value

    def _reset_core(self) -> None:
        """The resets of the core leave its IOMMU alone: that has a reset command of its own."""
        self._end_job()
        with self._lock:
            self._registers.clear()
            self._raw = self._tasks_done = 0
        self._shared.domains.states.reset(self._number)

    def _end_job(self) -> None:
        if self._job is not None:
            self._job.join()
            self._job = None

    def _start(self) -> None:
        """Fetch and run tasks from what the registers say now."""
        if self._job is not None and self._job.is_alive():
            LOG.warning("core %d: a start while a job runs is ignored", self._number)
            return
        registers = self._registers
        count = registers.get(Register.TASK_CON, 0) & self._task_mask
        first = registers.get(Register.BASE_ADDRESS, 0) & _BASE_MASK
        amounts = registers.get(Register.REGISTER_AMOUNTS, 0)
        base = registers.get(Register.TASK_DMA_BASE_ADDR, 0) & _BASE_MASK
        arguments = (first, amounts, count, base)
        if self._shared.waits:
            self._run(*arguments)
            return
        self._job = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._job.start()

    def _run(self, first: int, amounts: int, count: int, base: int) -> None:
        bank = next(iter(self._banks.values()), None)
        if bank is not None and not bank.is_paging:
            LOG.warning("core %d: a job was started while its IOMMU was off; it never ends", self._number)
            return
        shared, directory = self._shared, PHYSICAL if bank is None else bank.directory
        space = shared.domains.at(directory).space
        start = Start(next(shared.numbers), self._number, directory, space, first, amounts, count, base)
        fault = shared.faults.next(self._number)
        shared.on_start(start)
        outcome = outcome_of(start, fault)
        with self._lock:
            self._is_gone = fault is not None and fault.kind == FaultKind.UNPLUGGED
            self._tasks_done = outcome.tasks
            if outcome.problem == "fault" and bank is not None:
                bank.fault(on_bus(base, outcome.address or 0), is_write=outcome.is_write)
            self._raw |= outcome.status.get(self._number, 0)
            self._signal()
        if outcome.problem:
            LOG.info("core %d: %s", self._number, outcome.error)
        shared.on_end(start, outcome)

    def _signal(self) -> None:
        """The line is a level: who unmasks it while it is still asked for hears of it again.

        QEMU unmasks at a driver's first access, before the one that clears the cause. So when the cause is gone, what
        QEMU has not heard of yet is taken back: rknpu takes an interrupt without a cause for the end of a job that
        has not begun.
        """
        asked = self._raw & self._registers.get(Register.INTERRUPT_MASK, 0)
        asked = bool(asked) or any(bank.wants_interrupt for bank in self._banks.values())
        if self._interrupt is None or self._is_gone or asked == self._is_masked:
            return
        if asked:
            self._is_masked = True
            os.write(self._interrupt, (1).to_bytes(8, "little"))
        elif select.select([self._interrupt], [], [], 0)[0]:
            os.read(self._interrupt, 8)
            self._is_masked = False
