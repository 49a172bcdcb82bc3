"""From an output's memory to arrays in the original shape: float32, or the stored elements.

The numbers are those of `Session.run(outputs="float")`, bit for bit: `(stored - zero point) * scale` in float32.
Feature maps are put in order and made floats in one pass, natively where the library is there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.container import Layout, Tensor
from openrknn.layout import Arrangement, nc1hwc2_to_nchw
from openrknn.numerics import FORMATS
from openrknn.runtime import Spares, stored_type

__all__ = ["Array", "OutputPort"]

Array: TypeAlias = npt.NDArray[Any]

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
        self._pool = Spares(self.shape)
        self._fixed: npt.NDArray[np.float32] | None = None
        self._planned: tuple[Array, Arrangement] | None = None

    def floats(self, native: Array, *, reuse: bool = False) -> npt.NDArray[np.float32]:
        """As float32. With `reuse` always in the same memory, which the next run overwrites."""
        result = self._reused() if reuse else self._pool.take()
        if not self._is_feature:
            self._dequantize(self._plain(native), result.reshape(-1))
            return result
        way = self._way(native)
        if way is None:
            self._dequantize(self._ordered(native).reshape(-1), result.reshape(-1))
        else:
            way.read(result.reshape(way.shape))
        return result

    def raw(self, native: Array) -> Array:
        """The stored elements, in an array of their own."""
        if not self._is_feature:
            return self._plain(native).reshape(self.shape).copy()
        return np.ascontiguousarray(self._ordered(native)).reshape(self.shape)

    def _reused(self) -> npt.NDArray[np.float32]:
        if self._fixed is None:
            self._fixed = np.empty(self.shape, np.float32)
        return self._fixed.view()

    def _plain(self, native: Array) -> Array:
        ordered = native.transpose(0, 3, 1, 2) if self._is_image else native
        return ordered.reshape(-1)

    def _way(self, native: Array) -> Arrangement | None:
        """In one pass of native code, worked out once: a session gives the same view of the same memory each time."""
        if self.dtype not in FORMATS or (self._zero is None and self.dtype.kind != "f"):
            return None
        if self._planned is None or self._planned[0] is not native:
            scale, zero = (None, 0) if self._zero is None else (float(self._scale), int(self._zero))
            way = Arrangement(native, self._channels, scale=scale, zero_point=zero, to_float=True)
            self._planned = (native, way)
        return self._planned[1]

    def _ordered(self, native: Array) -> Array:
        """[N, C, H, W] of the stored elements."""
        if self.dtype in FORMATS:
            return nc1hwc2_to_nchw(native, self._channels)
        batches, surfaces, height, width, atom = native.shape
        planes = native.transpose(0, 1, 4, 2, 3).reshape(batches, surfaces * atom, height, width)
        return planes[:, : self._channels]

    def _dequantize(self, stored: Array, place: Array) -> None:
        np.copyto(place, stored)  # and the rest in place: faster than a subtraction that converts on its way
        if self._zero is not None:
            np.subtract(place, self._zero, out=place)
            np.multiply(place, self._scale, out=place)
