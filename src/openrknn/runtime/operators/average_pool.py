"""AveragePool. The NPU counts padding as zeros; where a model does not want that, the compiler gives it to the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, integer, integers

__all__ = ["average_pool"]


def average_pool(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The mean of each window: sum / number of elements, of which padding counts with count_include_pad."""
    values = np.asarray(inputs[0], np.float64)
    kernel = integers(attributes, "kernel_shape", ())
    count = len(kernel)
    if values.ndim != count + 2 or not count:
        raise UnsupportedError(f"AveragePool with a kernel of {count} dimensions on {values.ndim} dimensions")
    strides = integers(attributes, "strides", (1,) * count)
    if integers(attributes, "dilations", (1,) * count) != (1,) * count:
        raise UnsupportedError("AveragePool with dilations is not implemented")
    pads = _pads(attributes, values.shape[2:], kernel, strides, shape[2:])
    sums = _window_sums(np.pad(values, [(0, 0), (0, 0), *pads]), kernel, strides, shape[2:])
    counted = _counted(attributes, values.shape[2:], pads)
    result: Array = sums / _window_sums(counted[None, None], kernel, strides, shape[2:])
    return result


def _counted(attributes: Attributes, size: tuple[int, ...], pads: Sequence[tuple[int, int]]) -> Array:
    """1 for each element of the padded plane that counts: padding if asked for, what ceil_mode adds never."""
    plane = np.zeros([before + length + after for length, (before, after) in zip(size, pads, strict=True)])
    stated = integers(attributes, "pads", [after for side in zip(*pads, strict=True) for after in side])[len(size) :]
    inside = [slice(before, before + length) for length, (before, _) in zip(size, pads, strict=True)]
    if integer(attributes, "count_include_pad", 0):
        inside = [slice(0, part.stop + after) for part, after in zip(inside, stated, strict=True)]
    plane[tuple(inside)] = 1
    return plane


def _pads(
    attributes: Attributes,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    wanted: tuple[int, ...],
) -> list[tuple[int, int]]:
    """Padding before and after, such that the output has the size that the compiler worked out."""
    count = len(kernel)
    given = integers(attributes, "pads", (0,) * (2 * count))
    auto = str(attributes.get("auto_pad", "NOTSET"))
    result = []
    for axis in range(count):
        reach = (wanted[axis] - 1) * strides[axis] + kernel[axis] - size[axis]
        before = given[axis]
        if auto.startswith("SAME"):
            before = max(reach, 0) // 2 if auto == "SAME_UPPER" else -(-max(reach, 0) // 2)
        result.append((before, max(0, reach - before)))
    return result


def _window_sums(padded: Array, kernel: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=tuple(range(2, padded.ndim)))
    steps = tuple(slice(None, size * stride, stride) for size, stride in zip(wanted, strides, strict=True))
    result: Array = windows[(slice(None), slice(None), *steps)].sum(axis=tuple(range(-len(kernel), 0)))
    return result
