"""What random graphs are made of, one function for each family of operators: how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from tools.compiler_gate.draw import Drawing

__all__ = ["COMPUTING"]

_UNARY = (
    "Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "HardSigmoid", "Elu", "Gelu", "Mish", "Softplus",
    "Erf", "Abs", "Neg", "Selu", "Celu", "Softsign", "ThresholdedRelu", "Sin", "Cos", "Sign", "Floor", "Ceil", "Round",
    "Identity", "Exp", "Shrink", "Dropout",
)  # fmt: skip
_BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Add", "Mul", "Div")
_REDUCE = ("ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
           "ReduceProd", "ReduceLogSumExp")  # fmt: skip


def _some(drawing: Drawing, *ranks: int) -> str:
    name = drawing.value(*ranks)
    if name is None:
        raise ValueError("no value of that rank")
    return name


def _unary(drawing: Drawing) -> None:
    drawing.add(drawing.pick(_UNARY), _some(drawing))


def _positive(drawing: Drawing) -> None:
    """Functions of positive numbers, and powers."""
    moved = drawing.add("Add", drawing.add("Abs", _some(drawing)), drawing.constant(0.5))
    kind = drawing.pick(("Sqrt", "Log", "Reciprocal", "Pow"))
    more = [drawing.constant(drawing.pick((2.0, 0.5, 3.0, -1.0)))] if kind == "Pow" else []
    drawing.add(kind, moved, *more)


def _clip(drawing: Drawing) -> None:
    low, high = sorted(float(value) for value in drawing.random.normal(0, 1, 2))
    bounds = drawing.pick(((low, high), (0.0, 6.0), (low, None), (None, high)))
    drawing.add("Clip", _some(drawing), *("" if bound is None else drawing.constant(bound) for bound in bounds))


def _prelu(drawing: Drawing) -> None:
    name = _some(drawing, 2, 3, 4)
    shape = drawing.shapes[name]
    slope = drawing.pick(((1,), (shape[1], *[1] * (len(shape) - 2))))
    drawing.add("PRelu", name, drawing.constant(drawing.random.uniform(0, 0.5, slope)))


def _with_constant(drawing: Drawing) -> None:
    """A constant of any shape that broadcasts, on either side."""
    name = _some(drawing)
    shape = drawing.shapes[name]
    kept = [size if drawing.chance(0.5) else 1 for size in shape]
    full: list[int] = drawing.pick(([], [1], kept, kept[1:], list(shape), [1, *shape[1:2], *[1] * (len(shape) - 2)]))
    operand = drawing.constant(drawing.random.uniform(0.5, 2, full))
    operands = (operand, name) if drawing.chance(0.3) else (name, operand)
    kind = drawing.pick(_BINARY)
    if kind == "Div" and operands[0] == operand:
        kind = "Sub"
    drawing.add(kind, *operands)


def _binary(drawing: Drawing) -> None:
    """Two activations that broadcast."""
    left = _some(drawing)
    shape = drawing.shapes[left]
    fitting = [
        name for name, other in drawing.shapes.items() if _broadcasts(shape, other) and name not in drawing.flags
    ]
    right = drawing.pick(fitting)
    kind = drawing.pick(_BINARY)
    if kind == "Div":
        right = drawing.add("Add", drawing.add("Abs", right), drawing.constant(1.0))
    if kind in {"Max", "Min"} and drawing.chance(0.3):
        drawing.add(drawing.pick(("Max", "Min", "Sum", "Mean")), left, right, drawing.pick(fitting))
    else:
        drawing.add(kind, left, right)


def _broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    pairs = zip(reversed(left), reversed(right), strict=False)
    return all(a == b or 1 in {a, b} for a, b in pairs)


def _conv(drawing: Drawing) -> None:
    name = _some(drawing, 3, 4, 4, 5)
    shape = drawing.shapes[name]
    sides = len(shape) - 2
    group = drawing.pick([1, 1, *(g for g in (2, 3, 4, shape[1]) if shape[1] % g == 0)])
    outputs = group * int(drawing.pick((1, 2, 3, 5, 8)))
    kernel = [int(drawing.pick((1, 1, 2, 3, 3, 5))) for _ in range(sides)]
    given = {
        "kernel_shape": kernel, "group": group,
        "strides": [int(drawing.pick((1, 1, 2, 3))) for _ in range(sides)],
        "dilations": [int(drawing.pick((1, 1, 1, 2))) for _ in range(sides)],
    }  # fmt: skip
    if drawing.chance(0.2):
        given["auto_pad"] = drawing.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
        given["dilations"] = [1] * sides
    else:
        given["pads"] = [int(drawing.pick((0, 0, 1, 1, 2))) for _ in range(2 * sides)]
    bias = [drawing.normal(outputs)] if drawing.chance(0.7) else []
    drawing.add("Conv", name, drawing.weights(outputs, shape[1] // group, *kernel), *bias, **given)


def _conv_transpose(drawing: Drawing) -> None:
    name = _some(drawing, 3, 4, 4)
    shape = drawing.shapes[name]
    sides = len(shape) - 2
    group = drawing.pick([1, 1, 1, *(g for g in (2, shape[1]) if shape[1] % g == 0)])
    outputs = int(drawing.pick((1, 2, 5, 8)))
    kernel = [int(drawing.pick((1, 2, 3, 4))) for _ in range(sides)]
    strides = [int(drawing.pick((1, 2, 2, 3))) for _ in range(sides)]
    pads = [int(drawing.pick((0, 0, 1))) for _ in range(2 * sides)]
    extra = [int(drawing.pick((0, 0, step - 1))) for step in strides]
    given = {"strides": strides, "pads": pads, "output_padding": extra, "group": group, "kernel_shape": kernel}
    bias = [drawing.normal(outputs * group)] if drawing.chance(0.5) else []
    drawing.add("ConvTranspose", name, drawing.weights(shape[1], outputs, *kernel), *bias, **given)


def _pool(drawing: Drawing) -> None:
    name = _some(drawing, 3, 4, 4)
    sides = len(drawing.shapes[name]) - 2
    if drawing.chance(0.25):
        drawing.add(drawing.pick(("GlobalAveragePool", "GlobalMaxPool")), name)
        return
    kernel = [int(drawing.pick((1, 2, 2, 3, 3, 5))) for _ in range(sides)]
    pads = [int(drawing.random.integers(0, (size + 1) // 2)) for size in kernel]
    strides = [int(drawing.pick((1, 2, 2, 3))) for _ in kernel]
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2}
    given["ceil_mode"] = int(drawing.chance(0.2))
    if drawing.chance(0.5):
        drawing.add("MaxPool", name, **given)
    else:
        drawing.add("AveragePool", name, count_include_pad=int(drawing.chance(0.5)), **given)


def _matmul(drawing: Drawing) -> None:
    name = _some(drawing, 2, 3, 4)
    shape = drawing.shapes[name]
    if drawing.chance(0.6):
        depth = int(drawing.pick((1, 3, 8, 16)))
        if drawing.chance(0.2):
            drawing.add("MatMul", drawing.weights(depth, shape[-2]), name)
        else:
            scale = shape[-1] ** -0.5
            drawing.add("MatMul", name, drawing.normal(shape[-1], depth, scale=scale))
        return
    fitting = [other for other, sizes in drawing.shapes.items() if len(sizes) > 1 and sizes[-2] == shape[-1]
               and _broadcasts(shape[:-2], sizes[:-2])]  # fmt: skip
    if not fitting or drawing.chance(0.5):
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        fitting = [drawing.add("Transpose", name, perm=order)]
    drawing.add("MatMul", drawing.add("Mul", name, drawing.constant(shape[-1] ** -0.5)), drawing.pick(fitting))


def _gemm(drawing: Drawing) -> None:
    name = _some(drawing, 2)
    shape, outputs = drawing.shapes[name], int(drawing.pick((1, 3, 8, 10)))
    turned = int(drawing.chance(0.5))
    weights = drawing.normal(*((outputs, shape[1]) if turned else (shape[1], outputs)), scale=shape[1] ** -0.5)
    bias = drawing.pick(([], [drawing.normal(outputs)], [drawing.normal(1, outputs)], [drawing.normal(1)]))
    drawing.add(
        "Gemm", name, weights, *bias, transB=turned, alpha=drawing.pick((1.0, 0.5)), beta=drawing.pick((1.0, 2.0))
    )


def _norm(drawing: Drawing) -> None:
    kind = drawing.pick(("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
                         "LpNormalization"))  # fmt: skip
    name = _some(drawing, *((3, 4) if kind in {"InstanceNormalization", "GroupNormalization"} else (2, 3, 4)))
    shape = drawing.shapes[name]
    channels = shape[1]
    if kind == "LpNormalization":
        drawing.add(kind, name, axis=int(drawing.random.integers(len(shape))), p=int(drawing.pick((1, 2))))
    elif kind == "LayerNormalization":
        axis = int(drawing.random.integers(1, len(shape)))
        drawing.add(kind, name, drawing.normal(*shape[axis:]), drawing.normal(*shape[axis:]), axis=axis)
    elif kind == "GroupNormalization":
        groups = int(drawing.pick([g for g in (1, 2, 3, 4) if channels % g == 0]))
        drawing.add("InstanceNormalization" if groups == channels else kind, name,
                    *(drawing.normal(groups if groups != channels else channels) for _ in range(2)),
                    **({} if groups == channels else {"num_groups": groups}))  # fmt: skip
    elif kind == "InstanceNormalization":
        drawing.add(kind, name, drawing.normal(channels), drawing.normal(channels))
    else:
        spread = drawing.constant(drawing.random.uniform(0.5, 2, channels))
        drawing.add(kind, name, *(drawing.normal(channels) for _ in range(3)), spread)


def _softmax(drawing: Drawing) -> None:
    name = _some(drawing)
    rank = len(drawing.shapes[name])
    kind = drawing.pick(("Softmax", "Softmax", "LogSoftmax"))
    drawing.add(kind, name, axis=int(drawing.random.integers(-rank, rank)))


def _reduce(drawing: Drawing) -> None:
    name = _some(drawing)
    rank = len(drawing.shapes[name])
    axes = sorted(drawing.random.choice(rank, int(drawing.random.integers(1, rank + 1)), replace=False).tolist())
    axes = axes if 0 not in axes or drawing.chance(0.1) else [axis for axis in axes if axis] or [rank - 1]
    drawing.add(drawing.pick(_REDUCE), name, drawing.constant(axes, np.int64), keepdims=int(drawing.chance(0.6)))


def _choose(drawing: Drawing) -> None:
    """Where and comparisons: with a mask that is computed, or stored."""
    name = _some(drawing)
    shape = drawing.shapes[name]
    if drawing.chance(0.5):
        flags = drawing.add(drawing.pick(("Greater", "Less", "GreaterOrEqual")), name, drawing.constant(0.1))
    else:
        kept = [size if drawing.chance(0.6) else 1 for size in shape]
        flags = drawing.constant(drawing.random.random(kept) < 0.5, np.bool_)
    other = drawing.pick((drawing.constant(0.0), drawing.constant(-1.0), name))
    if drawing.chance(0.2) and flags.startswith("t"):
        drawing.add("Cast", flags, to=TensorProto.FLOAT)
    else:
        drawing.add("Where", flags, *drawing.pick(((name, other), (other, name))))


COMPUTING: tuple[Callable[[Drawing], None], ...] = (
    _unary, _unary, _unary, _positive, _clip, _prelu, _with_constant, _with_constant, _binary, _binary, _conv, _conv,
    _conv, _conv_transpose, _pool, _pool, _matmul, _gemm, _norm, _softmax, _reduce, _choose,
)  # fmt: skip
