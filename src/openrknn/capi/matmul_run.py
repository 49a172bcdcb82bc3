"""One shape of a matrix product, ready to run: on the matrices themselves, or by register commands of a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.capi.matmul_attributes import Shape, Spec, b_to_native, read_a, read_b, write_c
from openrknn.capi.matmul_scales import Scales
from openrknn.device import Device
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles
from openrknn.runtime.matmul.own import OwnProduct, kind_of
from openrknn.vendor.tables.enums import MatmulLayout, TensorType

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


class _Run:
    """What both have in common: where the matrices are, and B by groups."""

    def __init__(self, spec: Spec, shape: Shape, scales: Scales) -> None:
        self._spec, self._shape, self._scales = spec, shape, scales
        self._matrices = spec.matrices(shape)
        self._data: dict[str, Bytes] = {}
        self._is_grouped = scales.groups(shape) is not None
        self._zero_a, self._zeros_b = int(scales.known["A"].zeros[0]), scales.known["B"].zeros
        self._has_zeros = bool(self._zero_a or self._zeros_b.any())

    def close(self) -> None:
        """Give everything back."""
        self._data.clear()

    def _read_a(self) -> Array:
        return read_a(self._matrices["A"], self._data["A"])

    def _read_b(self) -> Array:
        return read_b(self._matrices["B"], self._data["B"], self._spec.segment)

    def _write(self, real: Array) -> None:
        write_c(self._matrices["C"], self._data["C"], self._scales.rounded(real))

    def _without_zeros(self, sums: Array, a: Array, b: Array) -> Array:
        """From sums of a * b to sums of (a - zero) * (b - zero)."""
        rows = a.astype(np.int64).sum(axis=1)[:, None]
        columns = b.astype(np.int64).sum(axis=0)
        wide = self._zeros_b.astype(np.int64)
        exact: Array = sums - self._zero_a * columns - wide * rows + self._shape.k * self._zero_a * wide
        return exact

    def _in_groups(self, a: Array, b: Array) -> Array:
        """Sums of each group, times its scale, added up in double precision; in units of C's scale."""
        groups = self._scales.groups(self._shape)
        assert groups is not None
        size = self._shape.k // len(groups[0])
        total: Array = np.zeros((self._shape.m, self._shape.n))
        wide = a.astype(np.float64) - self._zero_a
        for number, (factors, zeros) in enumerate(zip(*groups, strict=True)):
            rows = slice(number * size, (number + 1) * size)
            centred = b[rows].astype(np.float64) - zeros
            sums = numerics.multiply_floats(wide[:, rows], centred) if a.dtype.kind == "f" else wide[:, rows] @ centred
            total += sums * factors
        units = float(self._scales.known["A"].scales[0]) / float(self._scales.known["C"].scales[0])
        return total * units if units != 1 else total


