"""`Matmul`: C = A * B on the NPU.

    with Matmul(4, 64, 32, MatmulType.INT8_MM_INT8_TO_INT32) as matmul:
        c = matmul(a, b)                    # NumPy in, NumPy out
        c = matmul(other)                   # B stays where it is

For zero copy, `bind` gives the memory of each matrix: fill it, `run`, read C. B has to be there before it is bound
unless it is in the NPU's own layout: the library turns it at that moment.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.vendor.library.structs import encoded_name
from openrknn.vendor.matmul.core import MatmulCore
from openrknn.vendor.matmul.matrices import decoded, encoded, pack_a, pack_b, stored, unpack_c
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.matmul import SEGMENTS

_CHANNEL = (MatmulQuantization.PER_CHANNEL_SYM, MatmulQuantization.PER_CHANNEL_ASYM)
_GROUP = (MatmulQuantization.PER_GROUP_SYM, MatmulQuantization.PER_GROUP_ASYM)
_CONVERT = "rknn_B_normal_layout_to_native_layout"


class Scales(NamedTuple):
    """What `rknn_matmul_get_quant_params` answers."""

    scale: float
    """The scale of B after the library made its channels alike: C's scale is that of A times this."""
    channels: npt.NDArray[np.float32]
    """The scales of the channels."""


class Matmul(MatmulCore):
    """`rknn_matmul_ctx` with NumPy arrays; see `MatmulCore` for its parameters."""

    def set_a(self, values: npt.NDArray[Any]) -> None:
        """Copy A [M, K] into its memory, in the layout that it has there."""
        matrix, (m, k, _) = self.a, self.shape
        values = encoded(values, matrix.type, (m, k), "A")
        if self.info.ac_layout is MatmulLayout.NATIVE:
            values = pack_a(values, matrix.shape[2])
        self._store("A", values)

    def set_b(self, values: npt.NDArray[Any]) -> None:
        """Copy B [K, N] into its memory, in the layout that it has there."""
        matrix, (_, k, n) = self.b, self.shape
        values = encoded(values, matrix.type, (k, n), "B")
        if self.info.b_layout is MatmulLayout.NATIVE:
            segment = SEGMENTS.get(self.chip.name, 0) if self.chip else 0
            values = pack_b(values, matrix.shape[2], matrix.shape[3], segment)
        elif self.info.b_layout is MatmulLayout.TP_NORM:
            values = values.T
        self._store("B", values)

    def _store(self, name: str, values: npt.NDArray[Any]) -> None:
        bound = self._bound.get(name)
        memory = bound.memory if bound else self.create_memory(self._matrix(name).size_bytes)
        data = stored(values, self._matrix(name).type)
        memory.array()[: data.size] = data
        # The library turns B into the NPU's layout when it is bound, so this comes after the numbers.
        if bound is None or (name == "B" and self.info.b_layout is not MatmulLayout.NATIVE):
            self.bind(name, memory)

    def get_c(self) -> npt.NDArray[Any]:
        """C [M, N] as a new array; bfloat16 becomes float32."""
        binding = self._bound.get("C") or self.bind("C")
        flat = decoded(binding.array, binding.matrix.type)
        m, _, n = self.shape
        if self.info.ac_layout is MatmulLayout.NATIVE:
            return unpack_c(flat.reshape(binding.matrix.shape))
        return flat[: m * n].reshape(m, n).copy()

    def __call__(self, a: npt.NDArray[Any], b: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """C for A, and for B unless it stays what it was."""
        self.set_a(a)
        if b is not None:
            self.set_b(b)
        if "C" not in self._bound:
            self.bind("C")
        self.run()
        return self.get_c()

    # ---------------------------------------------------------------------------------------------- scales

    def set_quantization(self, name: str, scale: npt.ArrayLike, zero_point: npt.ArrayLike = 0) -> None:
        """`rknn_matmul_set_quant_params` for "A", "B" or "C".

        One scale, one per column, or one per group and column, as the multiplication was made.
        """
        if name not in ("A", "B", "C"):
            raise KeyError(f"the matrices are 'A', 'B' and 'C', not {name!r}")
        scales = np.ascontiguousarray(np.asarray(scale, np.float32).reshape(-1))
        zeros = np.asarray(zero_point, np.int32).reshape(-1)
        points = np.ascontiguousarray(np.broadcast_to(zeros, scales.shape) if zeros.size == 1 else zeros)
        wanted = self._scale_count(name)
        if scales.size != wanted or points.size != wanted:
            raise ValueError(f"matrix {name} has {wanted} scales and zero points, not {scales.size} and {points.size}")
        if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
            raise ValueError(f"the scales of matrix {name} must be positive")
        self._scales[name] = (scales, points)
        raw = self._params(name)
        self._optional("rknn_matmul_set_quant_params", ctypes.byref(raw), about=name)

    def get_quantization(self, name: str = "B") -> Scales:
        """`rknn_matmul_get_quant_params`: for int8 -> int32 with a scale per channel of B."""
        if name not in self._scales:
            raise ValueError(f"matrix {name} has no scales yet; use set_quantization first")
        raw = self._params(name)
        answer = ctypes.c_float(0)
        self._optional("rknn_matmul_get_quant_params", ctypes.byref(raw), ctypes.byref(answer), about=name)
        return Scales(answer.value, self._scales[name][0])

    def _scale_count(self, name: str) -> int:
        kind = self.info.b_quantization if name == "B" else self.info.ac_quantization
        if kind in _CHANNEL:
            return self.shape.n
        return self.shape.n * (self.shape.k // self.info.group_size) if kind in _GROUP else 1

    def _params(self, name: str) -> Any:
        scales, points = self._scales[name]
        raw: Any = self.library.structs.rknn_quant_params()
        raw.name = encoded_name(self._matrix(name).name)
        raw.scale, raw.scale_len = scales.ctypes.data, scales.size
        raw.zp, raw.zp_len = points.ctypes.data, points.size
        return raw

    # ---------------------------------------------------------------------------------------------- layout of B

    def b_to_native(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """`rknn_B_normal_layout_to_native_layout`: the library's own way from [K, N] to the native layout, as bytes."""
        if self.info.b_layout is not MatmulLayout.NATIVE:
            raise ValueError("this multiplication takes B as it is; make it with b_layout=MatmulLayout.NATIVE")
        matrix, (_, k, n) = self.b, self.shape
        source = stored(encoded(values, matrix.type, (k, n), "B"), matrix.type)
        target = np.zeros(matrix.size_bytes, np.uint8)
        self.library.require(_CONVERT, chip=self.chip)
        arguments: list[Any] = [source.ctypes.data, target.ctypes.data, k, n]
        parameters = FUNCTIONS[_CONVERT].signature(self.library.version).parameters
        if any(parameter.name == "subN" for parameter in parameters):
            arguments += [matrix.shape[2], matrix.shape[3], int(self.info.type)]
        else:
            arguments.append(ctypes.byref(self.info.struct(self.library, self.shape)))
        self.library.check(_CONVERT, *arguments)
        return target
