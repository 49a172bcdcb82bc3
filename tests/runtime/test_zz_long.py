"""Operators of the CPU with attributes and inputs that make no sense: a named error or a result, and never much memory.

`CpuCall` turns the errors of NumPy that are listed here into one of ours, with the operator's name.
"""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

from openrknn.errors import RknnError
from openrknn.runtime.operators import ABSENT, OPERATORS, SEVERAL
from tests.runtime.cases import Array

ROUNDS = 1500
NAMED = (RknnError, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, MemoryError)
MOST_BYTES = 64 << 20
"""Inputs have at most a few thousand elements."""
ATTRIBUTES = [
    "axis", "axes", "alpha", "beta", "blocksize", "mode", "perm", "pads", "strides", "dilations", "kernel_shape",
    "group", "hidden_size", "direction", "split", "keepdims", "starts", "ends", "steps", "to", "equation", "scale",
    "eps", "p", "size", "epsilon", "num_groups", "output_height", "output_width", "k", "start", "end",
    "sampling_ratio", "spatial_scale", "coordinate_transformation_mode", "nearest_mode", "padding_mode", "batch_dims",
    "batch_axis", "time_axis", "pooled_shape", "output_padding", "output_shape", "auto_pad", "reduction",
    "activations", "value", "scales", "layout", "largest",
]  # fmt: skip
WORDS = [
    "", "reflect", "edge", "wrap", "cubic", "linear", "nearest", "align_corners", "tf_crop_and_resize", "reverse",
    "bidirectional", "SAME_UPPER", "SAME_LOWER", "VALID", "ab,bc->ac", "...i,i", "rms", "l2", "add", "nonsense",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 3, 7, -8, 2**31 - 1, -(2**31), 2**62, 10**9]


def attribute(rng: random.Random) -> Any:
    many = [rng.choice(NUMBERS) for _ in range(rng.randrange(9))]
    few = [rng.choice(NUMBERS[:6]) for _ in range(rng.randrange(5))]
    choices: tuple[Any, ...] = (
        rng.choice(NUMBERS),
        many,
        few,
        rng.choice(WORDS),
        rng.choice([0.0, 1e30, -1.5, float("nan")]),
        None,
        {},
    )
    return rng.choice(choices)


def operand(rng: random.Random) -> Array:
    shape = tuple(rng.choice([0, 1, 1, 2, 3, 4, 6]) for _ in range(rng.randrange(6)))
    source = np.random.default_rng(rng.getrandbits(32))
    kind = rng.randrange(6)
    if kind == 0:
        return ABSENT
    if kind == 1:
        return np.array(rng.choices(NUMBERS, k=rng.randrange(1, 9)), np.int64)
    if kind == 2:
        return source.integers(-3, 8, shape)
    values = source.standard_normal(shape)
    return np.where(values > 1.5, rng.choice([np.nan, np.inf, 1e300, 0.0]), values) if kind == 3 else values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({**OPERATORS, **SEVERAL}))
def test_nonsense(name: str) -> None:
    rng = random.Random(name)
    tracemalloc.start()
    try:
        for _ in range(ROUNDS):
            inputs = [operand(rng) for _ in range(rng.randrange(1, 6))]
            attributes = {key: attribute(rng) for key in rng.sample(ATTRIBUTES, 12)}
            shape = rng.choice([inputs[0].shape, (1, 2, 3, 4), (), (2, 3), (7,), (1, 4, 6, 6), (2, 1, 1, 3)])
            tracemalloc.reset_peak()
            try:
                if name in SEVERAL:
                    SEVERAL[name].compute(inputs, attributes, [shape] * rng.randrange(1, 4))
                else:
                    OPERATORS[name].compute(inputs, attributes, shape)
            except NAMED:
                pass
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES, attributes
    finally:
        tracemalloc.stop()