class DirectRun(_Run):
    """The software NPU's sums, on the matrices where they are; only a plain [K, N] is turned, when it is bound."""

    def __init__(self, spec: Spec, shape: Shape, scales: Scales) -> None:
        super().__init__(spec, shape, scales)
        a, b, c = spec.type.types
        self._product = DirectProduct(*shape, a_bits=a.bits, b_bits=b.bits)
        if spec.is_float and self._zeros_b.any() and not self._is_grouped:
            self._product.set_zeros(np.ascontiguousarray(np.broadcast_to(self._zeros_b, shape.n), np.int32))
        sums = TensorType.FLOAT32 if spec.is_float else TensorType.INT32
        self._is_plain = c is sums and scales.is_plain()
        self._groups = GroupedProduct.of(spec, shape, scales) if self._is_grouped else None
        if not self._is_plain:
            self._sums: Array = np.empty(shape[::2], np.float32 if spec.is_float else np.int32)
            self._product.set_c(Rows.plain(self._sums.reshape(-1).view(np.uint8), shape.n, 32))

    def bind(self, name: str, data: Bytes) -> None:
        """A matrix is here from now on."""
        self._data[name] = data
        if name == "A":
            self._place_a(self._rows("A", data))
        elif name == "B":
            self._place_b(self._tiles(data))
        elif self._is_plain:
            self._product.set_c(self._rows("C", data))

    def run(self) -> None:
        """C = A * B."""
        if self._is_grouped:
            self._write(self._in_groups(self._read_a(), self._read_b()) if self._groups is None else self._groups())
            return
        self._product.run()
        if self._is_plain:
            return
        sums = self._sums
        if self._has_zeros and not self._spec.is_float:
            sums = self._without_zeros(sums, self._read_a(), self._read_b())
        self._write(self._scales.real(sums))

    def _place_a(self, rows: Rows) -> None:
        self._product.set_a(rows)
        if self._groups is not None:
            self._groups.set_a(rows)

    def _place_b(self, tiles: Tiles) -> None:
        self._product.set_b(tiles)
        if self._groups is not None:
            self._groups.set_b(tiles)

    def _rows(self, name: str, data: Bytes) -> Rows:
        matrix = self._matrices[name]
        if matrix.layout is MatmulLayout.NATIVE:
            return Rows.native(data, matrix.dims[1], matrix.dims[2], matrix.type.bits)
        return Rows.plain(data, matrix.dims[1], matrix.type.bits)

    def _tiles(self, data: Bytes) -> Tiles:
        matrix = self._matrices["B"]
        if matrix.layout is MatmulLayout.TP_NORM:
            return Tiles(data, column=self._shape.k * matrix.type.bits // 8)
        native = self._spec.native_b(self._shape)
        if matrix.layout is MatmulLayout.NORM:
            data = b_to_native(native, data, self._spec.segment)
            self._data["B"] = data
        return Tiles(data, native.dims[2], native.dims[3], self._spec.segment)

    def _read_b(self) -> Array:
        matrix = self._matrices["B"]
        native = matrix if matrix.layout is MatmulLayout.TP_NORM else self._spec.native_b(self._shape)
        return read_b(native, self._data["B"], self._spec.segment)


class DeviceRun(_Run):
    """By register commands: matrices are copied into the layout of the commands and back."""

    def __init__(self, device: Device, spec: Spec, shape: Shape, scales: Scales) -> None:
        super().__init__(spec, shape, scales)
        self._b: Array | None = None
        """B as [K, N], where it was read when it was bound."""
        # Sums that scales or zero points follow are not to saturate: those of int8 are exact.
        bits = max(spec.type.types[0].bits, 4 if scales.is_plain() else 8)
        b_bits = bits if spec.is_float and self._zeros_b.any() else min(bits, spec.type.types[1].bits)
        kind = kind_of(device.chip, shape.m, shape.k, bits=bits, b_bits=b_bits)
        self._widens_b = kind.b_bits == 16
        self._product = None if self._is_grouped else OwnProduct(device, *shape, kind)

    def bind(self, name: str, data: Bytes) -> None:
        """A matrix is here from now on."""
        self._data[name] = data
        if name == "B":
            self._b = self._read_b().copy() if self._spec.b_layout is MatmulLayout.NORM else None

    def run(self) -> None:
        """C = A * B."""
        a = self._read_a()
        b = self._read_b() if self._b is None else self._b
        self._write(self._in_groups(a, b) if self._is_grouped else self._scales.real(self._multiplied(a, b)))

    def close(self) -> None:
        """Give everything back."""
        super().close()
        if self._product is not None:
            self._product.close()

    def _multiplied(self, a: Array, b: Array) -> Array:
        """Sums of (a - zero) * (b - zero)."""
        assert self._product is not None
        if self._widens_b:
            b = b - self._zeros_b.astype(np.float16) if self._zeros_b.any() else b.astype(np.float16, copy=False)
        self._product.set_a(a)
        self._product.set_b(b)
        self._product.run()
        sums = self._product.get_c()
        return self._without_zeros(sums, a, b) if self._has_zeros and not self._spec.is_float else sums


# A product whose B has a scale for each group of rows: one product for each group, added up in double precision.


class GroupedProduct:
    """Sums of each group times its scales, in units of C's scale."""

    def __init__(self, spec: Spec, shape: Shape, factors: Array, zeros: Array) -> None:
        a, b, _ = spec.type.types
        self._shape, self._size = shape, shape.k // len(factors)
        self._bits = a.bits, b.bits
        self._factors = factors
        self._sums: Array = np.zeros((shape.m, shape.n), np.float32 if spec.is_float else np.int32)
        self._total, self._scaled = np.zeros((2, shape.m, shape.n))
        place = Rows.plain(self._sums.reshape(-1).view(np.uint8), shape.n, self._sums.itemsize * 8)
        self._products = [self._product(spec, place, column) for column in zeros]

    @classmethod
    def of(cls, spec: Spec, shape: Shape, scales: Scales) -> GroupedProduct | None:
        """None where the sums need more than products of the stored numbers, or a group spans two segments."""
        groups = scales.groups(shape)
        assert groups is not None
        has_zeros = bool(scales.known["A"].zeros.any() or (groups[1].any() and not spec.is_float))
        if has_zeros or (shape.k > spec.segment > 0 and spec.segment % (shape.k // len(groups[0]))):
            return None
        units = float(scales.known["A"].scales[0]) / float(scales.known["C"].scales[0])
        return cls(spec, shape, groups[0] * units, groups[1].astype(np.int32))

    def _product(self, spec: Spec, place: Rows, zeros: npt.NDArray[np.int32]) -> DirectProduct:
        m, _, n = self._shape
        a_bits, b_bits = self._bits
        made = DirectProduct(m, self._size, n, a_bits=a_bits, b_bits=b_bits)
        made.set_c(place)
        if zeros.any() and spec.type.types[1] is not TensorType.FLOAT16:
            made.set_zeros(np.ascontiguousarray(zeros))
        return made

    def set_a(self, rows: Rows) -> None:
        """Where A is: a group begins in the middle of each row, or is some groups of columns."""
        for number, product in enumerate(self._products):
            first = number * self._size
            inside = first % rows.width * self._bits[0] // 8
            product.set_a(replace(rows, data=rows.data[first // rows.width * rows.group + inside :]))

    def set_b(self, tiles: Tiles) -> None:
        """Where B is: a group is some tiles of each block of columns."""
        rows, bits = self._shape.k, self._bits[1]
        step = tiles.segment or rows
        for number, product in enumerate(self._products):
            first = number * self._size
            if tiles.column:
                product.set_b(replace(tiles, data=tiles.data[first * bits // 8 :]))
                continue
            segment = first // step * step
            before = segment * self._shape.n + (first - segment) * tiles.columns
            span = min(step, rows - segment)
            product.set_b(replace(tiles, data=tiles.data[before * bits // 8 :], segment=0, span=span))

    def __call__(self) -> Array:
        """Multiply all groups."""
        self._total[...] = 0
        for product, factors in zip(self._products, self._factors, strict=True):
            product.run()
            np.multiply(self._sums, factors, out=self._scaled)
            self._total += self._scaled
        return self._total
