"""Adjoints of ONNX operators, as ONNX operators: how a change of each input moves what comes after.

One rule for each kind of operator gets the gradient of its output and returns one for each input (None: that input is a
constant, or does not matter). Forward values are inputs of the model that is made. A maximum pooling sends the gradient
to the first number of each window instead of the largest: its power is the same, and that is what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from openrknn.compiler.ir import Array
from openrknn.compiler.operators import OPERATORS

_STEP = 1e-2
"""Of the difference quotient of smooth functions."""
_TINY = 1e-6


@dataclass(slots=True)
class Tape:
    """The model of all adjoints as it grows."""

    onnx: Any
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, Array]
    nodes: list[Any] = field(default_factory=list)
    stored: dict[str, Array] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    """Forward values that adjoints need, in order."""
    _count: int = 0

    def value(self, name: str) -> str:
        """A forward value or a constant of the model."""
        if name in self.constants:
            self.stored[name] = self.constants[name]
        else:
            self.used[name] = None
        return name

    def array(self, values: Any, kind: Any = np.float32) -> str:
        self._count += 1
        name = f"_constant_{self._count}"
        self.stored[name] = np.asarray(values, kind)
        return name

    def emit(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        self._count += 1
        name = f"_adjoint_{self._count}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def reshape(self, gradient: str, shape: Sequence[int]) -> str:
        return self.emit("Reshape", [gradient, self.array(shape, np.int64)])

    def expand(self, gradient: str, shape: Sequence[int]) -> str:
        return self.emit("Expand", [gradient, self.array(shape, np.int64)])

    def fitted(self, gradient: str, made: Sequence[int], wanted: Sequence[int]) -> str:
        """Sums over what was repeated to fit another operand."""
        made = tuple(made)
        padded = (1,) * (len(made) - len(wanted)) + tuple(wanted)
        axes = [axis for axis, (a, b) in enumerate(zip(made, padded, strict=True)) if a != b]
        if axes:
            gradient = self.emit("ReduceSum", [gradient, self.array(axes, np.int64)], keepdims=1)
        return gradient if made == tuple(wanted) else self.reshape(gradient, wanted)

    def part(self, gradient: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> str:
        return self.emit("Slice", [gradient, *(self.array(entry, np.int64) for entry in (starts, ends, axes))])


Rule = Callable[[Tape, Any, str], "list[str | None] | None"]
"""None: this form of the operator has no adjoint here."""


def _attribute(tape: Tape, node: Any, name: str, default: Any) -> Any:
    found = next((entry for entry in node.attribute if entry.name == name), None)
    return default if found is None else tape.onnx.helper.get_attribute_value(found)


def _is_live(tape: Tape, name: str) -> bool:
    return bool(name) and name not in tape.constants


def _unary(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    """By a difference quotient."""
    source, step = tape.value(node.input[0]), tape.array(_STEP)
    sides = []
    for kind in ("Add", "Sub"):
        moved = tape.emit(kind, [source, step])
        attributes = {entry.name: tape.onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        others = [tape.value(name) if name else "" for name in node.input[1:]]
        sides.append(tape.emit(node.op_type, [moved, *others], **attributes))
    slope = tape.emit("Div", [tape.emit("Sub", sides), tape.array(2 * _STEP)])
    return [tape.emit("Mul", [gradient, slope]), *[None] * (len(node.input) - 1)]


def _sigmoid(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    made = tape.value(node.output[0])
    slope = tape.emit("Mul", [made, tape.emit("Sub", [tape.array(1.0), made])])
    return [tape.emit("Mul", [gradient, slope])]


def _exp(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    return [tape.emit("Mul", [gradient, tape.value(node.output[0])])]


def _sqrt(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    root = tape.emit("Max", [tape.value(node.output[0]), tape.array(_TINY)])
    return [tape.emit("Div", [tape.emit("Mul", [gradient, tape.array(0.5)]), root])]


def _reciprocal(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    made = tape.value(node.output[0])
    return [tape.emit("Neg", [tape.emit("Mul", [gradient, tape.emit("Mul", [made, made])])])]


def _log(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    return [tape.emit("Div", [gradient, tape.emit("Max", [tape.value(node.input[0]), tape.array(_TINY)])])]


def _pow(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    power = tape.constants.get(node.input[1])
    if power is None or power.size != 1 or float(power.reshape(-1)[0]) != 2.0:
        return None
    return [tape.emit("Mul", [gradient, tape.emit("Mul", [tape.value(node.input[0]), tape.array(2.0)])]), None]


def _elementwise(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    kind, made = node.op_type, tape.shapes[node.output[0]]
    if len(node.input) > 2 and kind != "Sum":
        return None
    found: list[str | None] = []
    for place, name in enumerate(node.input):
        if not _is_live(tape, name):
            found.append(None)
            continue
        own = gradient
        if kind == "Sub" and place:
            own = tape.emit("Neg", [gradient])
        elif kind == "Mul":
            own = tape.emit("Mul", [gradient, tape.value(node.input[1 - place])])
        elif kind == "Div":
            own = tape.emit("Div", [gradient, tape.value(node.input[1])])
            if place:
                own = tape.emit("Neg", [tape.emit("Mul", [own, tape.value(node.output[0])])])
        elif kind in {"Max", "Min"}:
            same = tape.emit("Equal", [tape.value(name), tape.value(node.output[0])])
            own = tape.emit("Mul", [gradient, tape.emit("Cast", [same], to=1)])
        found.append(tape.fitted(own, made, tape.shapes[name]))
    return found


def _conv(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    weight = tape.constants.get(node.input[1])
    before, after = tape.shapes[node.input[0]], tape.shapes[node.output[0]]
    if weight is None or _attribute(tape, node, "auto_pad", b"NOTSET") not in {b"NOTSET", b""}:
        return None
    dims = weight.ndim - 2
    strides = list(_attribute(tape, node, "strides", [1] * dims))
    dilations = list(_attribute(tape, node, "dilations", [1] * dims))
    pads = list(_attribute(tape, node, "pads", [0] * 2 * dims))
    group = int(_attribute(tape, node, "group", 1))
    reach = [(size - 1) * step for size, step in zip(weight.shape[2:], dilations, strict=True)]
    rest: list[str | None] = [None] * (len(node.input) - 1)
    if all(step == 1 for step in strides) and all(pads[n] <= reach[n % dims] for n in range(2 * dims)):
        # A convolution again, with turned kernels: it is faster than a transposed one.
        split = weight.reshape(group, len(weight) // group, *weight.shape[1:]).swapaxes(1, 2)
        turned = np.flip(split, tuple(range(3, 3 + dims))).reshape(-1, len(weight) // group, *weight.shape[2:])
        borders = [reach[n % dims] - pads[n] for n in range(2 * dims)]
        made = tape.emit("Conv", [gradient, tape.array(np.ascontiguousarray(turned))], dilations=dilations,
                         group=group, pads=borders, strides=strides)  # fmt: skip
        return [made, *rest]
    missing = [
        before[2 + n] - ((after[2 + n] - 1) * strides[n] + reach[n] + 1 - pads[n] - pads[n + dims]) for n in range(dims)
    ]
    made = tape.emit("ConvTranspose", [gradient, tape.value(node.input[1])], dilations=dilations, group=group,
                     pads=pads, strides=strides, output_padding=missing)  # fmt: skip
    return [made, *rest]


def _conv_transpose(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    if node.input[1] not in tape.constants or _attribute(tape, node, "auto_pad", b"NOTSET") not in {b"NOTSET", b""}:
        return None
    kept = {
        entry.name: tape.onnx.helper.get_attribute_value(entry) for entry in node.attribute
        if entry.name in {"strides", "pads", "dilations", "group"}
    }  # fmt: skip
    if any(_attribute(tape, node, "output_padding", [])):
        return None
    made = tape.emit("Conv", [gradient, tape.value(node.input[1])], **kept)
    return [made, *[None] * (len(node.input) - 1)]


def _gemm(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    weight = tape.constants.get(node.input[1])
    if weight is None or _attribute(tape, node, "transA", 0):
        return None
    turned = weight if _attribute(tape, node, "transB", 0) else weight.T
    scaled = turned * np.float32(_attribute(tape, node, "alpha", 1.0))
    return [tape.emit("MatMul", [gradient, tape.array(np.ascontiguousarray(scaled))]), *[None] * (len(node.input) - 1)]


def _matmul(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    shapes = [tape.shapes.get(name) or tape.constants[name].shape for name in node.input]
    made = tape.shapes[node.output[0]]
    if min(map(len, shapes)) < 2:
        return None
    turned = [
        tape.array(np.ascontiguousarray(tape.constants[name].swapaxes(-1, -2))) if name in tape.constants
        else tape.emit("Transpose", [tape.value(name)], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        for name, shape in zip(node.input, shapes, strict=True)
    ]  # fmt: skip
    found: list[str | None] = [None, None]
    for place, operands in enumerate(([gradient, turned[1]], [turned[0], gradient])):
        if _is_live(tape, node.input[place]):
            whole = (*made[:-2], *shapes[place][-2:])
            found[place] = tape.fitted(tape.emit("MatMul", operands), whole, shapes[place])
    return found


def _concat(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    shape = tape.shapes[node.output[0]]
    axis = int(_attribute(tape, node, "axis", 0)) % len(shape)
    found: list[str | None] = []
    start = 0
    for name in node.input:
        size = (tape.shapes.get(name) or tape.constants[name].shape)[axis]
        found.append(tape.part(gradient, [start], [start + size], [axis]) if _is_live(tape, name) else None)
        start += size
    return found


def _same_numbers(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    return [tape.reshape(gradient, tape.shapes[node.input[0]]), *[None] * (len(node.input) - 1)]


def _transpose(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    order = list(_attribute(tape, node, "perm", range(len(tape.shapes[node.input[0]]))[::-1]))
    return [tape.emit("Transpose", [gradient], perm=[int(place) for place in np.argsort(order)])]


def _slice(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    """Zeros around what was taken."""
    shape = tape.shapes[node.input[0]]
    given = [tape.constants.get(name) if name else None for name in node.input[1:]]
    if len(given) < 2 or any(array is None for array in given[:2]):
        return None
    starts, ends = (np.asarray(array).tolist() for array in given[:2])
    axes = given[2].tolist() if len(given) > 2 and given[2] is not None else list(range(len(starts)))
    steps = given[3].tolist() if len(given) > 3 and given[3] is not None else [1] * len(starts)
    if any(step != 1 for step in steps):
        return None
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        first, last, _ = slice(start, end).indices(shape[axis])
        before[axis], after[axis] = first, shape[axis] - max(first, last)
    padded = tape.emit("Pad", [gradient, tape.array([*before, *after], np.int64)])
    return [padded, *[None] * (len(node.input) - 1)]


def _pad(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    pads = tape.constants.get(node.input[1]) if len(node.input) > 1 else np.array(_attribute(tape, node, "pads", []))
    if pads is None or not pads.size or (pads < 0).any():
        return None
    shape = tape.shapes[node.input[0]]
    starts = pads.tolist()[: len(shape)]
    ends = [start + size for start, size in zip(starts, shape, strict=True)]
    return [tape.part(gradient, starts, ends, range(len(shape))), *[None] * (len(node.input) - 1)]


def _max_pool(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    before, after = tape.shapes[node.input[0]], tape.shapes[node.output[0]]
    dims = len(before) - 2
    strides = list(_attribute(tape, node, "strides", [1] * dims))
    spread = [(after[2 + n] - 1) * strides[n] + 1 for n in range(dims)]
    missing = [min(max(before[2 + n] - spread[n], 0), strides[n] - 1) for n in range(dims)]
    ones = tape.array(np.ones((before[1], 1, *[1] * dims)))
    made = tape.emit("ConvTranspose", [gradient, ones], group=before[1], strides=strides, output_padding=missing)
    sizes = [spread[n] + missing[n] for n in range(dims)]
    made = tape.part(made, [0] * dims, [min(sizes[n], before[2 + n]) for n in range(dims)], range(2, 2 + dims))
    short = [max(before[2 + n] - sizes[n], 0) for n in range(dims)]
    if any(short):
        made = tape.emit("Pad", [made, tape.array([0] * (2 + dims) + [0, 0, *short], np.int64)])
    return [made]


def _average_pool(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    before, after = tape.shapes[node.input[0]], tape.shapes[node.output[0]]
    dims = len(before) - 2
    kernel = list(_attribute(tape, node, "kernel_shape", []))
    strides = list(_attribute(tape, node, "strides", [1] * dims))
    pads = list(_attribute(tape, node, "pads", [0] * 2 * dims))
    missing = [before[2 + n] - ((after[2 + n] - 1) * strides[n] + kernel[n] - pads[n] - pads[n + dims])
               for n in range(dims)]  # fmt: skip
    if any(not 0 <= entry < max(2, strides[n]) for n, entry in enumerate(missing)):
        return None
    taps = tape.array(np.full((before[1], 1, *kernel), 1 / np.prod(kernel)))
    return [tape.emit("ConvTranspose", [gradient, taps], group=before[1], strides=strides, pads=pads,
                      output_padding=missing)]  # fmt: skip


def _mean(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    """GlobalAveragePool, ReduceMean, ReduceSum, ReduceMax: back to every number, or to the largest ones."""
    shape = tape.shapes[node.input[0]]
    if node.op_type == "GlobalAveragePool":
        axes = list(range(2, len(shape)))
    else:
        given = tape.constants.get(node.input[1]) if len(node.input) > 1 else None
        listed = given.tolist() if given is not None else _attribute(tape, node, "axes", range(len(shape)))
        axes = [int(axis) % len(shape) for axis in listed]
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    made = tape.expand(tape.reshape(gradient, kept), shape)
    rest: list[str | None] = [None] * (len(node.input) - 1)
    if node.op_type == "ReduceMax":
        largest = tape.reshape(tape.value(node.output[0]), kept)
        same = tape.emit("Equal", [tape.value(node.input[0]), largest])
        return [tape.emit("Mul", [made, tape.emit("Cast", [same], to=1)]), *rest]
    if node.op_type != "ReduceSum":
        made = tape.emit("Div", [made, tape.array(np.prod([shape[axis] for axis in axes]))])
    return [made, *rest]


def _resize(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    """Larger by whole factors: each number gets the sum of its copies; positions between two count for the nearer."""
    before, after = tape.shapes[node.input[0]], tape.shapes[node.output[0]]
    if len(before) != 4 or before[:2] != after[:2] or after[2] % before[2] or after[3] % before[3]:
        return None
    factors = [after[2] // before[2], after[3] // before[3]]
    made = tape.emit("AveragePool", [gradient], kernel_shape=factors, strides=factors)
    return [tape.emit("Mul", [made, tape.array(np.prod(factors))]), *[None] * (len(node.input) - 1)]


def _softmax(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    shape, made = tape.shapes[node.output[0]], tape.value(node.output[0])
    axis = int(_attribute(tape, node, "axis", -1)) % len(shape)
    weighted = tape.emit("Mul", [gradient, made])
    total = tape.emit("ReduceSum", [weighted, tape.array([axis], np.int64)], keepdims=1)
    return [tape.emit("Mul", [made, tape.emit("Sub", [gradient, total])])]


def _batch_norm(tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    numbers = [tape.constants.get(name) for name in node.input[1:5]]
    scale, variance = numbers[0], numbers[3]
    if scale is None or variance is None:
        return None
    factor = scale / np.sqrt(variance + _attribute(tape, node, "epsilon", 1e-5))
    shape = (-1, *[1] * (len(tape.shapes[node.input[0]]) - 2))
    return [tape.emit("Mul", [gradient, tape.array(factor.reshape(shape))]), *[None] * 4]


def _expand(tape: Tape, node: Any, gradient: str) -> list[str | None]:
    return [tape.fitted(gradient, tape.shapes[node.output[0]], tape.shapes[node.input[0]]), None]


_ADJOINTS: Mapping[str, Rule] = MappingProxyType({
    "average_pool": _average_pool, "batch_norm": _batch_norm, "concat": _concat, "conv": _conv,
    "conv_transpose": _conv_transpose, "difference": _unary, "elementwise": _elementwise, "exp": _exp,
    "expand": _expand, "gemm": _gemm, "log": _log, "matmul": _matmul, "max_pool": _max_pool, "mean": _mean, "pad": _pad,
    "pow": _pow, "reciprocal": _reciprocal, "resize": _resize, "sigmoid": _sigmoid, "slice": _slice,
    "softmax": _softmax, "sqrt": _sqrt, "transpose": _transpose, "view": _same_numbers,
})  # fmt: skip
RULES: Mapping[str, Rule] = MappingProxyType(
    {name: _ADJOINTS[row.adjoint] for name, row in OPERATORS.items() if row.adjoint}
)
