"""Parameters as work of the kernels that no task of the NPU uses: products, layouts, dequantisation, softmax, boxes.

Each is run with native kernels and with NumPy; arrays are allocations of exactly their size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.compute import native
from openrknn.layout.arrange import Arrangement
from openrknn.numerics import dequantize_affine
from openrknn.runtime.matmul.direct import DirectProduct, Rows, Tiles
from openrknn.runtime.operators.softmax import softmax
from openrknn.vision.nms import keep_best

__all__ = ["run_host"]

Array = npt.NDArray[Any]
Task = dict[str, Any]
_TILE = 32


def run_host(task: Task, kernels: str) -> bytes:
    """What the work leaves, with a set of kernels or with `numpy`."""
    before = os.environ.get(native.ENVIRONMENT)
    os.environ[native.ENVIRONMENT] = kernels
    try:
        return _WORK[task["work"]](task, np.random.default_rng(task["seed"])).tobytes()
    finally:
        os.environ[native.ENVIRONMENT] = before or "auto"


def _values(task: Task, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    values = rng.normal(0, 40, shape).astype(np.float32)
    if task["data"] == "hard":  # ties, and ends of the range
        values = (rng.integers(-300, 300, shape) / 2).astype(np.float32)
    elif task["data"] == "wild":
        values = rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32).copy()
    return values


def _arrange(task: Task, rng: np.random.Generator) -> Array:
    """A feature map with gaps as [N, C, H, W], as it is or as floats."""
    dtype = np.dtype(task["dtype"])
    atom = 16 // dtype.itemsize
    count, height, width, gap = -(-task["channels"] // atom), task["height"], task["width"], task["gap"]
    shape = (1 + task["seed"] % 2, count, height + gap, width + gap, atom)
    whole = rng.integers(0, 256, (*shape[:-1], 16), np.uint8).view(dtype)
    scale = None if task["style"] == "plain" or dtype.kind == "f" else 0.37
    zero = 0 if scale is None else -5
    to_float, part = task["style"] == "float", whole[:, :, :height, :width]
    return _quiet(Arrangement(part, task["channels"], scale=scale, zero_point=zero, to_float=to_float).read())


def _quiet(values: Array) -> Array:
    """One NaN for all: payloads depend on the processor."""
    return np.where(np.isnan(values), values.dtype.type(np.nan), values) if values.dtype.kind == "f" else values


def _dequantize(task: Task, rng: np.random.Generator) -> Array:
    dtype = np.dtype(task["dtype"])
    stored = rng.integers(0, 256, task["channels"] * task["width"] * dtype.itemsize, np.uint8).view(dtype)
    return _quiet(dequantize_affine(stored, 0.37, 0 if dtype.kind == "f" else 3))


def _softmax(task: Task, rng: np.random.Generator) -> Array:
    values = _values(task, rng, (task["height"], task["channels"]))
    with np.errstate(all="ignore"):
        return _quiet(softmax([values], {"axis": -1}, values.shape))


def _suppress(task: Task, rng: np.random.Generator) -> Array:
    """Boxes of three classes; some are empty, or the same."""
    count = int(task["channels"])
    corners = rng.integers(0, 40, (count, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.integers(-2, 30, (count, 2))], 1).astype(np.float32)
    scores, kinds = (rng.integers(0, 50, (count,)) / 50).astype(np.float32), rng.integers(0, 3, (count,))
    return keep_best(boxes, scores, kinds, (0.0, 0.45, 1.0)[task["seed"] % 3], task["width"] * 5)


def _product(task: Task, rng: np.random.Generator) -> Array:
    """A [m, k] * B [k, n]; B as native tiles or by columns. Callers fill both sides up to whole tiles."""
    a_bits, b_bits = {"int8": (8, 8), "int16": (16, 8), "float16": (16, 16), "uint8": (8, 4), "int32": (16, 4),
                      "float32": (16, 16)}[task["dtype"]]  # fmt: skip
    columns = {8: 32, 16: 16}[a_bits]
    m, k, n = task["height"], -(-task["channels"] // _TILE) * _TILE, -(-task["width"] // columns) * columns
    a, b = _matrix(task, rng, (m, k), a_bits), _matrix(task, rng, (n, k), b_bits)
    zeros = rng.integers(-3, 4, n).astype(np.int32) if a_bits == 16 and b_bits < 16 and task["gap"] else None
    if os.environ[native.ENVIRONMENT] == "numpy":
        return _multiplied(a, b, zeros)
    step = DirectProduct(m, k, n, a_bits=a_bits, b_bits=b_bits)
    result = np.zeros((m, n), np.float32 if a_bits == 16 else np.int32)
    step.set_a(Rows.plain(_stored(a, a_bits), k, a_bits))
    if task["style"] == "plain":
        step.set_b(Tiles(_stored(b, b_bits), column=k * b_bits // 8))
    else:
        tiled = b.reshape(n // columns, columns, k // _TILE, _TILE).transpose(0, 2, 1, 3)
        step.set_b(Tiles(_stored(np.ascontiguousarray(tiled).reshape(n, k), b_bits), columns, _TILE))
    step.set_c(Rows.plain(result.view(np.uint8).reshape(-1), n, 32))
    step.set_zeros(zeros)
    step.run()
    return result


def _matrix(task: Task, rng: np.random.Generator, shape: tuple[int, int], bits: int) -> Array:
    if bits == 16:
        values = rng.normal(0, 2, shape)
        if task["data"] != "usual":
            values = rng.choice([-1, 1, 1 + 2.0**-7], shape) * 2.0 ** rng.integers(-10, 10, shape)
        return values.astype(np.float16)
    reach = 1 << (bits - 1)
    return rng.integers(-reach, reach, shape).astype(np.int8)


def _stored(values: Array, bits: int) -> npt.NDArray[np.uint8]:
    if bits == 4:
        pairs = values.astype(np.uint8).reshape(len(values), -1, 2) & 15
        return np.ascontiguousarray(pairs[..., 0] | pairs[..., 1] << 4).reshape(-1)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def _multiplied(a: Array, b: Array, zeros: Array | None) -> Array:
    if a.dtype.kind == "i":
        return (a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int32)
    return numerics.multiply_floats(a, (b.astype(np.float64) - (0 if zeros is None else zeros[:, None])).T)


_WORK: dict[str, Callable[[Task, np.random.Generator], Array]] = {
    "arrange": _arrange,
    "dequantize": _dequantize,
    "softmax": _softmax,
    "suppress": _suppress,
    "product": _product,
}
