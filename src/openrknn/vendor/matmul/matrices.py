"""Matrices on their way into the NPU's memory and back; `openrknn.vendor.tables.matmul` has the layouts.

K2 and N2 are the last dimensions of the shapes that the library answers. Where K is larger than a segment, B is cut
along K and the segments follow each other. 4-bit numbers lie two in a byte, the lower half first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.numerics import decode_bf16, pack_int4, unpack_int4
from openrknn.vendor.tables.enums import TensorType
from openrknn.vendor.tables.matmul import ALIGNMENT

_DTYPES: dict[TensorType, np.dtype[Any]] = {
    TensorType.FLOAT32: np.dtype(np.float32), TensorType.FLOAT16: np.dtype(np.float16),
    TensorType.INT8: np.dtype(np.int8), TensorType.INT16: np.dtype(np.int16), TensorType.INT32: np.dtype(np.int32),
    TensorType.INT4: np.dtype(np.int8),
}  # fmt: skip


def check_alignment(chip: Chip, kind: TensorType, k: int, n: int) -> None:
    """Refuse sizes that the chip cannot do, where that is known."""
    known = ALIGNMENT.get(chip.name, {}).get(kind)
    if known and (k % known[0] or n % known[1]):
        raise ValueError(
            f"{kind.name.lower()} on {chip.title}: K must be a multiple of {known[0]} and N of {known[1]}, "
            f"not {k} and {n}; pad with zeros"
        )


def encoded(values: object, kind: TensorType, shape: tuple[int, int], name: str) -> npt.NDArray[Any]:
    """A matrix from the caller: an array of the right type and shape; 4-bit numbers come as int8 from -8 to 7."""
    dtype = _DTYPES[kind]
    if not isinstance(values, np.ndarray):
        raise TypeError(f"matrix {name} must be a NumPy array, not {type(values).__name__}")
    if values.dtype != dtype:
        raise TypeError(f"matrix {name} is {kind.name.lower()}, so the array must be {dtype}, not {values.dtype}")
    if values.shape != shape:
        raise ValueError(f"matrix {name} is {list(shape)}, the array is {list(values.shape)}")
    return values


def stored(values: npt.NDArray[Any], kind: TensorType) -> npt.NDArray[np.uint8]:
    """The bytes of a matrix in memory order."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return pack_int4(flat) if kind is TensorType.INT4 else flat.view(np.uint8)


def decoded(data: npt.NDArray[np.uint8], kind: TensorType) -> npt.NDArray[Any]:
    """Numbers from bytes; bfloat16 becomes float32."""
    if kind is TensorType.INT4:
        return unpack_int4(data)
    return decode_bf16(data.view(np.uint16)) if kind is TensorType.BFLOAT16 else data.view(_DTYPES[kind])


def pack_a(values: npt.NDArray[Any], k2: int) -> npt.NDArray[Any]:
    """[M, K] to [K1, M, K2]."""
    rows, columns = values.shape
    return np.ascontiguousarray(values.reshape(rows, columns // k2, k2).transpose(1, 0, 2))


def pack_b(values: npt.NDArray[Any], n2: int, k2: int, segment: int = 0) -> npt.NDArray[Any]:
    """[K, N] to [N1, K1, N2, K2], segment after segment; the result is flat."""
    k, n = values.shape
    step = segment or k
    parts = [
        part.reshape(part.shape[0] // k2, k2, n // n2, n2).transpose(2, 0, 3, 1).reshape(-1)
        for part in (values[start : start + step] for start in range(0, k, step))
    ]
    return np.concatenate(parts)


def unpack_c(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[N1, M, N2] to [M, N]."""
    blocks, rows, n2 = values.shape
    return np.ascontiguousarray(values.transpose(1, 0, 2).reshape(rows, blocks * n2))
