"""Feature maps in the NPU's memory as plain arrays and back: native, and without allocations where `out` is given.

    floats = nc1hwc2_to_nchw(native, channels=80, scale=0.1, zero_point=-12)      # int8 -> float32, in one pass
    stored = nc1hwc2_to_nchw(native, channels=80)                                 # elements as they are
    nc1hwc2_to_nchw(native, channels=80, scale=0.1, out=floats)                   # again, into the same array

`native` is [N, C1, H, W, C2], for example an output of `Session.bind`. Lines, surfaces and batches may have gaps, and
the last surface may hold less than C2 channels. `Arrangement` is the same for memory that is read again and again.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import nativelib
from openrknn.nativelib import structures
from openrknn.numerics import FORMATS, address, dequantize_affine, encode_fp16, prepared

__all__ = [
    "Arrangement",
    "Dequantization",
    "narrowed",
    "nc1hwc2_to_nchw",
    "nc1hwc2_to_nhwc",
    "nchw_to_nc1hwc2",
    "nhwc_to_nc1hwc2",
]

Array = npt.NDArray[Any]
_RANK = 5


class Arrangement:
    """The way from one place in memory, [N, C1, H, W, C2], to [N, C, H, W]; everything is worked out once.

    With `scale` the result is float32, `(stored - zero_point) * scale`; with `to_float`, float16 becomes float32.
    """

    def __init__(
        self,
        native: Array,
        channels: int | None = None,
        *,
        scale: float | None = None,
        zero_point: int = 0,
        to_float: bool = False,
    ) -> None:
        batches, surfaces, height, width, atom = _checked(native)
        count = surfaces * atom if channels is None else channels
        if not 0 < count <= surfaces * atom:
            raise ValueError(f"{list(native.shape)} does not hold {count} channels")
        self.native = native
        self.shape = (batches, count, height, width)
        self._floats = to_float or scale is not None
        self._affine = (1.0 if scale is None else float(scale), zero_point)
        self.dtype: np.dtype[Any] = np.dtype(np.float32) if self._floats else native.dtype
        self._function: Any = None
        library = nativelib.library()
        if library is not None and _is_readable(native):
            function = library.openrknn_arrange
            function.argtypes, function.restype = (ctypes.c_void_p,), None
            steps = native.strides
            self._step = structures.Arrangement(
                address(native), 0, steps[0], steps[1], steps[2], batches, count, height, width, atom,
                FORMATS[native.dtype], self._floats, zero_point, self._affine[0], 0,
            )  # fmt: skip
            self._function, self._pointer = function, ctypes.addressof(self._step)

    def read(self, out: Array | None = None) -> Array:
        """What the memory holds now, in a new array or in `out`."""
        result = np.empty(self.shape, self.dtype) if out is None else prepared(out, self.shape, self.dtype)
        if self._function is None:
            return self._slowly(result)
        self._step.target = result.__array_interface__["data"][0]
        self._function(self._pointer)
        return result

    def _slowly(self, result: Array) -> Array:
        batches, surfaces, height, width, atom = self.native.shape
        planes = self.native.transpose(0, 1, 4, 2, 3).reshape(batches, surfaces * atom, height, width)
        kept = planes[:, : self.shape[1]]
        if self._floats:
            return dequantize_affine(np.ascontiguousarray(kept), *self._affine, out=result)
        result[...] = kept
        return result


class Dequantization:
    """`numerics.dequantize_affine` of one place in memory, worked out once."""

    def __init__(self, stored: Array, scale: float, zero_point: int) -> None:
        self.shape, self.dtype = stored.shape, np.dtype(np.float32)
        self._stored, self._scale, self._zero = stored, scale, zero_point
        dequantize_affine(stored, scale, zero_point)  # so that wrong arguments raise here, and the function has types
        library = nativelib.library()
        self._function: Any = None
        if library is not None and stored.flags.c_contiguous:
            self._function = library.openrknn_dequantize
            self._arguments = (stored.size, FORMATS[stored.dtype], zero_point, scale)
            self._source = address(stored)

    def read(self, out: Array | None = None) -> Array:
        """What the memory holds now, in a new array or in `out`."""
        if self._function is None:
            return dequantize_affine(self._stored, self._scale, self._zero, out=out)
        result = np.empty(self.shape, np.float32) if out is None else prepared(out, self.shape, np.float32)
        self._function(self._source, result.__array_interface__["data"][0], *self._arguments)
        return result


def narrowed(values: Array) -> Array:
    """`numerics.encode_fp16` of float32 numbers, none of them NaN, as float16 in the same order in memory."""
    library = nativelib.library()
    function: Any = getattr(library, "openrknn_narrow", None)
    if function is None or values.dtype != np.float32:
        return encode_fp16(values).view(np.float16)
    result = np.empty_like(values, np.float16, subok=False)
    if tuple(2 * step for step in result.strides) != values.strides:  # there are gaps
        return encode_fp16(values).view(np.float16)
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64), None
    function(address(values), address(result), values.size)
    return result


def nc1hwc2_to_nchw(
    native: Array,
    channels: int | None = None,
    *,
    scale: float | None = None,
    zero_point: int = 0,
    to_float: bool = False,
    out: Array | None = None,
) -> Array:
    """[N, C1, H, W, C2] to [N, C, H, W]; see `Arrangement`."""
    return Arrangement(native, channels, scale=scale, zero_point=zero_point, to_float=to_float).read(out)


def nc1hwc2_to_nhwc(native: Array, channels: int | None = None, *, out: Array | None = None) -> Array:
    """[N, C1, H, W, C2] to [N, H, W, C], elements as they are."""
    batches, surfaces, height, width, atom = _checked(native)
    count = surfaces * atom if channels is None else channels
    result = prepared(out, (batches, height, width, count), native.dtype)
    for surface in range(-(-count // atom)):
        first, last = surface * atom, min((surface + 1) * atom, count)
        result[..., first:last] = native[:, surface, :, :, : last - first]
    return result


def nchw_to_nc1hwc2(values: Array, atom: int, *, out: Array | None = None) -> Array:
    """[N, C, H, W] to [N, C1, H, W, C2] with C2 = `atom`; lanes behind the last channel are zero."""
    if values.ndim != _RANK - 1:
        raise ValueError(f"[N, C, H, W] is needed here, not {list(values.shape)}")
    return nhwc_to_nc1hwc2(values.transpose(0, 2, 3, 1), atom, out=out)


def nhwc_to_nc1hwc2(values: Array, atom: int, *, out: Array | None = None) -> Array:
    """[N, H, W, C] to [N, C1, H, W, C2] with C2 = `atom`; lanes behind the last channel are zero."""
    if values.ndim != _RANK - 1 or atom < 1:
        raise ValueError(f"[N, H, W, C] and at least one lane are needed here, not {list(values.shape)} and {atom}")
    batches, height, width, channels = values.shape
    surfaces = -(-channels // atom)
    result = prepared(out, (batches, surfaces, height, width, atom), values.dtype)
    for surface in range(surfaces):
        part = values[..., surface * atom : (surface + 1) * atom]
        result[:, surface, :, :, : part.shape[3]] = part
        result[:, surface, :, :, part.shape[3] :] = 0
    return result


def _checked(native: Array) -> tuple[int, int, int, int, int]:
    if native.ndim != _RANK or native.dtype not in FORMATS or not native.size:
        raise ValueError(
            f"a feature map [N, C1, H, W, C2] of {', '.join(map(str, FORMATS))} is needed here, "
            f"not {native.dtype} {list(native.shape)}"
        )
    batches, surfaces, height, width, atom = native.shape
    return batches, surfaces, height, width, atom


def _is_readable(native: Array) -> bool:
    """Atoms without gaps, one pixel behind the other."""
    return native.strides[4] == native.itemsize and native.strides[3] == native.itemsize * native.shape[4]
