"""Products of matrices, embeddings, and what remembers: LSTM, SVDF."""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Array, Operator

_INPUT, _STATE, _PEEPHOLE, _BIAS, _PROJECTION, _FIRST_NORM = 1, 5, 9, 12, 16, 20
_FAR = 8.0
"""Keras's models say that cells are clipped to 10: beyond this the tanh of a cell is 1 in fp16 and in int8."""
_GATES = (0, 3, 1, 2)
"""TFLite has input, forget, cell, output; ONNX input, output, forget, cell."""


def _fully_connected(context: Context, op: Operator) -> None:
    options = op.options
    index, filters = context.operand(op, 0), context.operand(op, 1)
    shape, size = context.shape(filters), context.shape(index)
    if len(shape) != 2 or not shape[1] or math.prod(size) % shape[1] or options.small(1):
        raise context.unsupported(op, f"its weights have the shape {list(shape)} and format {options.small(1)}, "
                                      f"its input {list(size)}")  # fmt: skip
    source = context.value(index)
    rows = math.prod(size) // shape[1]
    if size != (rows, shape[1]):
        source = context.reshape(source, (rows, shape[1]))
    weights = context.weights(filters, (0, 1), shape, 0)
    bias = context.bias(context.optional(op, 2), shape[0])
    made = context.activated(context.node("Gemm", [source, weights, *bias], transB=1), options.small(0), op)
    wanted = (*size[:-1], shape[0]) if options.small(2) else context.shape(op.outputs[0])
    if math.prod(wanted) == rows * shape[0] and len(wanted) != 2:
        made = context.reshape(made, wanted)
    context.put(op, made)


def _batch_matmul(context: Context, op: Operator) -> None:
    names = []
    for number, slot in ((0, 0), (1, 1)):
        index = context.operand(op, number)
        rank = context.rank(index)
        if op.options.small(slot):
            names.append(context.transpose(context.value(index), (*range(rank - 2), rank - 1, rank - 2)))
        elif number == 1 and context.constant(index) is not None and rank == 2:
            names.append(context.weights(index, (0, 1), context.shape(index), 1))
        else:
            names.append(context.value(index))
    context.put(op, context.node("MatMul", names))


def _embedding(context: Context, op: Operator) -> None:
    table, picked = context.value(context.operand(op, 1)), context.value(context.operand(op, 0))
    context.put(op, context.node("Gather", [table, picked], axis=0))


def _matrix(context: Context, op: Operator, number: int) -> Array:
    index = context.operand(op, number)
    found = context.real(index)
    if found is None:
        raise context.unsupported(op, f"operand {number} is computed; it has to be a constant")
    return found


def _lstm(context: Context, op: Operator) -> None:
    """Zeros are remembered at the start of every run: what TFLite keeps between runs, it keeps by accident."""
    options = op.options
    if any(context.optional(op, number) >= 0 for number in (_PROJECTION, *range(_FIRST_NORM, _FIRST_NORM + 4))):
        raise context.unsupported(op, "it has a projection or layer normalisation")
    if context.optional(op, _INPUT) < 0:
        raise context.unsupported(op, "its input gate is coupled to the forget gate")
    if options.small(0) != 4:
        raise context.unsupported(op, "its activation is not TANH")
    index = context.operand(op, 0)
    weights = np.concatenate([_matrix(context, op, _INPUT + gate) for gate in _GATES])[None]
    state = np.concatenate([_matrix(context, op, _STATE + gate) for gate in _GATES])[None]
    hidden = state.shape[-1]
    bias = np.concatenate([
        *(_matrix(context, op, _BIAS + gate).reshape(-1) for gate in _GATES), np.zeros(4 * hidden, np.float32)
    ])[None]  # fmt: skip
    is_time_major = bool(options.small(3))
    source = context.value(index)
    if not is_time_major:
        source = context.transpose(source, (1, 0, 2))
    operands = [source, *(context.new(entry.astype(np.float32), "lstm") for entry in (weights, state, bias))]
    if context.optional(op, _PEEPHOLE) >= 0 or context.optional(op, _PEEPHOLE + 1) >= 0:
        parts = np.concatenate([_matrix(context, op, _PEEPHOLE + gate).reshape(-1) for gate in (0, 2, 1)])[None]
        operands += ["", "", "", context.new(parts.astype(np.float32), "peephole")]
    if 0 < options.real(1) < _FAR:
        raise context.unsupported(op, f"its cell is clipped to {options.real(1)}")
    made = context.node("LSTM", operands, hidden_size=hidden)
    flat = context.node("Squeeze", [made, context.new(np.array([1], np.int64), "axes")])
    context.put(op, flat if is_time_major else context.transpose(flat, (1, 0, 2)))


def _svdf(context: Context, op: Operator) -> None:
    """A filter over the input, and one over what the first one gave in the last runs; `rank` of these make a unit."""
    source, features, times, state = (context.operand(op, number) for number in (0, 1, 2, 4))
    rank = op.options.number(0)
    batch, memory = context.shape(source)[0] if context.rank(source) else 0, context.shape(times)[-1:]
    filters = context.shape(features)[:1]
    units = filters[0] // rank if filters and rank > 0 else 0
    is_whole = context.rank(source) == context.rank(features) == context.rank(times) == 2 and len(memory) == 1
    is_whole = is_whole and context.shape(source)[1:] == context.shape(features)[1:]
    is_whole = is_whole and context.shape(times)[:1] == filters == (units * rank,) and min(units, *memory, batch) > 0
    if not is_whole or math.prod(context.shape(state)) != batch * units * rank * memory[0]:
        shapes = ", ".join(str(list(context.shape(index))) for index in (features, times, state))
        raise context.unsupported(op, f"its filters and its state, {shapes}, do not fit to its rank of {rank}")
    weights = context.weights(features, (0, 1), context.shape(features), 0)
    newest = context.reshape(context.node("Gemm", [context.value(source), weights], transB=1), (batch, *filters, 1))
    bounds = [context.new(np.array([number], np.int64), "bound") for number in (1, memory[0], 2)]
    before = context.node("Slice", [context.reshape(context.value(state), (batch, *filters, *memory)), *bounds])
    made = context.node("Concat", [before, newest], axis=2)
    context.put(op, context.reshape(made, context.shape(op.outputs[1])), number=1)
    each = _matrix(context, op, 2).astype(np.float32).reshape(units, rank * memory[0], 1, 1)
    wide = context.reshape(made, (batch, filters[0] * memory[0], 1, 1))
    bias = context.real(context.optional(op, 3)) if context.optional(op, 3) >= 0 else None
    operands = [wide, context.new(each, "times")]
    if bias is not None:
        operands.append(context.new(bias.reshape(-1).astype(np.float32), "bias"))
    summed = context.reshape(context.node("Conv", operands, group=units, kernel_shape=[1, 1]), (batch, units))
    context.put(op, context.activated(summed, op.options.small(1), op))


RULES: dict[str, Rule] = {
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "EMBEDDING_LOOKUP": _embedding,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
