"""Number formats as arrays: from the bytes of memory to numbers that blocks compute with, and back."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.task.formats import is_float

__all__ = ["Numbers", "decode", "encode", "widen"]

Numbers: TypeAlias = npt.NDArray[Any]
"""int64, float32 or float64, as the stage says."""

_DTYPES: dict[Precision, np.dtype[Any]] = {
    Precision.INT8: np.dtype(np.int8),
    Precision.INT16: np.dtype(np.int16),
    Precision.FP16: np.dtype(np.float16),
    Precision.BF16: np.dtype(np.uint16),
    Precision.INT32: np.dtype(np.int32),
    Precision.FP32: np.dtype(np.float32),
}
_NAN_FP16, _NAN_BF16 = np.uint16(0x7E00), np.uint16(0x7FC0)


def decode(raw: npt.NDArray[np.uint8], precision: Precision) -> Numbers:
    """Bytes along the last axis as numbers of this format, in their own type (bf16 as float32, int4 as int8)."""
    if precision is Precision.INT4:
        return numerics.unpack_int4(raw).reshape(*raw.shape[:-1], -1)
    typed = np.ascontiguousarray(raw).view(_dtype(precision))
    return numerics.decode_bf16(typed) if precision is Precision.BF16 else typed


def widen(values: Numbers, precision: Precision) -> Numbers:
    """To the type that the DPU computes with: float32, or 64-bit integers."""
    return values.astype(np.float32 if is_float(precision) else np.int64)


def encode(values: Numbers, precision: Precision) -> npt.NDArray[np.uint8]:
    """Numbers as the bytes of this format along the last axis; integers saturate, floats round to nearest even.

    Every NaN becomes the same one: its sign and payload depend on the order of operations and on the processor.
    """
    match precision:
        case Precision.INT8:
            stored: Numbers = numerics.saturate(_integers(values), np.int8)
        case Precision.INT16:
            stored = numerics.saturate(_integers(values), np.int16)
        case Precision.INT32:
            stored = numerics.saturate(_integers(values), np.int32)
        case Precision.FP16:
            stored = np.where(np.isnan(values), _NAN_FP16, numerics.encode_fp16(values))
        case Precision.BF16:
            stored = np.where(np.isnan(values), _NAN_BF16, numerics.encode_bf16(values.astype(np.float32)))
        case Precision.FP32:
            stored = np.where(np.isnan(values), np.float32(np.nan), values.astype(np.float32))
        case _:
            raise UnknownModeError(f"{precision.name} as an output format is not implemented")
    return np.ascontiguousarray(stored).view(np.uint8)


def _integers(values: Numbers) -> Numbers:
    return numerics.round_to_integer(values) if values.dtype.kind == "f" else values


def _dtype(precision: Precision) -> np.dtype[Any]:
    if precision not in _DTYPES:
        raise UnknownModeError(f"the number format {precision.name} is not implemented")
    return _DTYPES[precision]
