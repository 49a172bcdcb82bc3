"""Arguments and attributes of a matrix multiplication: `rknn_matmul_info` and `rknn_matmul_io_attr` by version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from openrknn.chips import Chip
from openrknn.errors import UnsupportedError
from openrknn.vendor.library.library import Library
from openrknn.vendor.matmul.matrices import check_alignment
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType, TensorType
from openrknn.vendor.tables.versions import Version

_LARGEST = 2**31 - 1
_WITH_TYPES = Version(1, 6)
_WITH_QUANTIZATION = Version.parse("2.0.0b0")
_WITH_GROUPS = Version(2, 1)
_OLD_LAYOUTS = (MatmulLayout.NORM, MatmulLayout.NATIVE)


class Shape(NamedTuple):
    """C [M, N] = A [M, K] * B [K, N]."""

    m: int
    k: int
    n: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """rknn_matmul_tensor_attr: one matrix as stored in memory."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    size_bytes: int

    @classmethod
    def from_struct(cls, raw: Any) -> Matrix:
        """Read the C struct."""
        shape = tuple(raw.dims[: min(raw.n_dims, len(raw.dims))])
        return cls(raw.name.decode("utf-8", "replace"), shape, TensorType(raw.type), raw.size)


@dataclass(frozen=True, slots=True)
class MatmulInfo:
    """rknn_matmul_info without the sizes."""

    type: MatmulType
    b_layout: MatmulLayout = MatmulLayout.NORM
    ac_layout: MatmulLayout = MatmulLayout.NORM
    b_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    ac_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    group_size: int = 0
    iommu_domain: int = 0

    def check(self, library: Library, chip: Chip | None, shapes: list[Shape]) -> None:
        """Everything that the library would crash on, ignore, or refuse without a reason."""
        if not shapes:
            raise ValueError("a matrix multiplication needs a shape")
        for shape in shapes:
            if min(shape) < 1 or max(shape) > _LARGEST:
                raise ValueError(f"M, K and N are positive 32-bit numbers, not {tuple(shape)}")
            if chip and self.type.types[0] is self.type.types[1]:
                check_alignment(chip, self.type.types[1], shape.k, shape.n)
            uneven = shape.m > 1 and shape.m % 4
            if uneven and self.ac_layout is MatmulLayout.NATIVE and library.version < _WITH_TYPES:
                raise ValueError(
                    f"library {library.version} lays A and C out for a multiple of 4 rows and writes past the end of "
                    f"C: with ac_layout=NATIVE M is 1 or a multiple of 4, not {shape.m}"
                )
        library.require_value(self.type)
        if self.ac_layout not in _OLD_LAYOUTS:
            raise ValueError("only B can be TP_NORM")
        if self.b_layout not in _OLD_LAYOUTS:
            library.require_value(self.b_layout)
        for value in (self.b_quantization, self.ac_quantization):
            if value is not MatmulQuantization.PER_LAYER_SYM:
                library.require_value(value)
        grouped = self.b_quantization in (MatmulQuantization.PER_GROUP_SYM, MatmulQuantization.PER_GROUP_ASYM)
        if grouped and (self.group_size < 1 or any(shape.k % self.group_size for shape in shapes)):
            raise ValueError(f"quantisation per group needs a group size that divides K, not {self.group_size}")
        if self.iommu_domain and library.version < _WITH_QUANTIZATION:
            raise UnsupportedError(f"iommu_domain needs a library of {_WITH_QUANTIZATION} or newer")

    def struct(self, library: Library, shape: Shape) -> Any:
        """The C struct of this version of the library."""
        raw: Any = library.structs.rknn_matmul_info()
        raw.M, raw.K, raw.N, raw.type = shape.m, shape.k, shape.n, int(self.type)
        if library.version < _WITH_TYPES:
            # The two types that 1.5 has carry the numbers of the tensor types float16 and int8.
            raw.native_layout, raw.perf_layout = int(self.b_layout), int(self.ac_layout)
            return raw
        raw.B_layout, raw.AC_layout = int(self.b_layout), int(self.ac_layout)
        if library.version >= _WITH_QUANTIZATION:
            raw.B_quant_type, raw.AC_quant_type = int(self.b_quantization), int(self.ac_quantization)
            raw.iommu_domain_id = self.iommu_domain
        if library.version >= _WITH_GROUPS:
            raw.group_size = self.group_size
        return raw
