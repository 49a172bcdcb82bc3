"""Inputs and outputs in a program's memory (`rknn_set_io_mem`), and how a run uses them.

Native memory and raw pixels are the NPU's own inputs and outputs: nothing is copied. Everything else is converted
before or after each run. On a device that cannot see the program's memory native tensors are copied, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from openrknn.capi.call import CallError, Code
from openrknn.capi.floats import read_into
from openrknn.capi.memory import Bytes, Memory, Piece
from openrknn.capi.tensors import dtype_of, input_view, row_pixels
from openrknn.chips import Chip
from openrknn.layout.arrange import nc1hwc2_to_nhwc
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import StoredTensor, stored_bytes
from openrknn.runtime.program.program import Program
from openrknn.vendor.tables.enums import TensorFormat, TensorType

_IMAGE_RANK = 4
_P = TypeVar("_P", InputPort, OutputPort)

Step = Callable[[int], object]
"""Does something for one item of a batch."""


@dataclass(frozen=True, slots=True)
class End(Generic[_P]):
    """An input or output, and what a query says about it."""

    port: _P
    native_bytes: int
    """Of all items."""
    channels_last: tuple[int, ...]
    """Its dimensions as NHWC; RK3566 and RK3568 write whole atoms of channels."""
    items: int


@dataclass(slots=True)
class Bound:
    """A tensor in a program's memory."""

    name: str
    memory: Memory
    offset: int
    region: Bytes
    items: int
    is_input: bool
    is_native: bool = False
    """The bytes are the NPU's own."""
    whole: Bytes | None = None
    """Native, with the room that the NPU wants: its input or output without a copy."""
    is_pixels: bool = False
    kind: int = 0
    form: int = 0
    shape: tuple[int, ...] = ()
    """Of one item of an output that is converted."""

    @property
    def key(self) -> tuple[str, int, int, int]:
        """Identifies memory and offset for as long as the memory is kept."""
        return self.name, id(self.memory), self.offset, self.region.nbytes

    def step(self, program: Program) -> Step:
        """Convert it, before a run or after it."""
        if self.is_input:
            port = next(port for port in program.inputs if port.name == self.name)
            return self._copied_in(program, port) if self.is_native else self._fed(port)
        output = next(port for port in program.outputs if port.name == self.name)
        return self._copied_out(program) if self.is_native else self._read(output, program.model.chip)

    def _copied_in(self, program: Program, port: InputPort) -> Step:
        target, size = program.buffer_of(self.name).array, self.region.nbytes // self.items

        def copy(item: int) -> None:
            target[:size] = self.region[item * size : (item + 1) * size]
            port.renew_row_ends("pixels" if self.is_pixels else "stored")

        return copy

    def _fed(self, port: InputPort) -> Step:
        size = self.region.nbytes // self.items
        views = [
            input_view(port, self.region[item * size : (item + 1) * size], self.kind, self.form, padded=True)
            for item in range(self.items)
        ]
        return lambda item: port.feed(*views[item])

    def _copied_out(self, program: Program) -> Step:
        source = program.buffer_of(self.name).array
        size = self.region.nbytes // self.items

        def copy(item: int) -> None:
            self.region[item * size : (item + 1) * size] = source[:size]

        return copy

    def _read(self, port: OutputPort, chip: Chip) -> Step:
        is_float = self.kind == TensorType.FLOAT32
        dtype = np.dtype(np.float32) if is_float else port.stored.dtype
        target = self.region.view(dtype).reshape(self.items, *self.shape)
        if self.form != TensorFormat.NHWC or len(self.shape) != _IMAGE_RANK:
            return lambda item: read_into(port, target[item], chip, is_float=is_float)
        if port.stored.is_feature and not is_float:  # with the lanes behind the last channel, where there is room
            return lambda item: nc1hwc2_to_nhwc(port.stored.native, self.shape[3], out=target[item])
        channels = port.stored.tensor.shape[1]
        if channels < self.shape[3]:
            target[..., channels:] = 0
        planes = np.empty(port.stored.tensor.shape, dtype)

        def turned(item: int) -> None:
            read_into(port, planes, chip, is_float=is_float)
            target[item, ..., :channels] = planes.transpose(0, 2, 3, 1)

        return turned


