"""Products of matrices, with the leading dimensions broadcast: MatMul, Gemm, Einsum and the compiler's own."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Inputs,
    Shape,
    bounded,
    fitting,
    integer,
    number,
    optional,
    text,
)

_MOST_LETTERS = 16
_MOST_STEPS = 2**34
"""Multiplications of one Einsum: about a minute."""


def matmul(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """In single precision, product after product, as the vendor's runtime 1.5.2 does it: near a tie the order tells."""
    left, right = (np.asarray(values, np.float32) for values in inputs[:2])
    if left.ndim < 2 or right.ndim < 2:
        return np.asarray(np.matmul(left, right))
    if left.shape[-1] != right.shape[-2]:
        raise UnsupportedError(f"{list(left.shape)} times {list(right.shape)}")
    columns = np.ascontiguousarray(np.moveaxis(left, -1, 0))[..., None]
    leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    made = fitting((*leading, left.shape[-2], right.shape[-1]), shape)
    total = np.zeros(made, np.float32)
    product = np.empty_like(total)
    for step in range(left.shape[-1]):
        total += np.multiply(columns[step], right[..., step : step + 1, :], out=product)
    return total


def ex_matmul(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The compiler's form: [N, K, 1, M] times [N, K, 1, L] is [N, M, 1, L], summed over the channels K."""
    left, right = inputs[:2]
    if left.ndim != 4 or right.ndim != 4 or left.shape[2] != 1 or right.shape[2] != 1:
        raise UnsupportedError(f"{list(left.shape)} and {list(right.shape)} are not two stacks of columns")
    product = matmul([left[:, :, 0].swapaxes(1, 2), right[:, :, 0]], {}, shape)
    return product[:, :, None]


def gemm(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """alpha A B + beta C, A and B turned if asked for."""
    a, b = (np.asarray(array, np.float64) for array in inputs[:2])
    a = a.T if integer(attributes, "transA", 0) else a
    b = b.T if integer(attributes, "transB", 0) else b
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise UnsupportedError(f"{list(a.shape)} times {list(b.shape)}")
    made = fitting((a.shape[0], b.shape[1]), shape)
    result = number(attributes, "alpha", 1.0) * (a @ b)
    added = optional(inputs, 2)
    if added is None:
        return result
    fitting(np.broadcast_shapes(made, added.shape), made)
    return np.asarray(result + number(attributes, "beta", 1.0) * added)


def einsum(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Sums of products as its equation says."""
    equation = text(attributes, "equation", "").replace(" ", "")
    sizes = _letters(equation, inputs)
    steps = 1
    for size in sizes.values():
        steps *= max(1, size)
    if len(sizes) > _MOST_LETTERS or steps > _MOST_STEPS:
        raise UnsupportedError(f"{steps} multiplications for {equation!r}")
    for array in inputs:
        bounded(*array.shape)
    result = np.einsum(equation, *(np.asarray(array, np.float64) for array in inputs))
    fitting(result.shape, shape)
    return np.asarray(result)


def _letters(equation: str, inputs: Inputs) -> dict[str, int]:
    """The size behind each letter; dimensions behind "..." get numbers from the end."""
    terms = equation.split("->", maxsplit=1)[0].split(",")
    if len(terms) != len(inputs):
        raise UnsupportedError(f"{len(inputs)} operands for {equation!r}")
    sizes: dict[str, int] = {}
    for term, array in zip(terms, inputs, strict=True):
        free = array.ndim - len(term.replace("...", ""))
        names = list(term.replace("...", "")) if "..." not in term else [
            *term.split("...")[0], *(f"#{free - k}" for k in range(free)), *term.split("...")[1]
        ]  # fmt: skip
        if len(names) != array.ndim:
            raise UnsupportedError(f"{term!r} for {array.ndim} dimensions")
        for name, size in zip(names, array.shape, strict=True):
            sizes[name] = max(sizes.get(name, 1), size)
    return sizes


def attention(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The compiler's form of softmax(scale q k^T + mask) v: all three are [N, depth, 1, tokens], and so is the result.

    The scale is 1 / sqrt(depth) where the file has none.
    """
    q, k, v = (np.asarray(array, np.float64) for array in inputs[:3])
    same = q.ndim == k.ndim == v.ndim == 4 and q.shape[2] == k.shape[2] == v.shape[2] == 1
    if not same or q.shape[:2] != k.shape[:2] or k.shape[0] != v.shape[0] or k.shape[3] != v.shape[3]:
        raise UnsupportedError(f"queries of {list(q.shape)}, keys of {list(k.shape)}, values of {list(v.shape)}")
    bounded(q.shape[0], q.shape[3], k.shape[3])
    scores = number(attributes, "scale", q.shape[1] ** -0.5) * np.matmul(q[:, :, 0].swapaxes(1, 2), k[:, :, 0])
    mask = optional(inputs, 3)
    scores = scores if mask is None else scores + mask.reshape(-1, *mask.shape[-2:])
    grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = grown / grown.sum(axis=-1, keepdims=True)
    return np.asarray(np.matmul(v[:, :, 0], weights.swapaxes(1, 2)))[:, :, None]


def determinant(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Of each matrix."""
    x = np.asarray(inputs[0], np.float64)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise UnsupportedError(f"{list(x.shape)} are no square matrices")
    return np.asarray(np.linalg.det(x))
