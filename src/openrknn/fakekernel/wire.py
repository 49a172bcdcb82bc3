"""One ioctl as it came over the wire: values by name, what its pointers point to, and what goes back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from openrknn.fakekernel.protocol import LENGTH
from openrknn.uapi.ioctl import READ, Array, Ioctl, direction_of, size_of
from openrknn.uapi.layout import Struct

if TYPE_CHECKING:
    from openrknn.fakekernel.fences import Fence

__all__ = ["Block", "Call", "Element"]

_MOST_VALUES = 1 << 16
"""More is not written down."""


class Element(NamedTuple):
    """One struct behind a pointer, with what its own pointers point to."""

    values: dict[str, int]
    blocks: dict[str, Block]


@dataclass(frozen=True, slots=True)
class Block:
    """What a pointer points to. Structs that hold pointers themselves are taken apart, the others stay bytes."""

    data: bytes
    stride: int = 1
    elements: tuple[Element, ...] = ()


class Call:
    """An ioctl on its way through a driver. `values` is changed in place and goes back."""

    __slots__ = ("blocks", "close_on_exec", "descriptor", "fence", "ioctl", "opened", "request", "takes_byte", "texts",
                 "values")  # fmt: skip

    def __init__(self, ioctl: Ioctl, request: int, payload: memoryview, descriptor: int = -1) -> None:
        """From the payload of a request."""
        size = size_of(request)
        self.ioctl = ioctl
        self.request = request
        self.values = ioctl.argument.unpack(payload[:size] if ioctl.arrays else payload)
        self.blocks = _Reader(payload[size:]).blocks(ioctl.arrays, self.values) if ioctl.arrays else {}
        self.descriptor = descriptor
        """Handed in by the program; -1: none. The server closes it."""
        self.texts: dict[str, bytes] | None = None
        """For pointers that the kernel fills."""
        self.opened = -1
        """A descriptor for the program; -1: none. The server closes its own copy."""
        self.fence: Fence | None = None
        """The descriptor for the program is one of this fence."""
        self.close_on_exec = False
        self.takes_byte = False
        """One of the bytes that the driver sent for poll(2) is used up."""

    def flat(self) -> dict[str, int]:
        """The values, with what their pointers point to: jobs[0].tasks[1].regcmd."""
        return dict(itertools.islice(_flattened(self.ioctl.arrays, self.values, self.blocks, ""), _MOST_VALUES))

    def fill(self, pointer: str, data: bytes) -> None:
        """What the program finds behind a pointer, as far as it has room; ask before the count is changed."""
        array = next(array for array in self.ioctl.arrays if array.pointer == pointer)
        room = self.values[array.count] * array.element_bytes
        self.texts = {**(self.texts or {}), pointer: data[:room]}

    def drop_opened(self) -> None:
        """The program does not get the descriptor after all."""
        if self.opened >= 0:
            os.close(self.opened)
        self.opened = -1

    def encode(self) -> bytes:
        """The payload of the reply. Arguments of older programs are cut to their length."""
        if not direction_of(self.request) & READ:
            return b""
        size = size_of(self.request)
        data = self.ioctl.argument.pack_all(self.values)
        if len(data) != size:
            data = data[:size].ljust(size, b"\0")
        for array in self.ioctl.arrays:
            if array.out:
                text = (self.texts or {}).get(array.pointer, b"")
                data += LENGTH.pack(len(text)) + text
        return data


class _Reader:
    """Walks through blocks in the order in which the preload library wrote them."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def blocks(self, arrays: Iterable[Array], values: Mapping[str, int]) -> dict[str, Block]:
        return {array.pointer: self._block(array, values) for array in arrays if not array.out}

    def _block(self, array: Array, values: Mapping[str, int]) -> Block:
        if self._at + LENGTH.size > len(self._data):  # the program's argument was too short to hold pointers
            return Block(b"")
        (length,) = LENGTH.unpack_from(self._data, self._at)
        self._at += LENGTH.size
        data = bytes(self._data[self._at : self._at + length])
        self._at += length
        stride = values[array.stride] if array.stride else array.element_bytes
        if stride < array.element_bytes:  # the driver refuses them
            return Block(b"", stride)
        data = data[: len(data) // stride * stride]
        if not (array.inside and data and isinstance(array.element, Struct)):
            return Block(data, stride)
        return Block(data, stride, tuple(self._elements(array, array.element, data, stride)))

    def _elements(self, array: Array, struct: Struct, data: bytes, stride: int) -> Iterable[Element]:
        for offset in range(0, len(data), stride):
            values = struct.unpack(data, offset)
            yield Element(values, self.blocks(array.inside, values))


def _flattened(
    arrays: Iterable[Array], values: Mapping[str, int], blocks: Mapping[str, Block], prefix: str
) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        yield prefix + name, value
    for array in arrays:
        block = blocks.get(array.pointer)
        if block is None:
            continue
        for number, (inner, below) in enumerate(_entries(array, block)):
            place = f"{prefix}{array.pointer}[{number}]"
            if isinstance(array.element, Struct):
                yield from _flattened(array.inside, inner, below, f"{place}.")
            else:
                yield place, inner[""]


def _entries(array: Array, block: Block) -> Iterator[tuple[Mapping[str, int], Mapping[str, Block]]]:
    if block.elements:
        yield from block.elements
        return
    for at in range(0, len(block.data) - array.element_bytes + 1, max(block.stride, 1)):
        if isinstance(array.element, Struct):
            yield array.element.unpack(block.data, at), {}
        else:
            yield {"": int.from_bytes(block.data[at : at + array.element_bytes], "little")}, {}
