"""Conv and ConvTranspose on planes of any number of dimensions, one tap of the kernel after the other."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Compute,
    Inputs,
    Shape,
    bounded,
    fitting,
    integer,
    integers,
    optional,
    text,
)
from openrknn.runtime.operators.windows import windows_of


def conv(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """y[o] = bias + sum over taps and channels of w[o, c, tap] x[c, place + tap]."""
    x, w = (np.asarray(array, np.float64) for array in inputs[:2])
    groups = integer(attributes, "group", 1)
    _check(x, w, groups, x.shape[1] == w.shape[1] * groups if groups > 0 else False, w.shape[0])
    fitting((x.shape[0], w.shape[0], *shape[2:]), shape)
    windows = windows_of(attributes, x.shape[2:], w.shape[2:], shape[2:])
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    kernel = w.reshape(groups, -1, *w.shape[1:])
    total = np.zeros((x.shape[0], groups, kernel.shape[1], *shape[2:]))
    for tap, (outputs, places) in windows.joined():
        total[_planes(outputs)] += _product(kernel[_planes(tap)], parts[_planes(places)])
    return _with_bias(total.reshape(shape), optional(inputs, 2))


def conv_transpose(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The other way round: each input is added, times the kernel, to the outputs that it would have come from."""
    x, w = (np.asarray(array, np.float64) for array in inputs[:2])
    groups = integer(attributes, "group", 1)
    _check(x, w, groups, x.shape[1] == w.shape[0], w.shape[0])
    fitting((x.shape[0], w.shape[1] * groups, *shape[2:]), shape)
    windows = windows_of({**attributes, "auto_pad": "NOTSET", "pads": _pads(attributes, x, w, shape)},
                         shape[2:], w.shape[2:], x.shape[2:])  # fmt: skip
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    kernel = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    total = np.zeros((x.shape[0], groups, w.shape[1], *shape[2:]))
    for tap, (places, outputs) in windows.joined():
        total[_planes(outputs)] += _product(kernel[_planes(tap)], parts[_planes(places)])
    return _with_bias(total.reshape(shape), optional(inputs, 2))


def conv_transpose_pad(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """What makes a ConvTranspose a Conv: zeros between the inputs, and the margin that is left of the kernel.

    Inputs are `stride` apart. Before the first come (kernel - 1) * dilation - pad zeros, behind the last as many as
    the output needs. The compiler does this on the CPU where the NPU cannot spread inputs itself (strides of 3).
    """
    x, count = inputs[0], inputs[0].ndim - 2
    kernel, strides = (integers(attributes, name, ()) for name in ("kernel_shape", "strides"))
    dilations = integers(attributes, "dilations", ()) or (1,) * count
    pads = integers(attributes, "pads", ()) or (0,) * 2 * count
    auto = text(attributes, "auto_pad", "NOTSET")
    if count < 1 or {len(kernel), len(strides), len(dilations)} != {count} or len(pads) != 2 * count:
        raise UnsupportedError(f"a kernel of {list(kernel)}, strides {list(strides)}, pads {list(pads)}")
    if auto != "NOTSET" or tuple(shape[:2]) != x.shape[:2] or min(strides) < 1:
        raise UnsupportedError(f"{auto}, from {list(x.shape)} to {list(shape)}, strides {list(strides)}")
    before = [(kernel[axis] - 1) * dilations[axis] - pads[axis] for axis in range(count)]
    ends = [before[axis] + (x.shape[axis + 2] - 1) * strides[axis] + 1 for axis in range(count)]
    if min(before) < 0 or any(end > size for end, size in zip(ends, shape[2:], strict=True)):
        raise UnsupportedError(f"{list(x.shape)} with {before} before it does not fit into {list(shape)}")
    result = np.zeros(shape, x.dtype)
    places = zip(before, ends, strides, strict=True)
    result[(slice(None), slice(None), *(slice(*place) for place in places))] = x
    return result


def _pads(attributes: Attributes, x: Array, w: Array, shape: Shape) -> list[int]:
    """As stated, or what is too much of the full size, split: the half that is larger behind with SAME_UPPER."""
    count = x.ndim - 2
    auto = text(attributes, "auto_pad", "NOTSET")
    stated = integers(attributes, "pads", ()) or (0,) * 2 * count
    if not auto.startswith("SAME") and not integers(attributes, "output_shape", ()):
        return [0] * 2 * count if auto == "VALID" else list(stated)
    strides, dilations = (integers(attributes, name, ()) or (1,) * count for name in ("strides", "dilations"))
    extra = integers(attributes, "output_padding", ()) or (0,) * count
    before = []
    for axis in range(count):
        full = strides[axis] * (x.shape[axis + 2] - 1) + extra[axis] + (w.shape[axis + 2] - 1) * dilations[axis] + 1
        total = full - shape[axis + 2]
        before.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    return before + [0] * count


def _check(x: Array, w: Array, groups: int, same: bool, rows: int) -> None:
    if x.ndim != w.ndim or x.ndim < 3 or groups < 1 or rows % groups or not same:
        raise UnsupportedError(f"weights of {list(w.shape)} in {groups} groups for {list(x.shape)}")
    bounded(*x.shape)


def _planes(places: tuple[int | slice, ...]) -> tuple[int | slice, ...]:
    """An index into [items, groups, channels, plane ...]."""
    return (slice(None), slice(None), slice(None), *places)


def _product(kernel: Array, x: Array) -> Array:
    """[G, O, C] times [N, G, C, ...] over C."""
    flat = x.reshape(*x.shape[:3], prod(x.shape[3:]))
    return np.asarray(np.matmul(kernel, flat)).reshape(*x.shape[:2], kernel.shape[1], *x.shape[3:])


def _with_bias(total: Array, bias: Array | None) -> Array:
    if bias is not None:
        total += np.asarray(bias, np.float64).reshape(-1, *(1,) * (total.ndim - 2))
    return total


def followed_by(first: Compute, second: Callable[[Array, Attributes], Array]) -> Compute:
    """An operator with an activation fused into it."""

    def compute(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
        return second(first(inputs, attributes, shape), attributes)

    return compute
