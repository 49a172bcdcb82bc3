"""Sums, means, choices, and numbers that come from shapes."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule, channel_axis
from openrknn.compiler.importer.formats.tflite.schema import Operator

_REDUCE = {
    "MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd", "REDUCE_ANY": "ReduceMax", "REDUCE_ALL": "ReduceMin",
}  # fmt: skip
_L2_FLOOR = 1e-6
_PICTURE = 4


def _dtype(context: Context, index: int) -> int:
    return int(context.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(context.tensor(index).dtype)))


def _reduce(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    rank, keeps = context.rank(index), bool(op.options.small(0))
    axes = sorted({axis + rank if axis < 0 else axis for axis in context.numbers(op, 1)})
    if any(not 0 <= axis < rank for axis in axes):
        raise context.unsupported(op, f"it reduces {axes} of {rank} dimensions")
    in_order = keeps or 3 in axes or {1, 2}.issubset(axes)  # what is left has the same order either way
    nchw = rank == _PICTURE and context.is_nchw(index) and in_order
    source = context.value(index, nchw=nchw)
    is_truth = op.kind in {"REDUCE_ANY", "REDUCE_ALL"}
    if is_truth:
        source = context.node("Cast", [source], to=context.onnx.TensorProto.INT32)
    where = sorted(channel_axis(axis) for axis in axes) if nchw else axes
    if not axes:
        made = context.node("Identity", [source])
    elif op.kind == "SUM":  # the only one whose axes are an operand in this version of ONNX
        made = context.node("ReduceSum", [source, context.new(np.array(where, np.int64), "axes")], keepdims=int(keeps))
    else:
        made = context.node(_REDUCE[op.kind], [source], axes=where, keepdims=int(keeps))
    if is_truth:
        made = context.node("Cast", [made], to=context.onnx.TensorProto.BOOL)
    context.put(op, made, nchw=nchw and keeps)


def _arg(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    rank = context.rank(index)
    axis = context.numbers(op, 1)[0]
    kind = "ArgMax" if op.kind == "ARG_MAX" else "ArgMin"
    found = context.node(kind, [context.value(index)], axis=axis + rank if axis < 0 else axis, keepdims=0)
    context.put(op, context.node("Cast", [found], to=_dtype(context, op.outputs[0])))


def _top(context: Context, op: Operator) -> None:
    count = context.new(np.array(context.numbers(op, 1)[:1], np.int64), "count")
    values, indices = context.many("TopK", [context.value(context.operand(op, 0)), count], 2, axis=-1)
    context.put(op, values)
    context.put(op, context.node("Cast", [indices], to=_dtype(context, op.outputs[1])), number=1)


def _l2(context: Context, op: Operator) -> None:
    index, nchw = context.operand(op, 0), context.nchw_of(op)
    source = context.value(index, nchw=nchw)
    squares = context.node("ReduceSumSquare", [source], axes=[1 if nchw else context.rank(index) - 1], keepdims=1)
    floor = context.node("Max", [squares, context.new(np.float32(_L2_FLOOR**2), "floor")])
    inverse = context.node("Pow", [floor, context.new(np.float32(-0.5), "power")])
    context.put(op, context.activated(context.node("Mul", [source, inverse]), op.options.small(0), op), nchw=nchw)


def _cast(context: Context, op: Operator) -> None:
    index, nchw = context.operand(op, 0), context.nchw_of(op)
    target = context.tensor(op.outputs[0])
    source = context.value(index, nchw=nchw)
    if target.is_quantised:
        context.put(op, context.node("Identity", [source]), nchw=nchw)
        return
    wide = np.dtype(target.dtype)
    kind = np.dtype(np.float32) if wide.kind == "f" else wide
    code = int(context.onnx.helper.np_dtype_to_tensor_dtype(kind))
    context.put(op, context.node("Cast", [source], to=code), nchw=nchw)


def _shape(context: Context, op: Operator) -> None:
    shape = context.node("Shape", [context.value(context.operand(op, 0))])
    context.put(op, context.node("Cast", [shape], to=_dtype(context, op.outputs[0])))


def _rank(context: Context, op: Operator) -> None:
    number = np.array(context.rank(context.operand(op, 0)), np.int32)
    context.put(op, context.node("Identity", [context.new(number, "rank")]))


def _fill(context: Context, op: Operator) -> None:
    shape = context.node("Cast", [context.value(context.operand(op, 0))], to=context.onnx.TensorProto.INT64)
    context.put(op, context.node("Expand", [context.value(context.operand(op, 1)), shape]))


def _zeros(context: Context, op: Operator) -> None:
    tensor = context.tensor(op.outputs[0])
    dtype = np.float32 if tensor.is_quantised or np.dtype(tensor.dtype).kind == "f" else tensor.dtype
    shape = context.node("Shape", [context.value(context.operand(op, 0))])
    context.put(op, context.node("Expand", [context.new(np.zeros((), dtype), "zero"), shape]))


def _range(context: Context, op: Operator) -> None:
    context.put(op, context.node("Range", [context.value(context.operand(op, number)) for number in range(3)]))


def _one_hot(context: Context, op: Operator) -> None:
    on, off = (context.reshape(context.value(context.operand(op, number)), (1,)) for number in (2, 3))
    depth = context.new(np.array(context.numbers(op, 1)[:1], np.int64), "depth")
    values = context.node("Concat", [off, on], axis=0)
    context.put(op, context.node("OneHot", [context.value(context.operand(op, 0)), depth, values],
                                 axis=op.options.number(0)))  # fmt: skip


def _cumsum(context: Context, op: Operator) -> None:
    axis = context.new(np.array(context.numbers(op, 1)[0], np.int64), "axis")
    exclusive, reverse = op.options.small(0), op.options.small(1)
    source = context.value(context.operand(op, 0))
    context.put(op, context.node("CumSum", [source, axis], exclusive=exclusive, reverse=reverse))


RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCE, _reduce),
    "ARG_MAX": _arg,
    "ARG_MIN": _arg,
    "TOPK_V2": _top,
    "L2_NORMALIZATION": _l2,
    "CAST": _cast,
    "SHAPE": _shape,
    "RANK": _rank,
    "FILL": _fill,
    "ZEROS_LIKE": _zeros,
    "RANGE": _range,
    "ONE_HOT": _one_hot,
    "CUMSUM": _cumsum,
}
