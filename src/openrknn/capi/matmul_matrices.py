"""Matrices in a program's memory as arrays, and back: every layout, 4-bit numbers as int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.capi.matmul_attributes import Matrix
from openrknn.vendor.matmul.matrices import pack_b, stored
from openrknn.vendor.tables.enums import MatmulLayout, TensorType

__all__ = ["b_to_native", "read_a", "read_b", "write_c"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
_DTYPES = {
    TensorType.FLOAT32: np.float32, TensorType.FLOAT16: np.float16, TensorType.INT8: np.int8,
    TensorType.INT16: np.int16, TensorType.INT32: np.int32, TensorType.BFLOAT16: np.uint16,
}  # fmt: skip


def read_a(matrix: Matrix, data: Bytes) -> Array:
    """A as [M, K]."""
    values = _numbers(matrix, data)
    if matrix.layout is MatmulLayout.NATIVE:
        return values.transpose(1, 0, 2).reshape(matrix.dims[1], -1)
    return values


def read_b(matrix: Matrix, data: Bytes, segment: int) -> Array:
    """B as [K, N]; `segment` rows of the native layout lie together, 0: all."""
    if matrix.layout is MatmulLayout.TP_NORM:
        return _numbers(matrix, data).T
    if matrix.layout is MatmulLayout.NORM:
        return _numbers(matrix, data)
    blocks, tiles, n2, k2 = matrix.dims
    rows, columns = tiles * k2, blocks * n2
    flat = _numbers(matrix, data).reshape(-1)
    result = np.empty((rows, columns), flat.dtype)
    step = segment or rows
    for start in range(0, rows, step):
        count = min(step, rows - start)
        part = flat[start * columns : (start + count) * columns].reshape(blocks, count // k2, n2, k2)
        result[start : start + count] = part.transpose(1, 3, 0, 2).reshape(count, columns)
    return result


def write_c(matrix: Matrix, data: Bytes, values: Array) -> None:
    """C [M, N], of the type that it has; bfloat16 as its patterns."""
    target = data.view(_DTYPES[matrix.type]).reshape(matrix.dims)
    if matrix.layout is MatmulLayout.NATIVE:
        blocks, rows, n2 = matrix.dims
        target[...] = values.reshape(rows, blocks, n2).transpose(1, 0, 2)
    else:
        target[...] = values


def b_to_native(matrix: Matrix, data: Bytes, segment: int) -> Bytes:
    """[K, N] in memory as native B, `matrix`."""
    blocks, tiles, n2, k2 = matrix.dims
    plain = Matrix(matrix.name, (tiles * k2, blocks * n2), matrix.type, MatmulLayout.NORM)
    return stored(pack_b(_numbers(plain, data), n2, k2, segment), matrix.type)


def _numbers(matrix: Matrix, data: Bytes) -> Array:
    if matrix.type is TensorType.INT4:
        return numerics.unpack_int4(data).reshape(matrix.dims)
    return data.view(_DTYPES[matrix.type]).reshape(matrix.dims)
