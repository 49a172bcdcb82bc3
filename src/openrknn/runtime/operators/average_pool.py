"""AveragePool. The NPU counts padding as zeros; where a model does not want that, the compiler gives it to the CPU."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, integer, integers, text
from openrknn.runtime.operators.windows import Windows, gather_windows, windows_of

__all__ = ["average_pool"]


def average_pool(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The mean of each window: sum / number of elements, of which padding counts with count_include_pad."""
    values = np.asarray(inputs[0], np.float64)
    kernel = integers(attributes, "kernel_shape", ())
    if values.ndim != len(kernel) + 2 or not kernel:
        raise UnsupportedError(f"AveragePool with a kernel of {len(kernel)} dimensions on {values.ndim} dimensions")
    windows = windows_of(attributes, values.shape[2:], kernel, shape[2:])
    total = np.zeros((*values.shape[:2], *shape[2:]))
    for plane in gather_windows(values, windows, 0):
        total += plane
    with np.errstate(all="ignore"):  # a window that sees only padding
        return np.asarray(total / _counted(attributes, windows))


def _counted(attributes: Attributes, windows: Windows) -> Array:
    """How many elements of each window count: padding if asked for, what ceil_mode adds never."""
    counts: Array = np.ones(())
    padded_by_itself = text(attributes, "auto_pad", "NOTSET").startswith("SAME")
    stated = integers(attributes, "pads", ()) or (0,) * 2 * len(windows.size)
    for axis, size in enumerate(windows.size):
        after = stated[len(windows.size) + axis]
        places = (
            np.arange(windows.wanted[axis])[:, None] * windows.strides[axis]
            - windows.before[axis]
            + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        )
        inside = (places >= 0) & (places < size)
        if integer(attributes, "count_include_pad", 0):
            inside = places < (places.max() + 1 if padded_by_itself else size + after)
        counts = counts[..., None] * inside.sum(axis=1)
    return counts
