"""One core of a virtual board with memory, page tables and a product to compute."""

from __future__ import annotations

import mmap
import os
import select
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from openrknn.board import iommu, streams
from openrknn.board.npu_device import NpuCore, Register, Shared
from tests.board.client import Client

RAM, RAM_BYTES, PAGE = 0x4000_0000, 1 << 20, 4096
DIRECTORY, TABLE, DATA = RAM, RAM + PAGE, RAM + 2 * PAGE
BANK, OTHER_BANK = 0x9000, 0xA000
A, B, C, COMMANDS = 0, PAGE, 2 * PAGE, 3 * PAGE
INTERRUPT = 0x300


@dataclass
class Board:
    """One core with its memory."""

    client: Client
    memory: mmap.mmap
    line: int
    """What the device signals."""

    def poke(self, address: int, data: bytes) -> None:
        self.memory[address - RAM : address - RAM + len(data)] = data

    def peek(self, address: int, size: int) -> bytes:
        return self.memory[address - RAM : address - RAM + size]

    def has_interrupt(self) -> bool:
        if not select.select([self.line], [], [], 0)[0]:
            return False
        os.read(self.line, 8)
        return True

    def page_of(self, number: int) -> int:
        """Pages of the NPU lie in memory in the reverse order."""
        return DATA + (7 - number) * PAGE

    def set_up_paging(self, pages: int = 4) -> None:
        self.poke(DIRECTORY, struct.pack("<I", TABLE | 1))
        self.poke(TABLE, struct.pack(f"<{pages}I", *(self.page_of(number) | 7 for number in range(pages))))
        for bank in (BANK, OTHER_BANK):
            self.client.write(bank + iommu.Register.DTE_ADDR, DIRECTORY)
            self.client.write(bank + iommu.Register.INT_MASK, 3)
            self.client.write(bank + iommu.Register.COMMAND, iommu.Command.ENABLE_PAGING)

    def load(self, seed: int = 0) -> bytes:
        """A product in the pages; the right answer."""
        left, right, wanted = streams.operands(seed)
        body = streams.product_body(A, B, C) + streams.tail(streams.PRODUCT_MASK)
        for address, data in ((A, left), (B, right), (C, bytes(PAGE)), (COMMANDS, streams.to_bytes(body))):
            self.poke(self.page_of(address // PAGE), data)
        return wanted

    def start(self, address: int = COMMANDS, mask: int = INTERRUPT, words: int = 0) -> None:
        """What rocket writes for one task; without `words` for the product."""
        words = words or len(streams.product_body(0, 0, 0)) + len(streams.tail(0))
        self.client.write(Register.BASE_ADDRESS, address)
        self.client.write(Register.REGISTER_AMOUNTS, (words + 1) // 2 - 1)
        self.client.write(Register.INTERRUPT_MASK, mask)
        self.client.write(Register.INTERRUPT_CLEAR, INTERRUPT)
        self.client.write(Register.TASK_CON, 0x7001)
        self.client.write(Register.OPERATION_ENABLE, 1)


@contextmanager
def one_core(shared: Shared, number: int = 0) -> Iterator[Board]:
    """A core that a client has connected to."""
    memory = os.memfd_create("ram")
    os.ftruncate(memory, RAM_BYTES)
    client = Client(NpuCore(number, shared))
    client.map_memory(RAM, RAM_BYTES, memory)
    line = os.eventfd(0)
    client.set_interrupt(line)
    yield Board(client, mmap.mmap(memory, RAM_BYTES), line)
    client.close()
    os.close(memory)
    os.close(line)


def wait(board: Board) -> None:
    assert select.select([board.line], [], [], 30)[0]
