"""A program that uses the library, as its own process of the engine sees it: what it made, by number."""

from __future__ import annotations

import itertools
import threading
from typing import Protocol, TypeVar

from openrknn.capi.call import Call, CallError, Code
from openrknn.capi.memory import PAGE, Memory
from openrknn.capi.structs import Codec

_FIRST = 0x10001
"""Numbers of contexts and memories. They fit 32 bits, as rknn_context does on 32-bit Arm, and are never used again."""

_FIRST_ADDRESS = 1 << 32
"""Of memories that the NPU sees where they are bound, not before; 64 bits, so that none is used again."""


class Closable(Protocol):
    """A context of either kind."""

    def close(self) -> None: ...


_T = TypeVar("_T", bound=Closable)


class Client:
    """What one program has: contexts of models and of matrix products, and memory."""

    def __init__(self, codec: Codec | None = None) -> None:
        self.codec = codec or Codec()
        """The struct layout of its compiler."""
        self.contexts: dict[int, Closable] = {}
        self.memories: dict[int, Memory] = {}
        self._numbers = itertools.count(_FIRST)
        self._next_address = _FIRST_ADDRESS
        self._lock = threading.Lock()

    def add_context(self, context: Closable) -> int:
        """The number that the program gets for it."""
        with self._lock:
            number = next(self._numbers)
            self.contexts[number] = context
            return number

    def add_memory(self, memory: Memory) -> int:
        """The number that the library gets for it."""
        with self._lock:
            number = next(self._numbers)
            self.memories[number] = memory
            if not memory.address:
                memory.address = self._next_address
                self._next_address += -(-memory.size_bytes // PAGE) * PAGE + PAGE
            return number

    def memory_at(self, address: int, size_bytes: int) -> tuple[Memory, int]:
        """The memory that has these addresses of the NPU, and where in it they begin."""
        for memory in list(self.memories.values()):
            offset = address - memory.address
            if offset >= 0 and offset + size_bytes <= memory.size_bytes:
                return memory, offset
        raise CallError(
            Code.PARAM_INVALID,
            f"{size_bytes} bytes at {address:#x} are in no memory of this program; only addresses of rknn_create_mem* "
            "(phys_addr) can be used here",
        )

    def context(self, call: Call, kind: type[_T]) -> _T:
        """The context that a call is about."""
        found = self.contexts.get(call.context)
        if not isinstance(found, kind):
            raise CallError(Code.CTX_INVALID, _no_context(call.context, found))
        return found

    def any_context(self, call: Call) -> Closable:
        """The context that a call is about, of either kind."""
        found = self.contexts.get(call.context)
        if found is None:
            raise CallError(Code.CTX_INVALID, _no_context(call.context, found))
        return found

    def memory(self, call: Call) -> Memory:
        """The memory that a call is about."""
        found = self.memories.get(call.memory)
        if found is None:
            raise CallError(Code.PARAM_INVALID, "the memory was destroyed, or was never made by rknn_create_mem*")
        return found

    def close(self) -> None:
        """Give everything back."""
        for context in list(self.contexts.values()):
            context.close()
        self.contexts.clear()
        for memory in list(self.memories.values()):
            memory.close()
        self.memories.clear()


def _no_context(number: int, found: object) -> str:
    if found is None:
        return f"there is no context {number:#x}: it was destroyed, or rknn_init did not return it"
    return f"context {number:#x} is of the other kind: rknn_matmul_* and the other functions do not mix"
