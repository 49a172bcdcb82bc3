"""Inputs and outputs in a program's memory (`rknn_set_io_mem`), and how a run uses them.

Native memory and raw pixels are the NPU's own inputs and outputs: nothing is copied. Everything else is converted
before or after each run. On a device that cannot see the program's memory native tensors are copied, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.capi.call import CallError, Code
from openrknn.capi.memory import Bytes, Memory, Piece
from openrknn.capi.tensors import dtype_of, input_view, shape_in
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputKind, OutputPort
from openrknn.runtime.io.tensors import StoredTensor, stored_bytes
from openrknn.runtime.program.program import Program
from openrknn.vendor.tables.enums import TensorFormat, TensorType

__all__ = ["Bound", "Step", "bind_input", "bind_output"]

Step = Callable[[int], object]
"""Does something for one item of a batch."""


@dataclass(slots=True)
class Bound:
    """A tensor in a program's memory."""

    name: str
    memory: Memory
    offset: int
    region: Bytes
    is_native: bool
    """The bytes are the NPU's own: they can be its input or output without a copy."""
    is_pixels: bool = False
    is_input: bool = True
    kind: int = 0
    form: int = 0
    items: int = 1

    @property
    def key(self) -> tuple[str, int, int, int]:
        """The same place in the same memory has the same key, for as long as the memory is kept."""
        return self.name, id(self.memory), self.offset, self.region.nbytes

    def step(self, program: Program) -> Step:
        """Convert it, before a run or after it."""
        if self.is_input:
            port = next(port for port in program.inputs if port.name == self.name)
            return self._copied_in(program, port) if self.is_native else self._fed(port)
        output = next(port for port in program.outputs if port.name == self.name)
        return self._copied_out(program) if self.is_native else self._read(output)

    def _copied_in(self, program: Program, port: InputPort) -> Step:
        target, size = program.buffer_of(self.name).array, stored_bytes(port.tensor)

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

    def _read(self, port: OutputPort) -> Step:
        dtype = np.dtype(np.float32) if self.kind == TensorType.FLOAT32 else port.stored.dtype
        kind: OutputKind = "float" if self.kind == TensorType.FLOAT32 else "raw"
        target = self.region.view(dtype).reshape(self.items, *shape_in(port.stored, self.form))
        if target.shape[1:] == port.stored.tensor.shape:
            return lambda item: port.read_into(kind, target[item])

        def turned(item: int) -> None:
            target[item] = port.read(kind).transpose(0, 2, 3, 1)

        return turned


def bind_input(port: InputPort, piece: Piece, attr: dict[str, Any], items: int) -> Bound:
    """What `rknn_set_io_mem` says about an input."""
    stored, form, kind = port.stored, int(attr["fmt"]), int(attr["type"])
    native = stored_bytes(stored.tensor) * items
    if attr["pass_through"]:
        return Bound(port.name, piece.memory, piece.offset, piece.region(native)[:native], is_native=True, items=items)
    if form == TensorFormat.NC1HWC2:
        raise CallError(Code.FAIL, f"input {port.name!r}: NC1HWC2 is only possible with pass_through = 1")
    dtype = dtype_of(kind, f"input {port.name!r}", Code.INPUT_INVALID)
    if stored.is_image and form != TensorFormat.NCHW and dtype.itemsize == 1:
        is_pixels = port.takes_pixels and kind == TensorType.UINT8
        if is_pixels or dtype == stored.dtype:
            region = piece.region(native)[:native]
            return Bound(
                port.name, piece.memory, piece.offset, region, is_native=True, is_pixels=is_pixels, items=items
            )
    form = TensorFormat.NCHW if form == TensorFormat.NCHW else TensorFormat.NHWC
    needed = input_bytes(stored, dtype.itemsize, form) * items
    region = piece.region(needed)[:needed]
    is_pixels = port.takes_pixels and kind == TensorType.UINT8
    made = Bound(
        port.name, piece.memory, piece.offset, region, is_native=False, is_pixels=is_pixels, kind=kind, form=form,
        items=items,
    )  # fmt: skip
    input_view(port, region[: needed // items], kind, form, padded=True)  # raises now what it would raise in a run
    return made


def input_bytes(stored: StoredTensor, element_bytes: int, form: int) -> int:
    """Bytes of one item of an input that is converted; rows of pictures are as long as the NPU's."""
    if stored.is_image and form == TensorFormat.NHWC:
        return stored_bytes(stored.tensor) // stored.dtype.itemsize * element_bytes
    return math.prod(stored.tensor.shape) * element_bytes


def bind_output(port: OutputPort, piece: Piece, attr: dict[str, Any], items: int) -> Bound:
    """What `rknn_set_io_mem` says about an output."""
    stored, form, kind = port.stored, int(attr["fmt"]), int(attr["type"])
    dtype = dtype_of(kind, f"output {port.name!r}", Code.OUTPUT_INVALID)
    is_own = dtype == stored.dtype
    if not is_own and kind != TensorType.FLOAT32:
        raise CallError(
            Code.OUTPUT_INVALID, f"output {port.name!r} is {stored.dtype} or float32; {dtype} is not possible"
        )
    if form == TensorFormat.NC1HWC2 and not (stored.is_feature and is_own):
        what = f"keeps its type {stored.dtype}" if stored.is_feature else "has no such layout"
        raise CallError(Code.OUTPUT_INVALID, f"output {port.name!r} as NC1HWC2 {what}")
    native, plain = stored_bytes(stored.tensor) * items, math.prod(stored.tensor.shape) * dtype.itemsize * items
    needed = native if form == TensorFormat.NC1HWC2 else plain
    region = piece.region(needed)
    is_native = is_own and (form == TensorFormat.NC1HWC2 or (_is_plain(stored, form) and region.nbytes >= native))
    return Bound(
        port.name, piece.memory, piece.offset, region[: native if is_native else plain], is_native, is_input=False,
        kind=kind, form=form, items=items,
    )  # fmt: skip


def _is_plain(stored: StoredTensor, form: int) -> bool:
    """The order in the NPU's memory is the one that was asked for."""
    return not stored.is_feature and not stored.is_image and shape_in(stored, form) == stored.tensor.shape
