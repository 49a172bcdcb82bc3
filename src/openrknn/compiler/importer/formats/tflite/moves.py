"""Operators that move numbers and do not change them."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import TO_NCHW, Context, Rule, channel_axis
from openrknn.compiler.importer.formats.tflite.schema import Operator

_PICTURE = 4
_SYMMETRIC = 1


def _axis(context: Context, op: Operator, axis: int, rank: int) -> int:
    found = axis + rank if axis < 0 else axis
    if not 0 <= found < rank:
        raise context.unsupported(op, f"it says dimension {axis} of {rank}")
    return found


def _shaped(context: Context, op: Operator) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the shape of the result is in the file."""
    index = context.operand(op, 0)
    shape: list[int] = list(context.shape(op.outputs[0]))
    if op.kind == "RESHAPE":
        second = context.optional(op, 1)
        given = context.constant(second)
        if given is not None:
            shape = [int(entry) for entry in given.reshape(-1)]
        elif second >= 0:
            wanted = context.node("Cast", [context.value(second)], to=context.onnx.TensorProto.INT64)
            context.put(op, context.node("Reshape", [context.value(index), wanted]))
            return
        elif op.options.numbers(0):
            shape = op.options.numbers(0)
    context.put(op, context.reshape(context.value(index), shape))


def _transpose(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    order = context.numbers(op, 1)
    if sorted(order) != list(range(context.rank(index))):
        raise context.unsupported(op, f"its order is {order}, its input has {context.rank(index)} dimensions")
    if len(order) == _PICTURE and context.is_nchw(index):
        # From [N, C, H, W] in one step, instead of two.
        source = context.value(index, nchw=True)
        context.put(op, context.transpose(source, [channel_axis(axis) for axis in order]))
        return
    context.put(op, context.transpose(context.value(index), order))


def _concat(context: Context, op: Operator) -> None:
    rank, nchw = context.rank(op.outputs[0]), context.nchw_of(op)
    axis = _axis(context, op, op.options.number(0), rank)
    parts = [context.value(context.operand(op, number), nchw=nchw) for number in range(len(op.inputs))]
    made = context.node("Concat", parts, axis=channel_axis(axis) if nchw else axis)
    context.put(op, context.activated(made, op.options.small(1), op), nchw=nchw)


def _pad(context: Context, op: Operator) -> None:
    index, nchw = context.operand(op, 0), context.nchw_of(op)
    pairs = context.known(op, 1).reshape(-1, 2).astype(np.int64)
    if len(pairs) != context.rank(index):
        raise context.unsupported(op, f"it has {len(pairs)} pads for {context.rank(index)} dimensions")
    if nchw:
        pairs = pairs[list(TO_NCHW)]
    pads = context.new(pairs.T.reshape(-1), "pads")
    source = context.value(index, nchw=nchw)
    if op.kind == "MIRROR_PAD":
        if op.options.small(0) == _SYMMETRIC:
            context.put(op, _symmetric(context, op, source, pairs, nchw=nchw), nchw=nchw)
            return
        made = context.node("Pad", [source, pads], mode="reflect")
    elif op.kind == "PADV2":
        made = context.node("Pad", [source, pads, context.value(context.operand(op, 2))], mode="constant")
    else:
        made = context.node("Pad", [source, pads], mode="constant")
    context.put(op, made, nchw=nchw)


def _symmetric(context: Context, op: Operator, source: str, pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]],
               *, nchw: bool) -> str:  # fmt: skip
    """The border is repeated too: a Gather of each dimension."""
    shape = context.shape(op.inputs[0])
    for axis, (before, after) in enumerate(pairs):
        size = shape[TO_NCHW[axis]] if nchw else shape[axis]
        if max(before, after) > size:
            raise context.unsupported(op, f"it mirrors {max(before, after)} of {size}")
        if before or after:
            picked = np.concatenate([np.arange(before)[::-1], np.arange(size), np.arange(size)[::-1][:after]])
            source = context.node("Gather", [source, context.new(picked.astype(np.int64), "mirror")], axis=axis)
    return source


