"""Containers of dnhkng/open-rknpu: command programs for RV1103 that its runtime put on a board as they are.

The project's board tests copied a container's payload to the start of one buffer, the input behind it, submitted the
tasks one after the other and read the output; addresses in the programs are relative to that buffer. Here the buffer is
memory of the software NPU at address 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.chips import CHIPS
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.native import accelerate

Array = npt.NDArray[Any]

SEQUENCE, SINGLE = b"ORNPUSEQ", b"ORNPUBIN"
HEADER_BYTES = 96
ATOM, ATOMS = 16, 4
"""Channels of an atom; a surface has whole groups of four."""
_SINGLE_TASKS = {1: 1, 2: 2, 3: 2, 4: 2, 5: 4, 6: 4, 7: 5, 8: 5}
"""Profile of the older format -> tasks."""


class Role(IntEnum):
    INPUT = 0
    OUTPUT = 1
    INTERNAL = 2


@dataclass(frozen=True)
class Tensor:
    """Where a tensor is: surfaces of 16 channels (`native`), or rows of pixels as the picture reader wants them."""

    role: Role
    index: int
    shape: tuple[int, int, int, int]
    """Pictures, height, width, channels."""
    offset: int
    native: bool

    @property
    def row(self) -> int:
        return -(-self.shape[2] // ATOM) * ATOM

    @property
    def stored(self) -> tuple[int, ...]:
        count, height, width, channels = self.shape
        if self.native:
            return count, -(-channels // ATOM), -(-height * width // ATOMS) * ATOMS, ATOM
        return count, height, self.row, channels

    def view(self, memory: Array) -> Array:
        """Its bytes in memory, as they are stored."""
        size = int(np.prod(self.stored))
        return memory[self.offset : self.offset + size].reshape(self.stored)

    def write(self, memory: Array, values: Array, zero_point: int) -> None:
        """`values` are unsigned numbers; surfaces hold them as signed ones."""
        target = self.view(memory)
        count, height, width, channels = self.shape
        if not self.native:
            target[:] = zero_point
            target[:, :, :width] = values.reshape(self.shape)
            return
        target[:] = (zero_point - 128) & 0xFF
        signed = values.reshape(count, height * width, channels) - np.uint8(128)
        for surface in range(target.shape[1]):
            part = signed[:, :, surface * ATOM : (surface + 1) * ATOM]
            target[:, surface, : height * width, : part.shape[2]] = part

    def read(self, memory: Array) -> Array:
        count, height, width, channels = self.shape
        found = self.view(memory)
        if not self.native:
            return found[:, :, :width].view(np.int8).copy()
        pixels = found.transpose(0, 2, 1, 3).reshape(count, found.shape[2], -1)
        return pixels[:, : height * width, :channels].reshape(self.shape).view(np.int8).copy()


@dataclass(frozen=True)
class Container:
    payload: bytes
    memory_bytes: int
    tasks: tuple[tuple[int, int], ...]
    """(offset, commands) of each."""
    tensors: tuple[Tensor, ...]
    zero_point: int
    joined: int = 1
    """Logical inputs that lie below one another in one tensor."""

    def of(self, role: Role) -> list[Tensor]:
        return sorted((tensor for tensor in self.tensors if tensor.role == role), key=lambda tensor: tensor.index)


def read(data: bytes) -> Container:
    """What a container says."""
    if data[:8] == SINGLE:
        return _single(data)
    if data[:8] != SEQUENCE:
        raise ValueError(f"not a container of open-rknpu: it begins with {data[:8]!r}")
    fields = struct.unpack_from("<22I", data, 8)
    version, payload_bytes, memory_bytes, count = fields[0], fields[9], fields[10], fields[13]
    place = HEADER_BYTES
    tensors: list[Tensor] = []
    if version == 5:
        tensor_count = struct.unpack_from("<I", data, place)[0]
        place += 16
        for number in range(tensor_count):
            at = place + 16 * count + 64 * number + 24
            role, layout, index, *shape, offset, _size, _ = struct.unpack_from("<10I", data, at)
            pictures, height, width, channels = shape
            tensors.append(Tensor(Role(role), index, (pictures, height, width, channels), offset, layout == 1))
    else:
        native, pictures = bool(fields[20]), fields[21] + 1
        tensors = [
            Tensor(Role.INPUT, 0, (pictures, *fields[2:5]), fields[11], native),
            Tensor(Role.OUTPUT, 0, (pictures, *fields[5:8]), fields[12], native=True),
        ]
    tasks = tuple(_pair(data, place + 16 * number) for number in range(count))
    payload, joined = data[len(data) - payload_bytes :], (fields[19] >> 1 & 1) + 1
    return Container(payload, memory_bytes, tasks, tuple(tensors), fields[15], joined)


def _pair(data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from("<2I", data, place)
    return first, second


def _single(data: bytes) -> Container:
    fields = struct.unpack_from("<17I", data, 8)
    version, _, _, profile, height, width, channels, kernels = fields[:8]
    tasks = [(0, 126)]
    for number in range(1, _SINGLE_TASKS[profile]):
        is_convolution = number == 1 and profile in (2, 7, 8)
        first = 0x440 if number == 1 else 0x880 + (number - 2) * 0x180 if profile >= 7 else 0x440 + (number - 1) * 0x180
        tasks.append((first, 126 if is_convolution else 37))
    out = (1, 1) if profile >= 5 else (4, 4) if profile >= 3 else (height, width)
    tensors = (
        Tensor(Role.INPUT, 0, (1, height, width, channels), fields[12], native=False),
        Tensor(Role.OUTPUT, 0, (1, *out, kernels), fields[13], native=True),
    )
    zero_point = struct.unpack_from("<I", data, 92)[0] if version == 2 else 0
    return Container(data[HEADER_BYTES:], fields[14], tuple(tasks), tensors, zero_point)


class Loaded:
    """A container on the software NPU."""

    def __init__(self, container: Container, *, native: bool = True) -> None:
        self.container = container
        self._bytes = np.zeros(container.memory_bytes, np.uint8)
        self._bytes[: len(container.payload)] = np.frombuffer(container.payload, np.uint8)
        memory = Memory([Buffer(0, self._bytes, "container")])
        self._machine = Machine(CHIPS["rv1103"], memory)
        refs = [TaskRef(number, *task, operator=number) for number, task in enumerate(container.tasks)]
        self._program = self._machine.prepare([refs])
        if native:
            accelerate(self._program, memory)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """One inference."""
        container = self.container
        for tensor, values in zip(container.of(Role.INPUT), inputs, strict=True):
            tensor.write(self._bytes, values, container.zero_point)
        outputs = container.of(Role.OUTPUT)
        for tensor in outputs:
            tensor.view(self._bytes)[:] = 0
        self._program.run()
        return [tensor.read(self._bytes) for tensor in outputs]

    def answers(self, inputs: bytes) -> Iterator[bytes]:
        """The inferences of a file of inputs, one after the other: outputs as the board tests kept them."""
        container = self.container
        shapes = [tensor.shape for tensor in container.of(Role.INPUT)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(inputs) % sum(sizes):
            raise ValueError(f"{len(inputs)} bytes are not whole inputs of {sum(sizes)}")
        for case in np.frombuffer(inputs, np.uint8).reshape(-1, sum(sizes)):
            parts = np.split(case, np.cumsum(sizes)[:-1])
            if container.joined > 1:  # first all pictures of one, then those of the other
                count, height, width, channels = shapes[0]
                rows = height // container.joined
                apart = parts[0].reshape(container.joined, count, rows, width, channels)
                parts = [apart.swapaxes(0, 1).reshape(shapes[0])]
            yield b"".join(output.tobytes() for output in self.run(parts))
