"""Scales and zero points of a matrix product: which there can be, and from sums to C.

A stored number q of a matrix stands for (q - zero) * scale, so that

    C = round(sum of (a - zero_a) * (b - zero_b) * scale_a * scale_b / scale_c) + zero_c

One scale for a matrix, or for B one for each column, or for each `group_size` rows of each column: [K / group_size, N].
Floats are not rounded to integers. Without parameters all scales are 1 and all zero points 0. Facts: the C API
reference, 4.5.4 and 4.5.5; the vendor's public matmul example computes the same sum.

Sums of int32 and int16 have no scale of their own: C has the scale of A times that of B. With a scale for each column
the columns of C are brought to one scale, that of the widest column, which `rknn_matmul_get_quant_params` answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.capi.matmul_attributes import Shape, Spec, invalid
from openrknn.vendor.tables.enums import MatmulQuantization, TensorType

Array = npt.NDArray[Any]
_SYMMETRIC = (
    MatmulQuantization.PER_LAYER_SYM, MatmulQuantization.PER_CHANNEL_SYM, MatmulQuantization.PER_GROUP_SYM,
)  # fmt: skip
_CHANNELS = (MatmulQuantization.PER_CHANNEL_SYM, MatmulQuantization.PER_CHANNEL_ASYM)
_WHOLE = {TensorType.INT8: np.int8, TensorType.INT16: np.int16, TensorType.INT32: np.int32}
_KINDS = {TensorType.FLOAT32: np.float32, TensorType.FLOAT16: np.float16}


@dataclass(frozen=True, slots=True)
class Parameters:
    """rknn_quant_params."""

    scales: npt.NDArray[np.float32] = field(default_factory=lambda: np.ones(1, np.float32))
    zeros: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))


class Scales:
    """The parameters of A, B and C."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.known = {name: Parameters() for name in "ABC"}

    def put(self, name: str, scales: npt.NDArray[np.float32], zeros: npt.NDArray[np.int32], shape: Shape) -> None:
        """rknn_matmul_set_quant_params; no zero points are zeros."""
        if name not in self.known:
            raise invalid(f"the matrices are called A, B and C, not {name!r}")
        wanted = self.count(name, shape)
        if scales.size != wanted or zeros.size not in (0, wanted):
            kind = self._kind(name).name
            raise invalid(f"{name} has {wanted} scales and zero points ({kind}), not {scales.size} and {zeros.size}")
        if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
            raise invalid(f"the scales of {name} must be positive numbers")
        if zeros.any() and self._kind(name) in _SYMMETRIC:
            raise invalid(f"{name} is {self._kind(name).name}, so its zero points are 0")
        if zeros.any() and self._is_real(name):
            raise invalid(f"{name} is floating point and has no zero point")
        if np.any(np.abs(zeros.astype(np.int64)) > 255):
            raise invalid(f"a zero point of {name} is not between -255 and 255")
        self.known[name] = Parameters(scales.copy(), zeros.copy() if zeros.size else np.zeros(wanted, np.int32))

    def count(self, name: str, shape: Shape) -> int:
        """How many scales a matrix has."""
        kind = self._kind(name)
        if kind in _CHANNELS:
            return shape.n
        return shape.n * (shape.k // self._spec.group_size) if name == "B" and self._spec.is_grouped else 1

    def common(self) -> np.float32:
        """The scale of B when its columns have been brought to one."""
        return np.float32(self.known["B"].scales.max())

    def is_plain(self) -> bool:
        """Whether C is the sums, but for its type."""
        return all(np.all(one.scales == 1) and not one.zeros.any() for one in self.known.values())

    def groups(self, shape: Shape) -> tuple[Array, Array] | None:
        """Scales and zero points [groups, N] where B has them by groups."""
        b = self.known["B"]
        if not self._spec.is_grouped or b.scales.size == 1:
            return None
        return b.scales.reshape(-1, shape.n).astype(np.float64), b.zeros.reshape(-1, shape.n).astype(np.float64)

    def real(self, sums: Array) -> Array:
        """Sums of (a - zero) * (b - zero), over all of K, as real numbers in units of C's scale."""
        a, b, c = (self.known[name].scales.astype(np.float64) for name in "ABC")
        factor: Array = a * b / c
        if not self._is_real("C") and self._spec.type.types[2] is not TensorType.INT8:
            factor = b / float(self.common())
        return sums * factor if np.any(factor != 1) else sums

    def rounded(self, real: Array) -> Array:
        """As C stores it."""
        kind = self._spec.type.types[2]
        if kind in _WHOLE:
            whole = real if real.dtype.kind == "i" else numerics.round_to_integer(real)
            return numerics.saturate(whole + int(self.known["C"].zeros[0]), _WHOLE[kind])
        with np.errstate(over="ignore"):
            return (
                numerics.encode_bf16(real.astype(np.float32))
                if kind is TensorType.BFLOAT16
                else real.astype(_KINDS[kind], copy=False)
            )

    def _kind(self, name: str) -> MatmulQuantization:
        return self._spec.b_quantization if name == "B" else self._spec.ac_quantization

    def _is_real(self, name: str) -> bool:
        return self._spec.type.types["ABC".index(name)] not in (*_WHOLE, TensorType.INT4)
