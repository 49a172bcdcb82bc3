"""The IOMMU of an NPU core: its registers, and the page tables that it walks (Rockchip's, of the RK3568's kind).

Two levels of 1024 entries of 32 bits; pages have 4 KiB. An entry holds bits 31:12 of an address in place, bits 35:32
in 11:8 and bits 39:36 in 7:4. Bit 0: valid; of a page, bit 1: may be read, bit 2: may be written.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

from openrknn.board.guest_memory import GuestMemory

__all__ = ["BANK_BYTES", "PAGE_BYTES", "Bank", "Command", "Register", "Status", "pages_of", "physical"]

BANK_BYTES = 0x100
_ENTRIES = 1024
_VALID = 1
PAGE_BYTES = 4096
PAGE_FAULT = 1
_READ_BACK = 0xFFFF_FFF0
"""Bits of DTE_ADDR that are kept: drivers write a pattern and compare."""


class Register(IntEnum):
    """Offsets in a bank."""

    DTE_ADDR = 0x00
    STATUS = 0x04
    COMMAND = 0x08
    PAGE_FAULT_ADDR = 0x0C
    ZAP_ONE_LINE = 0x10
    INT_RAWSTAT = 0x14
    INT_CLEAR = 0x18
    INT_MASK = 0x1C
    INT_STATUS = 0x20
    AUTO_GATING = 0x24


class Status(IntFlag):
    """Bits of STATUS."""

    PAGING_ENABLED = 1 << 0
    PAGE_FAULT_ACTIVE = 1 << 1
    STALL_ACTIVE = 1 << 2
    IDLE = 1 << 3
    REPLAY_BUFFER_EMPTY = 1 << 4
    PAGE_FAULT_IS_WRITE = 1 << 5
    STALL_NOT_ACTIVE = 1 << 31


class Command(IntEnum):
    """What is written to COMMAND."""

    ENABLE_PAGING = 0
    DISABLE_PAGING = 1
    ENABLE_STALL = 2
    DISABLE_STALL = 3
    ZAP_CACHE = 4
    PAGE_FAULT_DONE = 5
    FORCE_RESET = 6


class Bank:
    """The registers of one MMU."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As after power-on."""
        self.directory = 0
        """DTE_ADDR as it was written."""
        self.is_paging = self._is_stalled = False
        self._fault: tuple[int, bool] | None = None
        self._fault_address = 0
        self._raw = self._mask = 0
        self._gating = 0

    @property
    def wants_interrupt(self) -> bool:
        return bool(self._raw & self._mask)

    def fault(self, address: int, *, is_write: bool) -> None:
        """A DMA met an address that is not mapped."""
        self._fault, self._fault_address = (address, is_write), address
        self._raw |= PAGE_FAULT

    def read(self, offset: int) -> int:
        """What is in a register."""
        return {
            Register.DTE_ADDR: self.directory,
            Register.STATUS: self._status(),
            Register.PAGE_FAULT_ADDR: self._fault_address,
            Register.INT_RAWSTAT: self._raw,
            Register.INT_MASK: self._mask,
            Register.INT_STATUS: self._raw & self._mask,
            Register.AUTO_GATING: self._gating,
        }.get(Register(offset) if offset in _OFFSETS else Register.COMMAND, 0)

    def write(self, offset: int, value: int) -> None:
        """Change a register. Table walks happen when a job starts, so there is no cache to zap."""
        if offset == Register.DTE_ADDR:
            self.directory = value & _READ_BACK
        elif offset == Register.COMMAND:
            self._obey(value)
        elif offset == Register.INT_CLEAR:
            self._raw &= ~value
        elif offset == Register.INT_MASK:
            self._mask = value
        elif offset == Register.AUTO_GATING:
            self._gating = value

    def _status(self) -> int:
        status = Status.IDLE | Status.REPLAY_BUFFER_EMPTY
        status |= Status.PAGING_ENABLED if self.is_paging else 0
        status |= Status.STALL_ACTIVE if self._is_stalled else Status.STALL_NOT_ACTIVE
        if self._fault is not None:
            status |= Status.PAGE_FAULT_ACTIVE | (Status.PAGE_FAULT_IS_WRITE if self._fault[1] else 0)
        return int(status)

    def _obey(self, command: int) -> None:
        if command in (Command.ENABLE_PAGING, Command.DISABLE_PAGING):
            self.is_paging = command == Command.ENABLE_PAGING
        elif command in (Command.ENABLE_STALL, Command.DISABLE_STALL):
            self._is_stalled = command == Command.ENABLE_STALL
        elif command == Command.PAGE_FAULT_DONE:
            self._fault = None
        elif command == Command.FORCE_RESET:
            self.reset()


_OFFSETS = {int(register) for register in Register}


def physical(entry: int) -> int:
    """The address in an entry of a table, or in DTE_ADDR."""
    return entry & 0xFFFF_F000 | (entry >> 8 & 0xF) << 32 | (entry >> 4 & 0xF) << 36


def pages_of(memory: GuestMemory, directory: int) -> npt.NDArray[np.int64]:
    """For every page that is mapped: its number in the NPU's addresses and its physical address, in ascending order."""
    found: list[npt.NDArray[np.int64]] = []
    tables = memory.table(physical(directory), _ENTRIES)
    if tables is None:
        return np.empty((0, 2), np.int64)
    for upper in np.flatnonzero(tables & _VALID).tolist():
        entries = memory.table(physical(int(tables[upper])), _ENTRIES)
        if entries is None:
            continue
        lower = np.flatnonzero(entries & _VALID)
        words = entries[lower].astype(np.int64)
        places = words & 0xFFFF_F000 | (words >> 8 & 0xF) << 32 | (words >> 4 & 0xF) << 36
        found.append(np.stack([upper * _ENTRIES + lower, places], axis=1))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)
