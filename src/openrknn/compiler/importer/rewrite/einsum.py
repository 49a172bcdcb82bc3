"""Products as MatMul with the constant behind: Einsum of two operands, and a constant times an activation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.importer.rewrite.writer import Writer, attribute

_LARGEST = 4 << 20
"""Weights of a product for all heads, most of them zeros."""
_PADS_BY_INPUT = 11
"""The opset from which on Pad takes its sizes as an operand."""


def _einsum(writer: Writer, node: Any) -> None:
    """A MatMul between transpositions: letters in both operands are batches, or summed over."""
    equation = str(attribute(node, "equation", "")).replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    shapes = [writer.shape(name) for name in node.input]
    if not arrow or len(terms) != 2 or "." in equation or any(len(set(term)) != len(term) for term in (*terms, result)):
        return
    if any(shape is None or len(shape) != len(term) for shape, term in zip(shapes, terms, strict=True)):
        return
    first, second = terms
    sizes: dict[str, int] = {}
    for shape, term in zip(shapes, terms, strict=True):
        for letter, size in zip(term, shape or (), strict=True):
            if sizes.setdefault(letter, size) != size:
                return
    batch = [letter for letter in first if letter in second and letter in result]
    summed = [letter for letter in first if letter in second and letter not in result]
    rows = [letter for letter in first if letter not in second]
    columns = [letter for letter in second if letter not in first]
    if set(rows + columns) - set(result) or set(result) - set(sizes):
        return  # a letter that is summed in one operand alone
    a = writer.transpose(node.input[0], [first.index(letter) for letter in (*batch, *rows, *summed)])
    b = writer.transpose(node.input[1], [second.index(letter) for letter in (*batch, *summed, *columns)])
    counts = [prod(sizes[letter] for letter in group) for group in (batch, rows, summed, columns)]
    ahead = [] if not batch else [counts[0]]
    a = writer.reshape(a, [*ahead, counts[1], counts[2]])
    b = writer.reshape(b, [*ahead, counts[2], counts[3]])
    product = writer.add("MatMul", a, b)
    order = [*batch, *rows, *columns]
    full = writer.reshape(product, [sizes[letter] for letter in order])
    writer.transpose(full, [order.index(letter) for letter in result], to=node.output[0])


def _constant_first(writer: Writer, node: Any) -> None:
    """A x with a constant A: the transposed product x' A', because weights are what activations are multiplied by."""
    left, shape = writer.operand(node, 0), writer.shape(node.input[1])
    if left is None or shape is None or writer.constant(node.input[1]) is not None:
        return
    if left.ndim < 2 or len(shape) < max(2, left.ndim) or prod(left.shape[:-2]) != 1:
        return
    matrix = left.reshape(left.shape[-2:]).T
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    product = writer.add("MatMul", writer.transpose(node.input[1], order), writer.new(matrix))
    writer.transpose(product, order, to=node.output[0])


def _constant_second(writer: Writer, node: Any) -> bool:
    """[1, H, T, d] x a constant for each head (or one for all): heads beside each other are one projection.

    Relative positions are tables that exporters fill up with zeros to all distances: rows and columns of zeros are
    left out of the product.
    """
    shape, weight = writer.shape(node.input[0]), writer.operand(node, 1)
    if shape is None or weight is None or writer.constant(node.input[0]) is not None:
        return False
    if len(shape) != 4 or shape[0] != 1:
        return False
    heads, rows, depth = shape[1:]
    lead = weight.shape[:-2]
    if weight.ndim < 3 or prod(lead) not in {1, heads} or weight.shape[-2] != depth or len(lead) > 2:
        return False
    each = np.broadcast_to(weight.reshape(-1, *weight.shape[-2:]), (heads, *weight.shape[-2:]))
    used = [np.flatnonzero(np.any(each, axis=axes)) for axes in ((0, 2), (0, 1))]
    if not used[0].size or heads * heads * each[0].size > _LARGEST:
        return False
    (top, bottom), (left, right) = ((int(entry[0]), int(entry[-1]) + 1) for entry in used)
    name = node.input[0] if (top, bottom) == (0, depth) else writer.cut(node.input[0], 3, top, bottom)
    each, columns = each[:, top:bottom, left:right], weight.shape[-1]
    blocks = filled((heads * (bottom - top), heads * (right - left)), "Einsum", 0, np.float32)
    high, wide = bottom - top, right - left
    for head in range(heads):
        blocks[head * high : (head + 1) * high, head * wide : (head + 1) * wide] = each[head]
    flat = writer.reshape(writer.transpose(name, [0, 2, 1, 3]), (1, rows, heads * (bottom - top)))
    apart = writer.reshape(writer.add("MatMul", flat, writer.new(blocks)), (1, rows, heads, right - left))
    if (left, right) == (0, columns):
        writer.transpose(apart, [0, 2, 1, 3], to=node.output[0])
    else:
        narrow = writer.transpose(apart, [0, 2, 1, 3])
        pads = writer.new([0, 0, 0, left, 0, 0, 0, columns - right], np.int64)
        writer.add("Pad", narrow, pads, to=node.output[0])
    return True


def _product(writer: Writer, node: Any) -> None:
    """Products with one constant."""
    if writer.facts.opset < _PADS_BY_INPUT or not _constant_second(writer, node):
        _constant_first(writer, node)


RULES: dict[str, Callable[[Writer, Any], None]] = {"Einsum": _einsum, "MatMul": _product}
