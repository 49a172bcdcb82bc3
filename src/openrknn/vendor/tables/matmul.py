"""Memory layouts of matrices on each chip, and the sizes that it supports.

    A [M, K]    native [K1, M, K2]          element(m, k) at (k div K2, m, k mod K2)
    B [K, N]    native [N1, K1, N2, K2]     element(k, n) at (n div N2, k div K2, n mod N2, k mod K2)
    C [M, N]    native [N1, M, N2]          element(m, n) at (n div N2, m, n mod N2)

Facts: rknn_matmul_api.h of v2.3.2 (alignment, segments), and the tables "High-performance shapes" and "Size limitations
of K and N" of the vendor's user guide v2.3.0. Runtime 1.5.2 answers the same shapes on RK3588 and RK3566. Where A and B
have different types, the guide says that B is stored as if it had A's. C of 1 and 2 bytes is in neither: it is stored
in atoms, as everything that the NPU writes, and so are the int32, int16 and float32 that the guide shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from openrknn.chips import Chip
from openrknn.vendor.tables.enums import TensorType


class Tile(NamedTuple):
    """The last dimensions of native A and B, by the type of A."""

    a_k: int
    b_n: int
    b_k: int


_RK3588 = {TensorType.INT8: (32, 32), TensorType.FLOAT16: (32, 16), TensorType.INT4: (32, 64)}
_RK3566 = {TensorType.INT8: (32, 16), TensorType.FLOAT16: (16, 8)}
_RK3562 = {TensorType.INT8: (32, 16), TensorType.FLOAT16: (32, 8)}

ALIGNMENT: Mapping[str, Mapping[TensorType, tuple[int, int]]] = MappingProxyType(
    {"rk3588": _RK3588, "rk3576": _RK3588, "rk3566": _RK3566, "rk3568": _RK3566, "rk3562": _RK3562}
)
"""Chip -> type of A and B -> what K and N must be multiples of; native B has tiles of this size."""

SEGMENTS: Mapping[str, int] = MappingProxyType({"rk3588": 8192, "rk3576": 4096})
"""Chip -> rows of B in one segment of the native layout."""

LONGEST: Mapping[str, int] = MappingProxyType({"rk3566": 10240, "rk3568": 10240, "rk3562": 10240})
"""Chip -> the largest K; the others cut it into segments."""


def native_tile(chip: Chip, kind: TensorType) -> Tile | None:
    """How native A and B are cut where A has this type; None where the chip has no such layout."""
    known = ALIGNMENT.get(chip.name, {}).get(kind)
    if known is None:
        return None
    k, n = known
    return Tile(chip.atom_bytes * 8 // kind.bits, n, k)


def native_c(chip: Chip, kind: TensorType) -> int:
    """The last dimension of native C: an atom, and never less than 4 numbers."""
    return max(chip.atom_bytes * 8 // kind.bits, 4)
