"""Softmax on the NPU: any length, scores of any size, masked scores. Stands on float64."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net

ROWS, COLUMNS, OUTPUTS = 2, 3, 5
PIXELS = ROWS * COLUMNS


def make(length: int, *, mask: bool = False) -> tuple[object, Array]:
    """Scores from a convolution, a Softmax over channels, and a convolution: all of it on the NPU."""
    net = Net()
    scores = net.add("Conv", "x", net.constant(np.eye(length)[:, :, None, None]))
    scores = net.add("Add", scores, "mask") if mask else scores
    weight = net.random.normal(0, 1, (OUTPUTS, length)).astype(np.float32)
    out = net.add("Conv", net.add("Softmax", scores, axis=1), net.constant(weight[:, :, None, None]))
    shape = (1, length, ROWS, COLUMNS)
    return net.model({"x": shape, "mask": shape} if mask else {"x": shape}, [out]), weight


def expected(x: Array, weight: Array) -> Array:
    """[length, pixels] -> [outputs, pixels]."""
    powers = np.exp(x.astype(np.float64) - x.max(0))
    result: Array = weight @ (powers / powers.sum(0))
    return result


def cube(x: Array) -> Array:
    return x.astype(np.float32).reshape(1, -1, ROWS, COLUMNS)


@pytest.mark.parametrize("chip", ["rk3588", "rk3576", "rk3566", "rk3562"])
@pytest.mark.parametrize("length", [2, 9, 65, 129, 136])
def test_scores_of_any_size(length: int, chip: str) -> None:
    """Padding lanes must not win the maximum, and masked scores (-65504) must not overflow beside large ones."""
    model, weight = make(length)
    compiled = compile_model(model, chip, check=False)
    with Session(compiled.model, "software") as session:
        for shift, size in ((-30000, 30), (-25, 0.1), (-25, 3), (30000, 30)):
            x = np.random.default_rng(1).normal(shift, size, (length, PIXELS)).astype(np.float16).astype(np.float32)
            x[1, 1] = x[: length // 2, 2] = -65504
            (found,) = session.run(cube(x), layout="nchw").values()
            assert measure(found.reshape(OUTPUTS, PIXELS), expected(x, weight)).snr_db > 55, (shift, size)


@pytest.mark.parametrize("length", [*range(3, 24, 5), 63, 127, 130, 133, 137, 200, 300])
def test_low_scores_of_any_length(length: int) -> None:
    """Without a stored maximum above 0: every padding lane counts."""
    model, weight = make(length)
    x = np.random.default_rng(1).normal(-25, 3, (length, PIXELS)).astype(np.float16).astype(np.float32)
    with Session(compile_model(model, check=False).model, "software") as session:
        (found,) = session.run(cube(x), layout="nchw").values()
    assert measure(found.reshape(OUTPUTS, PIXELS), expected(x, weight)).snr_db > 55


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
@pytest.mark.parametrize("masked", [-65504.0, -1e9, -np.inf])
def test_a_mask_that_is_fed(masked: float, chip: str) -> None:
    """fp16 makes -inf of it; what it masks has no weight, and everything else is a number."""
    length = 9
    model, weight = make(length, mask=True)
    x = np.random.default_rng(1).normal(0, 2, (length, PIXELS)).astype(np.float16).astype(np.float32)
    mask = np.zeros_like(x)
    mask[::2] = mask[1:3, 0] = masked
    with Session(compile_model(model, chip, check=False).model, "software") as session:
        (found,) = session.run({"x": cube(x), "mask": cube(mask)}, layout="nchw").values()
    assert measure(found.reshape(OUTPUTS, PIXELS), expected(x + mask, weight)).snr_db > 55
