"""Products as MatMul with the constant behind: Einsum of two operands, and a constant times an activation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from openrknn.compiler.importer.rewrite.writer import Writer, attribute

__all__ = ["RULES"]


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


RULES: dict[str, Callable[[Writer, Any], None]] = {"Einsum": _einsum, "MatMul": _constant_first}
