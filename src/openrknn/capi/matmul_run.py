"""One shape of a matrix product, ready to run."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn.capi.matmul_attributes import Shape, Spec
from openrknn.capi.matmul_matrices import read_a, read_b, write_c
from openrknn.capi.matmul_scales import Scales
from openrknn.device import Device
from openrknn.runtime.matmul.own import OwnProduct
from openrknn.vendor.tables.enums import MatmulLayout

__all__ = ["Run", "make_run"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


class Run(Protocol):
    """A product with its matrices in memory."""

    def bind(self, name: str, data: Bytes) -> None:
        """A matrix is here from now on."""

    def run(self) -> None:
        """C = A * B."""

    def close(self) -> None:
        """Give everything back."""


def make_run(device: Device, spec: Spec, shape: Shape, scales: Scales) -> Run:
    """What multiplies on this device."""
    return DeviceRun(device, spec, shape, scales)


class DeviceRun:
    """By register commands: matrices are copied into the layout of the commands and back."""

    def __init__(self, device: Device, spec: Spec, shape: Shape, scales: Scales) -> None:
        self._spec, self._shape, self._scales = spec, shape, scales
        self._matrices = spec.matrices(shape)
        self._data: dict[str, Bytes] = {}
        self._b: Array | None = None
        """B as [K, N], where it was read when it was bound."""
        self._groups = scales.groups(shape)
        self._product = None if self._groups else OwnProduct(device, *shape, is_float=spec.is_float)

    def bind(self, name: str, data: Bytes) -> None:
        """A matrix is here from now on."""
        self._data[name] = data
        if name == "B":
            self._b = None
            if self._spec.b_layout is MatmulLayout.NORM:
                self._b = self._read_b().copy()

    def run(self) -> None:
        """C = A * B."""
        a = read_a(self._matrices["A"], self._data["A"])
        b = self._read_b() if self._b is None else self._b
        real = self._in_groups(a, b) if self._groups else self._scales.real(self._sums(a, b))
        write_c(self._matrices["C"], self._data["C"], self._scales.rounded(real))

    def close(self) -> None:
        """Give everything back."""
        if self._product is not None:
            self._product.close()
        self._data.clear()

    def _read_b(self) -> Array:
        return read_b(self._matrices["B"], self._data["B"], self._spec.segment)

    def _sums(self, a: Array, b: Array) -> Array:
        """Sums of (a - zero) * (b - zero)."""
        assert self._product is not None
        zero_a, zeros_b = int(self._scales.known["A"].zeros[0]), self._scales.known["B"].zeros
        if self._spec.is_float:
            b = (b - zeros_b.astype(np.float16)) if zeros_b.any() else b.astype(np.float16, copy=False)
        self._product.set_a(a)
        self._product.set_b(b)
        self._product.run()
        sums = self._product.get_c()
        if self._spec.is_float or not (zero_a or zeros_b.any()):
            return sums
        rows = a.astype(np.int64).sum(axis=1)[:, None]
        columns = b.astype(np.int64).sum(axis=0)
        wide = zeros_b.astype(np.int64)
        exact: Array = sums - zero_a * columns - wide * rows + self._shape.k * zero_a * wide
        return exact

    def _in_groups(self, a: Array, b: Array) -> Array:
        return grouped(a, b, self._scales, self._shape)


def grouped(a: Array, b: Array, scales: Scales, shape: Shape) -> Array:
    """Sums of each group in double precision, times its scale, added up; in units of C's scale."""
    groups = scales.groups(shape)
    assert groups is not None
    size = shape.k // len(groups[0])
    total = np.zeros((shape.m, shape.n))
    wide = a.astype(np.float64) - float(scales.known["A"].zeros[0])
    for number, (factors, zeros) in enumerate(zip(*groups, strict=True)):
        rows = slice(number * size, (number + 1) * size)
        total += wide[:, rows] @ (b[rows].astype(np.float64) - zeros) * factors
    units = float(scales.known["A"].scales[0]) / float(scales.known["C"].scales[0])
    return total * units if units != 1 else total
