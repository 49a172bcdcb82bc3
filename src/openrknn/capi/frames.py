"""Outputs of one run: as stored in the NPU's memory, or copies that the next run does not touch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.capi.call import CallError, Code
from openrknn.capi.floats import read_into
from openrknn.capi.memory import Bytes, Memory
from openrknn.chips import Chip
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.program.program import Program

_ALIGNMENT = 64


class Frame:
    """The outputs of one run. Each output has a port for each item of a batch."""

    def __init__(self, ports: Sequence[Sequence[OutputPort]], copies: Mapping[str, Sequence[Bytes]]) -> None:
        self.number = 0
        self.is_copied = bool(copies)
        self.ports = ports
        self._copies = copies

    @classmethod
    def copied(cls, program: Program, items: int) -> Frame:
        """Room for what `take` copies."""
        copies = {port.name: [_room(program, port.name) for _ in range(items)] for port in program.outputs}
        ports = [
            [OutputPort(StoredTensor(port.stored.tensor, memory)) for memory in copies[port.name]]
            for port in program.outputs
        ]
        return cls(ports, copies)

    def take(self, program: Program, item: int) -> None:
        """Keep what the program's outputs hold now."""
        for name, rooms in self._copies.items():
            source = program.buffer_of(name).array[: rooms[item].nbytes]  # fewer bytes in memory that a user has bound
            rooms[item][: source.nbytes] = source

    def output(self, index: int) -> Sequence[OutputPort]:
        """One output, by its number in the model."""
        if not 0 <= index < len(self.ports):
            raise CallError(Code.OUTPUT_INVALID, f"there is no output {index}; the model has {len(self.ports)}")
        return self.ports[index]


def live(program: Program) -> Frame:
    """The memory that the program writes into."""
    return Frame([[port] for port in program.outputs], {})


def output_type(port: OutputPort, *, want_float: bool) -> np.dtype[Any]:
    """What `rknn_outputs_get` gives: float32, or the type that the model stores."""
    return np.dtype(np.float32) if want_float else port.stored.dtype


class Results:
    """Where `rknn_outputs_get` puts outputs: memory that the library reads them from, replaced when it is too small."""

    def __init__(self) -> None:
        self._memory: Memory | None = None

    def reserve(self, sizes: Sequence[int]) -> tuple[list[int], int | None]:
        """An offset for each output, and the descriptor if the memory is new."""
        offsets, end = [], 0
        for size in sizes:
            offsets.append(end)
            end += -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        if self._memory is not None and self._memory.size_bytes >= end:
            return offsets, None
        made = Memory.create(max(end, 1), "openrknn-results")
        self.close()
        self._memory = made
        return offsets, made.fd

    @property
    def size_bytes(self) -> int:
        """Of all that can be mapped."""
        return self._memory.size_bytes if self._memory is not None else 0

    def store(self, ports: Sequence[OutputPort], offset: int, chip: Chip, *, want_float: bool) -> None:
        """One output, all items of a batch behind each other."""
        assert self._memory is not None
        for port in ports:
            offset = _store(port, self._memory.array, offset, chip, want_float=want_float)

    def close(self) -> None:
        """Give the memory back."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _store(port: OutputPort, memory: Array, offset: int, chip: Chip, *, want_float: bool) -> int:
    shape, dtype = port.stored.tensor.shape, output_type(port, want_float=want_float)
    end = offset + math.prod(shape) * dtype.itemsize
    read_into(port, memory[offset:end].view(dtype).reshape(shape), chip, is_float=want_float)
    return end


def _room(program: Program, name: str) -> Bytes:
    return np.zeros_like(program.buffer_of(name).array)
