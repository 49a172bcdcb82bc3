"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: around a convolution they are how older converters write dilation."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Operator, Subgraph
from openrknn.compiler.importer.formats.tflite.windows import convolve

_CONVOLUTIONS = {"CONV_2D", "DEPTHWISE_CONV_2D"}
_VALID = 1


def dilated_runs(graph: Subgraph) -> dict[int, tuple[int, int]]:
    """Number of a SPACE_TO_BATCH_ND -> those of the convolution and the BATCH_TO_SPACE_ND that undo it."""
    readers: dict[int, list[int]] = {}
    for number, op in enumerate(graph.operators):
        for index in op.inputs:
            readers.setdefault(index, []).append(number)
    found = {}
    for number, op in enumerate(graph.operators):
        if op.kind != "SPACE_TO_BATCH_ND" or not op.outputs:
            continue
        chain = [number]
        while len(chain) < 3:
            made = graph.operators[chain[-1]].outputs
            after = readers.get(made[0], []) if len(made) == 1 and made[0] not in graph.outputs else []
            if len(after) != 1 or after[0] <= chain[-1]:
                break
            chain.append(after[0])
        if len(chain) == 3 and _fits(graph, *(graph.operators[entry] for entry in chain)):
            found[number] = chain[1], chain[2]
    return found


def _fits(graph: Subgraph, first: Operator, middle: Operator, last: Operator) -> bool:
    if middle.kind not in _CONVOLUTIONS or last.kind != "BATCH_TO_SPACE_ND" or middle.inputs[:1] != first.outputs:
        return False
    numbers = [graph.tensors[index].data for op in (first, last) for index in op.inputs[1:3] if index >= 0]
    if len(numbers) != 4 or any(entry is None for entry in numbers) or len(last.inputs) < 3:
        return False
    blocks, pads, other, crops = (np.asarray(entry) for entry in numbers)
    options = middle.options
    is_plain = options.small(0) == _VALID and options.number(1) == options.number(2) == 1
    first_dilation = 5 if middle.kind == "DEPTHWISE_CONV_2D" else 4
    is_plain = is_plain and options.number(first_dilation, 1) == options.number(first_dilation + 1, 1) == 1
    sizes = blocks.shape == other.shape == (2,) and pads.shape == crops.shape == (2, 2)
    return is_plain and sizes and bool((blocks == other).all() and (blocks > 0).all() and (pads >= crops).all())


def write_dilated(context: Context, first: Operator, middle: Operator, last: Operator) -> None:
    """One convolution with dilation; what the crops take off is not padded in the first place."""
    blocks, pads = context.known(first, 1), context.known(first, 2) - context.known(last, 2)
    source = context.value(context.operand(first, 0), nchw=True)
    context.begin(last)
    made = convolve(context, middle, source, [int(entry) for entry in pads.T.reshape(-1)], (1, 1),
                    [int(entry) for entry in blocks])  # fmt: skip
    code = middle.options.small(4 if middle.kind == "DEPTHWISE_CONV_2D" else 3)
    context.put(last, context.activated(made, code, middle), nchw=True)


def _space_to_batch(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    blocks, pads = context.numbers(op, 1), context.known(op, 2).reshape(-1, 2).astype(np.int64)
    shape = context.shape(index)
    count = len(blocks)
    if len(pads) != count or count >= len(shape) or min(blocks, default=0) < 1 or (pads < 0).any():
        raise context.unsupported(op, f"its blocks are {blocks}")
    rest = shape[1 + count :]
    whole = np.zeros((len(shape), 2), np.int64)
    whole[1 : 1 + count] = pads
    source = context.node("Pad", [context.value(index), context.new(whole.T.reshape(-1), "pads")], mode="constant")
    sizes = [size + int(pair.sum()) for size, pair in zip(shape[1:], pads, strict=False)]
    if any(size % block for size, block in zip(sizes, blocks, strict=True)):
        raise context.unsupported(op, f"{sizes} are no multiples of {blocks}")
    inner = [entry for size, block in zip(sizes, blocks, strict=True) for entry in (size // block, block)]
    cut = context.reshape(source, (shape[0], *inner, *rest))
    order = [*(2 + 2 * axis for axis in range(count)), 0, *(1 + 2 * axis for axis in range(count)),
             *range(1 + 2 * count, 1 + 2 * count + len(rest))]  # fmt: skip
    turned = context.transpose(cut, order)
    smaller = [size // block for size, block in zip(sizes, blocks, strict=True)]
    result = (shape[0] * int(np.prod(blocks)), *smaller, *rest)
    context.put(op, context.reshape(turned, result))


def _batch_to_space(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    blocks, crops = context.numbers(op, 1), context.known(op, 2).reshape(-1, 2).astype(np.int64)
    shape = context.shape(index)
    count, total = len(blocks), int(np.prod(blocks))
    if len(crops) != count or count >= len(shape) or min(blocks, default=0) < 1 or shape[0] % total:
        raise context.unsupported(op, f"its blocks are {blocks}, its input {list(shape)}")
    rest = shape[1 + count :]
    cut = context.reshape(context.value(index), (*blocks, shape[0] // total, *shape[1:]))
    order = [count, *(entry for axis in range(count) for entry in (count + 1 + axis, axis)),
             *range(2 * count + 1, 2 * count + 1 + len(rest))]  # fmt: skip
    sizes = [size * block for size, block in zip(shape[1:], blocks, strict=False)]
    merged = context.reshape(context.transpose(cut, order), (shape[0] // total, *sizes, *rest))
    bounds = (crops[:, 0], np.array(sizes) - crops[:, 1], np.arange(1, 1 + count))
    operands = [context.new(np.asarray(entry, np.int64), "bounds") for entry in bounds]
    context.put(op, context.node("Slice", [merged, *operands]))


RULES: dict[str, Rule] = {"SPACE_TO_BATCH_ND": _space_to_batch, "BATCH_TO_SPACE_ND": _batch_to_space}