def bind_input(end: End[InputPort], piece: Piece, attr: dict[str, Any]) -> Bound:
    """What `rknn_set_io_mem` says about an input."""
    port, form, kind = end.port, int(attr["fmt"]), int(attr["type"])
    stored = port.stored
    if attr["pass_through"]:
        return _native(end, piece, is_input=True)
    if form == TensorFormat.NC1HWC2:
        raise CallError(Code.FAIL, f"input {port.name!r}: NC1HWC2 is only possible with pass_through = 1")
    dtype = dtype_of(kind, f"input {port.name!r}", Code.PARAM_INVALID)
    is_pixels = port.takes_pixels and kind == TensorType.UINT8
    if stored.is_image and form != TensorFormat.NCHW and (is_pixels or dtype == stored.dtype) and dtype.itemsize == 1:
        return _native(end, piece, is_input=True, is_pixels=is_pixels)
    form = TensorFormat.NCHW if form == TensorFormat.NCHW else TensorFormat.NHWC
    size = _input_bytes(stored, dtype.itemsize, form)
    made = Bound(port.name, piece.memory, piece.offset, piece.region(size * end.items), end.items, is_input=True)
    made.is_pixels, made.kind, made.form = is_pixels, kind, form
    input_view(port, made.region[:size], kind, form, padded=True)  # raises now what it would raise in a run
    return made


def bind_output(end: End[OutputPort], piece: Piece, attr: dict[str, Any]) -> Bound:
    """What `rknn_set_io_mem` says about an output."""
    port, form, kind = end.port, int(attr["fmt"]), int(attr["type"])
    stored = port.stored
    dtype = dtype_of(kind, f"output {port.name!r}", Code.OUTPUT_INVALID)
    is_own = dtype == stored.dtype
    if not is_own and kind != TensorType.FLOAT32:
        raise CallError(
            Code.OUTPUT_INVALID, f"output {port.name!r} is {stored.dtype} or float32; {dtype} is not possible"
        )
    if form == TensorFormat.NC1HWC2 and not (stored.is_feature and is_own):
        what = f"keeps its type {stored.dtype}" if stored.is_feature else "has no such layout"
        raise CallError(Code.OUTPUT_INVALID, f"output {port.name!r} as NC1HWC2 {what}")
    is_last = form == TensorFormat.NHWC and len(stored.tensor.shape) == _IMAGE_RANK
    if is_own and (form == TensorFormat.NC1HWC2 or not (stored.is_feature or stored.is_image or is_last)):
        return _native(end, piece, is_input=False)
    shape = end.channels_last if is_last else stored.tensor.shape
    region = piece.region(math.prod(shape) * dtype.itemsize * end.items)
    made = Bound(port.name, piece.memory, piece.offset, region, end.items, is_input=False)
    made.kind, made.form, made.shape = kind, form, shape
    return made


def _native(end: End[Any], piece: Piece, *, is_input: bool, is_pixels: bool = False) -> Bound:
    """The NPU's own bytes, in their place if there is room, else copied."""
    port, needed = end.port, end.native_bytes
    made = Bound(port.name, piece.memory, piece.offset, piece.region(needed), end.items, is_input, is_native=True)
    made.is_pixels = is_pixels
    made.whole = piece.with_room(needed, stored_bytes(port.stored.tensor)) if end.items == 1 else None
    return made


def _input_bytes(stored: StoredTensor, element_bytes: int, form: int) -> int:
    """Bytes of one item of an input that is converted; rows of pictures are as long as the NPU's."""
    batches, channels, height, width = (*stored.tensor.shape, 1, 1, 1, 1)[:_IMAGE_RANK]
    if stored.is_image and form == TensorFormat.NHWC:
        return batches * channels * height * max(row_pixels(stored), width) * element_bytes
    return math.prod(stored.tensor.shape) * element_bytes
