"""What a matrix product is, by `rknn_matmul_info`, and the layout of its matrices, for `rknn_matmul_io_attr`.

Shapes, types and sizes are those that runtime 1.5.2 answers on RK3588 and RK3566 (tests/capi/test_matmul_vendor.py
asks it); for newer types and other chips they follow `openrknn.vendor.tables.matmul`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.capi.call import CallError, Code
from openrknn.capi.structs import Values
from openrknn.chips import Chip
from openrknn.vendor.matmul.matrices import pack_b, stored
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType, TensorType
from openrknn.vendor.tables.matmul import ALIGNMENT, LONGEST, SEGMENTS, native_c, native_tile
from openrknn.vendor.tables.names import c_name
from openrknn.vendor.tables.platforms import refusal

_LARGEST = 1 << 20
_MOST_BYTES = (1 << 32) - 1
"""rknn_matmul_tensor_attr.size is 32 bits wide, and so is the NPU's address space."""
_LONGEST_INTEGERS = (1 << 17) - 1
"""2^17 products of (-128)^2 are one more than an int32 holds."""
_GROUPED = (MatmulQuantization.PER_GROUP_SYM, MatmulQuantization.PER_GROUP_ASYM)
_PER_LAYER = (MatmulQuantization.PER_LAYER_SYM, MatmulQuantization.PER_LAYER_ASYM)
_E = TypeVar("_E", MatmulLayout, MatmulQuantization, MatmulType)