def _split(context: Context, op: Operator) -> None:
    wide = op.kind == "SPLIT_V"
    index = context.operand(op, 0 if wide else 1)
    axis_number = 2 if wide else 0
    rank, nchw = context.rank(index), context.rank(index) == _PICTURE and context.is_nchw(index)
    axis = _axis(context, op, context.numbers(op, axis_number)[0], rank)
    sizes = context.numbers(op, 1) if wide else []
    total = context.shape(index)[axis]
    if not wide:
        if not op.outputs or total % len(op.outputs):
            raise context.unsupported(op, f"it cuts {total} into {len(op.outputs)} parts")
        sizes = [total // len(op.outputs)] * len(op.outputs)
    sizes = [total - sum(size for size in sizes if size >= 0) if size < 0 else size for size in sizes]
    if len(sizes) != len(op.outputs) or sum(sizes) != total or min(sizes, default=0) < 0:
        raise context.unsupported(op, f"it cuts {total} into parts of {sizes}")
    lengths = context.new(np.array(sizes, np.int64), "sizes")
    source = context.value(index, nchw=nchw)
    made = context.many("Split", [source, lengths], len(sizes), axis=channel_axis(axis) if nchw else axis)
    for number, name in enumerate(made):
        context.put(op, name, nchw=nchw, number=number)


def _slice(context: Context, op: Operator) -> None:
    index, nchw = context.operand(op, 0), context.nchw_of(op)
    rank = context.rank(index)
    begin, size = context.constant(context.operand(op, 1)), context.constant(context.operand(op, 2))
    if begin is None or size is None:
        starts, sizes = (context.value(context.operand(op, number)) for number in (1, 2))
        ends = context.node("Add", [starts, sizes])
        if size is None or (size < 0).any():
            raise context.unsupported(op, "its size is computed, or runs to an end that is")
        context.put(op, context.node("Slice", [context.value(index), starts, ends]))
        return
    starts_, sizes_ = begin.reshape(-1).astype(np.int64), size.reshape(-1).astype(np.int64)
    if not len(starts_) == len(sizes_) == rank:
        raise context.unsupported(op, f"it has {len(starts_)} bounds for {rank} dimensions")
    ends_ = np.where(sizes_ < 0, np.array(context.shape(index), np.int64), starts_ + sizes_)
    axes = np.array([channel_axis(axis) for axis in range(rank)] if nchw else range(rank), np.int64)
    operands = [context.new(entry, "bounds") for entry in (starts_, ends_, axes)]
    context.put(op, context.node("Slice", [context.value(index, nchw=nchw), *operands]), nchw=nchw)


def _gather(context: Context, op: Operator) -> None:
    index, picked = context.operand(op, 0), context.operand(op, 1)
    rank, batch = context.rank(index), op.options.number(1)
    axis = _axis(context, op, op.options.number(0), rank)
    source, indices = context.value(index), context.value(picked)
    if not batch:
        context.put(op, context.node("Gather", [source, indices], axis=axis))
    elif batch == axis and context.rank(picked) == batch + 1:
        wanted = context.node("Cast", [indices], to=context.onnx.TensorProto.INT64)
        last = context.reshape(wanted, (*context.shape(picked), 1))
        context.put(op, context.node("GatherND", [source, last], batch_dims=batch))
    else:
        raise context.unsupported(op, f"it gathers along {axis} with {batch} batch dimensions")


def _gather_nd(context: Context, op: Operator) -> None:
    indices = context.node("Cast", [context.value(context.operand(op, 1))], to=context.onnx.TensorProto.INT64)
    context.put(op, context.node("GatherND", [context.value(context.operand(op, 0)), indices]))


def _pack(context: Context, op: Operator) -> None:
    axis = _axis(context, op, op.options.number(1), context.rank(op.outputs[0]))
    where = context.new(np.array([axis], np.int64), "axis")
    sources = [context.value(context.operand(op, number)) for number in range(len(op.inputs))]
    parts = [context.node("Unsqueeze", [source, where]) for source in sources]
    context.put(op, context.node("Concat", parts, axis=axis))


def _unpack(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    axis = _axis(context, op, op.options.number(1), context.rank(index))
    count = context.shape(index)[axis]
    if count != len(op.outputs):
        raise context.unsupported(op, f"it makes {len(op.outputs)} of {count}")
    where = context.new(np.array([axis], np.int64), "axis")
    lengths = context.new(np.ones(count, np.int64), "sizes")
    made = context.many("Split", [context.value(index), lengths], count, axis=axis)
    for number, name in enumerate(made):
        context.put(op, context.node("Squeeze", [name, where]), number=number)


def _tile(context: Context, op: Operator) -> None:
    times = context.new(np.array(context.numbers(op, 1), np.int64), "times")
    context.put(op, context.node("Tile", [context.value(context.operand(op, 0)), times]))


def _broadcast(context: Context, op: Operator) -> None:
    given = context.constant(context.operand(op, 1))
    shape = context.shape(op.outputs[0]) if given is None else given.reshape(-1)
    wanted = context.new(np.array(shape, np.int64), "shape")
    context.put(op, context.node("Expand", [context.value(context.operand(op, 0)), wanted]))


def _reverse(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    axes = [_axis(context, op, axis, context.rank(index)) for axis in context.numbers(op, 1)]
    far = np.iinfo(np.int64)
    bounds = [[-1] * len(axes), [far.min + 1] * len(axes), axes, [-1] * len(axes)]
    operands = [context.new(np.array(entry, np.int64), "bounds") for entry in bounds]
    context.put(op, context.node("Slice", [context.value(index), *operands]))


def _same(context: Context, op: Operator) -> None:
    """What changes nothing but the steps: QUANTIZE, DEQUANTIZE, FAKE_QUANT of a quantised tensor."""
    nchw = context.nchw_of(op)
    context.put(op, context.node("Identity", [context.value(context.operand(op, 0), nchw=nchw)]), nchw=nchw)


RULES: dict[str, Rule] = {
    "RESHAPE": _shaped,
    "SQUEEZE": _shaped,
    "EXPAND_DIMS": _shaped,
    "TRANSPOSE": _transpose,
    "CONCATENATION": _concat,
    "PAD": _pad,
    "PADV2": _pad,
    "MIRROR_PAD": _pad,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SLICE": _slice,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "PACK": _pack,
    "UNPACK": _unpack,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast,
    "REVERSE_V2": _reverse,
    "QUANTIZE": _same,
    "DEQUANTIZE": _same,
    "FAKE_QUANT": _same,
    "DENSIFY": _same,
}
