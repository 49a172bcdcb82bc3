"""A product whose B has a scale for each group of rows: one product for each group, added up in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.capi.matmul_attributes import Shape, Spec
from openrknn.capi.matmul_scales import Scales
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles
from openrknn.vendor.tables.enums import TensorType

Array = npt.NDArray[Any]


class GroupedProduct:
    """Sums of each group times its scales, in units of C's scale."""

    def __init__(self, spec: Spec, shape: Shape, factors: Array, zeros: Array) -> None:
        a, b, _ = spec.type.types
        self._shape, self._size = shape, shape.k // len(factors)
        self._bits = a.bits, b.bits
        self._factors = factors
        self._sums: Array = np.zeros((shape.m, shape.n), np.float64 if spec.is_float else np.int32)
        self._total, self._scaled = np.zeros((2, shape.m, shape.n))
        place = Rows.plain(self._sums.reshape(-1).view(np.uint8), shape.n, self._sums.itemsize * 8)
        self._products = [self._product(spec, place, column) for column in zeros]

    @classmethod
    def of(cls, spec: Spec, shape: Shape, scales: Scales) -> GroupedProduct | None:
        """None where the sums need more than products of the stored numbers, or a group lies in two segments."""
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
        made = DirectProduct(m, self._size, n, a_bits=a_bits, b_bits=b_bits, to_doubles=spec.is_float)
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
