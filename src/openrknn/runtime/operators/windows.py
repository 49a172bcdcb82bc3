"""Windows that slide over planes: where they lie, and what is under them, one tap of the kernel after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Shape, bounded, integers, text

_MOST_TAPS = 2**16


@dataclass(frozen=True, slots=True)
class Windows:
    """Output o sees input o * stride - before + tap * dilation, along each axis of the plane."""

    size: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    wanted: Shape

    def taps(self) -> Iterator[Shape]:
        """All places of the kernel."""
        return product(*(range(count) for count in self.kernel))

    def joined(self) -> Iterator[tuple[Shape, tuple[tuple[slice, ...], tuple[slice, ...]]]]:
        """Each tap with what it joins."""
        return ((tap, self.under(tap)) for tap in self.taps())

    def under(self, tap: Shape) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """(outputs, inputs) that this tap joins: the outputs whose input is inside the plane."""
        outputs, inputs = [], []
        for axis, place in enumerate(tap):
            shift, stride = place * self.dilations[axis] - self.before[axis], self.strides[axis]
            first = max(0, -(shift // stride))  # the first output with o * stride + shift >= 0
            last = min(self.wanted[axis], (self.size[axis] - 1 - shift) // stride + 1)
            last = max(first, last)
            outputs.append(slice(first, last))
            inputs.append(slice(first * stride + shift, (last - 1) * stride + shift + 1, stride))
            if last == first:
                inputs[-1] = slice(0, 0)
        return tuple(outputs), tuple(inputs)


def windows_of(attributes: Attributes, size: Shape, kernel: Shape, wanted: Shape) -> Windows:
    """Windows for planes of `size`; padding by itself (SAME) follows from the size that the output has."""
    count = len(size)
    if not count or len(kernel) != count or len(wanted) != count or min((*kernel, *size), default=0) < 1:
        raise UnsupportedError(f"a kernel of {list(kernel)} on {list(size)} that makes {list(wanted)}")
    strides, dilations = (integers(attributes, name, ()) or (1,) * count for name in ("strides", "dilations"))
    pads = integers(attributes, "pads", ()) or (0,) * 2 * count
    auto = text(attributes, "auto_pad", "NOTSET")
    if (len(strides), len(dilations), len(pads)) != (count, count, 2 * count) or min((*strides, *dilations)) < 1:
        raise UnsupportedError(f"strides {list(strides)}, dilations {list(dilations)}, pads {list(pads)}")
    before = list(pads[:count])
    if auto.startswith("SAME"):
        for axis in range(count):
            reach = (wanted[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
            total = max(0, reach - size[axis])
            before[axis] = total // 2 if auto == "SAME_UPPER" else total - total // 2
    elif auto == "VALID":
        before = [0] * count
    if prod(kernel) > _MOST_TAPS:
        raise UnsupportedError(f"a kernel of {list(kernel)}")
    bounded(*wanted)
    return Windows(size, kernel, strides, dilations, tuple(before), wanted)


def gather_windows(x: Array, windows: Windows, fill: float) -> Iterator[Array]:
    """For each tap the plane of inputs under it, `fill` where it is outside."""
    for tap in windows.taps():
        outputs, inputs = windows.under(tap)
        plane = np.full((*x.shape[:2], *windows.wanted), fill, x.dtype)
        plane[(slice(None), slice(None), *outputs)] = x[(slice(None), slice(None), *inputs)]
        yield plane
