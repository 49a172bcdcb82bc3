"""`rknn_inputs_set`: bytes of the program become the input of the next run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.capi.attributes import native_bytes
from openrknn.capi.bound import Step
from openrknn.capi.call import CallError, Code
from openrknn.capi.memory import Bytes
from openrknn.capi.tensors import dtype_of, input_view
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.tensors import Array


def feed(port: InputPort, data: Bytes, kind: int, form: int, *, pass_through: bool) -> bool:
    """Convert and store one input; whether it went in as raw pixels. Bytes that are too many do not matter."""
    if not pass_through:
        return port.feed(*input_view(port, data, kind, form, padded=False))
    _check_size(port, data, kind, 1)
    port.feed_native(_native(port, data, 1)[0])
    return False


@dataclass(frozen=True, slots=True)
class Fed:
    """An input of a batch, whose items take turns in the NPU's memory."""

    name: str
    items: tuple[tuple[Array, str | None], ...]
    is_native: bool
    is_pixels: bool

    def step(self, port: InputPort) -> Step:
        """Feed one item."""
        if self.is_native:
            return lambda item: port.feed_native(self.items[item][0])
        return lambda item: port.feed(*self.items[item])


def fed_batch(port: InputPort, data: Bytes, kind: int, form: int, *, items: int, pass_through: bool) -> Fed:
    """A copy of all items, and how each is read."""
    if pass_through:
        _check_size(port, data, kind, items)
        pieces = tuple((piece, None) for piece in _native(port, data.copy(), items))
        return Fed(port.name, pieces, is_native=True, is_pixels=False)
    size = data.nbytes // items
    kept = data.copy()
    views = tuple(
        input_view(port, kept[item * size : (item + 1) * size], kind, form, padded=False) for item in range(items)
    )
    is_pixels = port.takes_pixels and views[0][0].dtype == np.uint8
    return Fed(port.name, views, is_native=False, is_pixels=is_pixels)


def _check_size(port: InputPort, data: Bytes, kind: int, items: int) -> None:
    """The type means nothing for what is not converted, but its size is checked, as runtime 1.5.2 does."""
    dtype = dtype_of(kind, f"input {port.name!r}", Code.PARAM_INVALID)
    needed = port.tensor.elements * items * dtype.itemsize
    if data.nbytes < needed:
        raise CallError(
            Code.PARAM_INVALID, f"input {port.name!r} as {dtype} takes {needed} bytes, and {data.nbytes} were given"
        )


def _native(port: InputPort, data: Bytes, items: int) -> list[Array]:
    """The items of an input that goes to the NPU as it is: with the ends of rows, or for pictures without them."""
    native, whole = port.stored.native, native_bytes(port.tensor)
    if data.nbytes >= whole * items:
        return [data[item * whole : (item + 1) * whole] for item in range(items)]
    tight = native.size * native.itemsize
    if data.nbytes >= tight * items and port.stored.is_image:
        pieces = [data[item * tight : (item + 1) * tight] for item in range(items)]
        return [piece.view(native.dtype).reshape(native.shape) for piece in pieces]
    raise CallError(
        Code.PARAM_INVALID,
        f"input {port.name!r} goes to the NPU as it is, so it has {whole * items} bytes, not {data.nbytes}",
    )
