"""From an output's memory to arrays in the original shape: float32, or the stored elements.

The numbers are those of `Session.run(outputs="float")`, bit for bit: `(stored - zero point) * scale` in float32.
Surfaces go through in pieces that stay in the processor's cache, because every element is touched three times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.container.parts import Layout, Tensor
from openrknn.runtime.tensors import stored_type
from rknnlite.engine.memory import FloatPool

__all__ = ["Array", "OutputPort"]

Array: TypeAlias = npt.NDArray[Any]

_PIECE_ELEMENTS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Some channels of a feature map: where they are, and where they are put in order."""

    stored: Array
    """[N, surfaces, atom, pixels], a view of device memory."""
    ordered: Array
    """The same shape, contiguous. To transpose single bytes and then make floats of them is twice as fast as to
    transpose floats."""
    flat: Array
    """`ordered` as [N, channels, pixels]."""
    channels: slice


class OutputPort:
    """One output of the current shapes."""

    def __init__(self, tensor: Tensor, batch: int) -> None:
        self.name = tensor.name
        self.tensor = tensor
        self.dtype = stored_type(tensor)
        self.shape = (tensor.shape[0] * batch, *tensor.shape[1:]) if batch > 1 and tensor.shape else tensor.shape
        self._channels = tensor.shape[1] if len(tensor.shape) > 1 else 1
        self._is_image = tensor.layout is Layout.NC1HWC2 and bool(tensor.row_alignment)
        self._is_feature = tensor.layout is Layout.NC1HWC2 and not self._is_image
        quantization = tensor.quantization if self.dtype.kind == "i" else None
        self._zero = np.float32(quantization.zero_point[0]) if quantization else None
        self._scale = np.float32(quantization.scale[0]) if quantization else np.float32(1)
        self._pool = FloatPool(self.shape)
        self._fixed: npt.NDArray[np.float32] | None = None
        self._planned: tuple[Array, list[_Piece]] | None = None

    def floats(self, native: Array, *, reuse: bool = False) -> npt.NDArray[np.float32]:
        """As float32. With `reuse` always in the same memory, which the next run overwrites."""
        result = self._reused() if reuse else self._pool.take()
        if not self._is_feature:
            self._dequantize(self._plain(native), result.reshape(-1))
            return result
        planes = result.reshape(native.shape[0], self._channels, -1)
        for piece in self._pieces(native):
            np.copyto(piece.ordered, piece.stored)
            self._dequantize(piece.flat, planes[:, piece.channels])
        return result

    def raw(self, native: Array) -> Array:
        """The stored elements, in an array of their own."""
        if not self._is_feature:
            return self._plain(native).reshape(self.shape).copy()
        result = np.empty(self.shape, self.dtype)
        planes = result.reshape(native.shape[0], self._channels, -1)
        for piece in self._pieces(native):
            np.copyto(piece.ordered, piece.stored)
            planes[:, piece.channels] = piece.flat
        return result

    def _reused(self) -> npt.NDArray[np.float32]:
        if self._fixed is None:
            self._fixed = np.empty(self.shape, np.float32)
        return self._fixed.view()

    def _plain(self, native: Array) -> Array:
        ordered = native.transpose(0, 3, 1, 2) if self._is_image else native
        return ordered.reshape(-1)

    def _pieces(self, native: Array) -> list[_Piece]:
        """Worked out once: a session gives the same view of the same memory after each run."""
        if self._planned is None or self._planned[0] is not native:
            self._planned = (native, self._plan(native))
        return self._planned[1]

    def _plan(self, native: Array) -> list[_Piece]:
        batches, _, height, width, atom = native.shape
        pixels = height * width
        surfaces = native.reshape(batches, -1, pixels, atom).transpose(0, 1, 3, 2)
        whole, rest = divmod(self._channels, atom)
        step = max(1, _PIECE_ELEMENTS // (batches * pixels * atom))
        scratch = np.empty(batches * pixels * atom * max(1, min(step, whole)), self.dtype)
        views = [(surfaces[:, start : min(start + step, whole)], start * atom) for start in range(0, whole, step)]
        if rest:
            views.append((surfaces[:, whole : whole + 1, :rest], whole * atom))
        return [self._piece(view, scratch, first) for view, first in views]

    @staticmethod
    def _piece(stored: Array, scratch: Array, first: int) -> _Piece:
        batches, count, lanes, pixels = stored.shape
        ordered = scratch[: stored.size].reshape(stored.shape)
        flat = ordered.reshape(batches, count * lanes, pixels)
        return _Piece(stored, ordered, flat, slice(first, first + count * lanes))

    def _dequantize(self, stored: Array, place: Array) -> None:
        np.copyto(place, stored)  # and the rest in place: faster than a subtraction that converts on its way
        if self._zero is not None:
            np.subtract(place, self._zero, out=place)
            np.multiply(place, self._scale, out=place)
