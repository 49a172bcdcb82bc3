"""Scaling in front of convolutions goes into them, padding and all."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.quantise.ranges import METHODS
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net, feeds

SHAPE = (1, 16, 12, 10)


def scaled(net: Net, factor: float, summand: float) -> str:
    h = net.add("HardSwish", net.conv("x", 16, 24))
    return net.add("Add", net.add("Mul", h, net.constant([factor])), net.constant([summand]))


@pytest.mark.parametrize("form", ["int8", "fp16"])
@pytest.mark.parametrize(
    ("kernel", "group", "outputs"), [(1, 1, 16), (3, 1, 16), (5, 24, 24)], ids=["point", "padded", "depthwise"]
)
def test_it_is_gone_and_nothing_is_lost(form: str, kernel: int, group: int, outputs: int) -> None:
    net = Net()
    y = scaled(net, 0.4, -0.3)
    a = net.conv(y, 24, outputs, kernel, group=group, pads=[kernel // 2] * 4)
    b = net.conv(y, 24, 8)
    model = net.model({"x": SHAPE}, [a, b])
    data = feeds(SHAPE)
    compiled = compile_model(model, calibration=data if form == "int8" else None)
    assert len(compiled.lowering.program.steps) == 3
    for verdict in verify(compiled, [{"x": data[0]}]):
        assert verdict.decibels > (35 if form == "int8" else 55)


def test_what_something_else_reads_too_stays() -> None:
    net = Net()
    y = scaled(net, 0.4, -0.3)
    out = net.add("Add", net.conv(y, 24, 24), y)
    compiled = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE))
    assert y in compiled.graph.values


def test_a_padding_far_away_would_cost_more_than_it_saves() -> None:
    net = Net()
    y = scaled(net, 0.01, -1.0)  # padded with 100
    out = net.conv(y, 24, 8, 3, pads=[1] * 4)
    compiled = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE))
    assert y in compiled.graph.values


def test_outliers_of_a_channel_that_nobody_needs_are_clipped_first() -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 8, 64, 64)).astype(np.float32)
    values[0, 3] *= 40
    seen = Statistics()
    seen.add(values)
    importance = np.ones(8)
    importance[3] = 1e-6
    assert METHODS["mse"](seen, importance)[1] < 20
    assert METHODS["mse"](seen, None)[1] > 50


def test_rare_outliers_are_seen_between_the_samples() -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 4, 200, 200)).astype(np.float32)
    values[0, :, 101, 7] = 60.0
    seen = Statistics()
    seen.add(values)
    assert not np.any(seen.sample == 60)
    assert METHODS["mse"](seen, None)[1] > 50  # cut off, they would cost more than the coarser steps do
