"""Constants that repeat themselves (masks, sizes, positions of exporters) without writing the repetitions out.

A constant may be a NumPy view that goes over the same numbers again (stride 0). Moves stay views, and functions of
single numbers are computed once for each number that is there: the mask of a transformer is a row until somebody needs
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.rewrite.writer import attribute
from openrknn.compiler.ir import Array
from openrknn.compiler.operators import ELEMENTWISE

BY_NUMBER = (ELEMENTWISE | {"Cast"}) - {"Clip"}
"""Operators that compute each number by itself, and broadcast; the bounds of Clip must not get dimensions."""

Operands = Sequence[Array]
_PLAIN = {"FLOAT", "INT64", "INT32", "BOOL"}


def compact(array: Array) -> Array:
    """Without repetitions: sizes that are only repeated are 1. A view."""
    places = tuple(
        slice(0, 1) if size > 1 and not stride else slice(None)
        for size, stride in zip(array.shape, array.strides, strict=True)
    )
    return array[places]


def is_lazy(array: Array) -> bool:
    """Whether something in it is repeated."""
    return compact(array).size < array.size


def repeated(array: Array, shape: Sequence[int]) -> Array:
    """A view of this shape."""
    return np.broadcast_to(array, tuple(int(size) for size in shape))


def computed(node: Any, operands: Operands, evaluate: Callable[[Operands], list[Array]]) -> list[Array] | None:
    """The results of a node over constants, where they are known without `evaluate`, or by a part of its work."""
    if node.op_type in BY_NUMBER and operands:
        return _elementwise(node, operands, evaluate)
    rule = _MOVES.get(node.op_type)
    if rule is None:
        return None
    try:
        made = rule(node, operands)
    except (ValueError, IndexError, TypeError, KeyError):  # nonsense, which the evaluator names
        return None
    return None if made is None else [made]


def _elementwise(node: Any, operands: Operands, evaluate: Callable[[Operands], list[Array]]) -> list[Array] | None:
    try:
        shape = np.broadcast_shapes(*(entry.shape for entry in operands))
    except ValueError:
        return None
    if node.op_type == "Cast" and not is_lazy(operands[0]):
        return _cast(node, operands[0])
    if not any(is_lazy(entry) for entry in operands):
        return None
    rank = len(shape)
    small = [compact(entry.reshape((1,) * (rank - entry.ndim) + entry.shape)) for entry in operands]
    return [repeated(entry, shape) for entry in evaluate(small)]


def _cast(node: Any, array: Array) -> list[Array] | None:
    types = onnx_package()
    kind = attribute(node, "to", 0)
    if types.TensorProto.DataType.Name(kind) not in _PLAIN or array.dtype.kind not in "biuf":
        return None
    with np.errstate(all="ignore"):
        return [array.astype(types.helper.tensor_dtype_to_np_dtype(kind))]


def _expand(_: Any, operands: Operands) -> Array:
    array, wanted = operands
    shape = np.broadcast_shapes(array.shape, tuple(int(size) for size in wanted.reshape(-1)))
    return repeated(array, shape)


def _constant_of_shape(node: Any, operands: Operands) -> Array | None:
    value = next((entry.t for entry in node.attribute if entry.name == "value"), None)
    number = np.zeros(1, np.float32) if value is None else onnx_package().numpy_helper.to_array(value)
    sizes = [int(size) for size in operands[0].reshape(-1)]
    return None if min(sizes, default=0) < 0 or number.size != 1 else repeated(number.reshape(()), sizes)


def _tile(_: Any, operands: Operands) -> Array | None:
    array, counts = operands[0], [int(count) for count in operands[1].reshape(-1)]
    core = compact(array)
    if len(counts) != array.ndim or any(c != 1 and size != 1 for c, size in zip(counts, core.shape, strict=True)):
        return None
    return repeated(core, [size * count for size, count in zip(array.shape, counts, strict=True)])


def _axes(node: Any, operands: Operands) -> list[int] | None:
    given = operands[1].reshape(-1).tolist() if len(operands) > 1 else attribute(node, "axes")
    return None if given is None else [int(axis) for axis in given]


def _unsqueeze(node: Any, operands: Operands) -> Array | None:
    axes = _axes(node, operands)
    return None if axes is None else np.expand_dims(operands[0], tuple(axes))


def _squeeze(node: Any, operands: Operands) -> Array:
    axes = _axes(node, operands)
    return np.squeeze(operands[0], None if axes is None else tuple(axes))


def _transpose(node: Any, operands: Operands) -> Array:
    return np.transpose(operands[0], attribute(node, "perm"))


def _slice(node: Any, operands: Operands) -> Array | None:
    if len(operands) < 3:
        return None
    array = operands[0]
    starts, ends = (operands[at].reshape(-1).tolist() for at in (1, 2))
    axes = operands[3].reshape(-1).tolist() if len(operands) > 3 else list(range(len(starts)))
    steps = operands[4].reshape(-1).tolist() if len(operands) > 4 else [1] * len(starts)
    if any(step < 1 for step in steps):
        return None
    places = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places[axis] = slice(start, end, step)
    return array[tuple(places)]


def _reshape(node: Any, operands: Operands) -> Array | None:
    array, wanted = operands[0], [int(size) for size in operands[1].reshape(-1)]
    if attribute(node, "allowzero", 0) or wanted.count(-1) > 1:
        return None
    shape = [array.shape[at] if size == 0 else size for at, size in enumerate(wanted)]
    if -1 in shape:
        known = prod(size for size in shape if size != -1)
        if not known or array.size % known:
            return None
        shape[shape.index(-1)] = array.size // known
    core = compact(array)
    if prod(shape) != array.size:
        return None
    if core.size == 1 and array.size > 1:
        return repeated(core.reshape(()), shape)
    sizes = [size for size in shape if size != 1]
    if core.size < array.size and sizes == [size for size in array.shape if size != 1]:  # ones come and go
        left = [size for size, full in zip(core.shape, array.shape, strict=True) if full != 1]
        return repeated(core.reshape([1 if size == 1 else left.pop(0) for size in shape]), shape)
    return None if core.size < array.size else array.reshape(shape)


def _concat(node: Any, operands: Operands) -> Array:
    return np.concatenate(operands, int(attribute(node, "axis", 0)))


def _gather(node: Any, operands: Operands) -> Array | None:
    array, places = operands
    axis = int(attribute(node, "axis", 0))
    if places.size and not -array.shape[axis] <= places.min() <= places.max() < array.shape[axis]:
        return None
    return np.take(array, places, axis) if not is_lazy(array) else None


def _constant(node: Any, _: Operands) -> Array | None:
    if len(node.attribute) != 1:
        return None
    entry = node.attribute[0]
    if entry.name == "value":
        return np.asarray(onnx_package().numpy_helper.to_array(entry.t))
    kinds: Mapping[str, Any] = {
        "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32
    }  # fmt: skip
    if entry.name not in kinds:
        return None
    return np.array(onnx_package().helper.get_attribute_value(entry), kinds[entry.name])


_MOVES: Mapping[str, Callable[[Any, Operands], Array | None]] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Gather": _gather,
    "Identity": lambda _, operands: operands[0],
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