class Shape(NamedTuple):
    """C [M, N] = A [M, K] * B [K, N]."""

    m: int
    k: int
    n: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix in memory; `tile` is K2 or N2 where the layout is native."""

    name: str
    dims: tuple[int, ...]
    type: TensorType
    layout: MatmulLayout

    @property
    def size_bytes(self) -> int:
        return math.prod(self.dims) * self.type.bits // 8

    def values(self) -> Values:
        """rknn_matmul_tensor_attr."""
        return {
            "name": self.name, "n_dims": len(self.dims), "dims": list(self.dims), "size": self.size_bytes,
            "type": int(self.type),
        }  # fmt: skip


def invalid(text: str) -> CallError:
    """A refusal of an argument."""
    return CallError(Code.PARAM_INVALID, text)


@dataclass(frozen=True, slots=True)
class Spec:
    """rknn_matmul_info without the sizes, on a chip."""

    chip: Chip
    type: MatmulType
    b_layout: MatmulLayout = MatmulLayout.NORM
    ac_layout: MatmulLayout = MatmulLayout.NORM
    b_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    ac_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    group_size: int = 0

    @classmethod
    def of(cls, info: Mapping[str, Any], chip: Chip) -> Spec:
        """From the struct of any version; 1.5 has other fields, and the numbers of two tensor types as types."""
        kind = _member(MatmulType, info["type"], "type")
        if "native_layout" in info:
            if kind not in (MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32, MatmulType.INT8_MM_INT8_TO_INT32):
                raise invalid(f"type {info['type']} is neither RKNN_TENSOR_FLOAT16 nor RKNN_TENSOR_INT8")
            b_layout, ac_layout = (MatmulLayout(bool(info[name])) for name in ("native_layout", "perf_layout"))
            made = cls(chip, kind, b_layout, ac_layout)
        else:
            made = cls(
                chip, kind, _member(MatmulLayout, info["B_layout"], "B_layout"),
                _member(MatmulLayout, info["AC_layout"], "AC_layout"),
                _member(MatmulQuantization, info.get("B_quant_type", 0), "B_quant_type"),
                _member(MatmulQuantization, info.get("AC_quant_type", 0), "AC_quant_type"), info.get("group_size", 0),
            )  # fmt: skip
        made.check()
        return made

    def check(self) -> None:
        """Refuse what no size can mend."""
        reason = refusal(self.chip, "rknn_matmul_create")
        if reason is None and native_tile(self.chip, self.type.types[0]) is None:
            kinds = ", ".join(kind.name.lower() for kind in ALIGNMENT.get(self.chip.name, {})) or "no type at all"
            reason = f"{c_name(self.type)} does not work on {self.chip.title}, which multiplies {kinds}"
        if reason is not None:
            raise invalid(reason)
        if self.ac_layout is MatmulLayout.TP_NORM:
            raise invalid("only B can be RKNN_MM_LAYOUT_TP_NORM; AC_layout is NORM or NATIVE")
        if self.ac_quantization not in _PER_LAYER:
            raise invalid(f"A and C have one scale each: AC_quant_type cannot be {c_name(self.ac_quantization)}")

    @property
    def is_float(self) -> bool:
        return self.type.types[0] is TensorType.FLOAT16

    @property
    def is_grouped(self) -> bool:
        return self.b_quantization in _GROUPED

    @property
    def segment(self) -> int:
        """Rows of B in one segment of its native layout; 0: it is never cut."""
        return SEGMENTS.get(self.chip.name, 0)

    def check_shape(self, shape: Shape) -> None:
        """Refuse sizes that the chip does not take."""
        for name, size in zip("MKN", shape, strict=True):
            if not 0 < size < _LARGEST:
                raise invalid(f"{name} is {size}, not a number from 1 to {_LARGEST - 1}")
        tile, chip = native_tile(self.chip, self.type.types[0]), self.chip
        assert tile is not None
        if shape.k % tile.b_k or shape.n % tile.b_n:
            raise invalid(
                f"{c_name(self.type)} on {chip.title}: K must be a multiple of {tile.b_k} and N of {tile.b_n}, not "
                f"{shape.k} and {shape.n}; pad with zeros"
            )
        longest = LONGEST.get(chip.name, _LARGEST if self.is_float else _LONGEST_INTEGERS)
        if shape.k > longest:
            raise invalid(f"K is {shape.k}, and {chip.title} takes at most {longest}; add up parts")
        if self.is_grouped and (self.group_size < 1 or shape.k % self.group_size or self.group_size % tile.b_k):
            raise invalid(
                f"group_size is {self.group_size}; quantisation per group needs a multiple of {tile.b_k} that divides "
                f"K ({shape.k})"
            )
        for matrix in self.matrices(shape).values():
            if matrix.size_bytes > _MOST_BYTES:
                raise invalid(f"{matrix.name} has {matrix.size_bytes} bytes, and 4 GB is what the NPU can address")

    def matrices(self, shape: Shape) -> dict[str, Matrix]:
        """A, B and C as stored in memory."""
        m, k, n = shape
        a, _, c = self.type.types
        tile = native_tile(self.chip, a)
        assert tile is not None
        is_native = self.ac_layout is MatmulLayout.NATIVE
        c_n = native_c(self.chip, c)
        a_dims = (k // tile.a_k, m, tile.a_k) if is_native else (m, k)
        c_dims = (n // c_n, m, c_n) if is_native else (m, n)
        return {
            "A": Matrix("A", a_dims, a, self.ac_layout),
            "B": self.native_b(shape) if self.b_layout is MatmulLayout.NATIVE else self._plain_b(shape),
            "C": Matrix("C", c_dims, c, self.ac_layout),
        }

    def native_b(self, shape: Shape) -> Matrix:
        """B in the NPU's own layout, whatever the program has."""
        a, b, _ = self.type.types
        tile = native_tile(self.chip, a)
        assert tile is not None
        dims = (shape.n // tile.b_n, shape.k // tile.b_k, tile.b_n, tile.b_k)
        return Matrix("B", dims, b, MatmulLayout.NATIVE)

    def _plain_b(self, shape: Shape) -> Matrix:
        dims = (shape.n, shape.k) if self.b_layout is MatmulLayout.TP_NORM else (shape.k, shape.n)
        return Matrix("B", dims, self.type.types[1], self.b_layout)


def _member(kind: type[_E], value: int, field: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{int(one)} {c_name(one)}" for one in kind)
        raise invalid(f"{field} is {value}; there are {known}") from None


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
