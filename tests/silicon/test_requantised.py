"""Sums that boards brought to 8 bits, whose inputs can be made again from a formula or a seed.

RK3588: six products of oRKLLM/ork-driver (examples/test_mm_i8_out8.c, 27a39ee; Rock 5B), which the board gave bit for
bit as products rounded with halves to even (OPS_REGISTRY.md, 06d58d9: proven). RK3576: eight products of
gahingwoo/charsiu (tools/charsiu_matmul.c, d2efb83), and ten convolutions of gahingwoo/linux-rk3576-npu
(igor-oc/mk1x1.py) through its fork of Mesa, both in the board logs of the latter (e1c3ae9, board-logs/r2xx and r3xx).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.npu.blocks.dpu import out_cvt
from openrknn.npu.blocks.formats import Numbers
from openrknn.task.out_cvt import Config
from tests.silicon.rk3576_counts import lite

Rounding = numerics.Rounding


def converted(sums: Numbers, scale: int, shift: int, offset: int = 0) -> Numbers:
    """What the output converter writes, as signed bytes."""
    config = Config(Precision.INT8, scale, shift, offset, False, Rounding.EVEN, 0)
    return np.clip(out_cvt.apply(sums, config), -128, 127)


# ------------------------------------------------------------------------------------------------ ork-driver, RK3588


class Product(NamedTuple):
    rows: int
    depth: int
    columns: int
    scale: int
    shift: int


ORK = (
    Product(1, 2048, 64, 0x4000, 14),
    Product(32, 512, 64, 0x4000, 14),
    Product(32, 2048, 2048, 0x4000, 14),
    Product(32, 512, 64, 0x2000, 14),
    Product(32, 2048, 2048, 0x1000, 15),
    Product(16, 4096, 128, 0x2AB0, 15),
)
ORK_TIES = {61: 30, 79: 40, -15: -8, 1: 0}
"""Twice the number -> what the board gave (the program's comment)."""


def generated(count: int, state: int) -> tuple[Numbers, int]:
    """`count` numbers of the program's generator, a linear congruential one, and its state behind them."""
    factor, step = 1103515245, 12345
    states = np.array([(state * factor + step) & 0xFFFF_FFFF], np.uint64)
    while states.size < count:
        jump, add = _steps(states.size)
        states = np.concatenate([states, (states * jump + add) & 0xFFFF_FFFF])
    states = states[:count]
    return (states >> 16 & 7).astype(np.int64) - 3, int(states[-1])


def _steps(count: int) -> tuple[int, int]:
    """Factor and step of `count` steps at once."""
    factor, step, jump, add = 1103515245, 12345, 1, 0
    while count:
        if count & 1:
            jump, add = jump * factor & 0xFFFF_FFFF, (add * factor + step) & 0xFFFF_FFFF
        factor, step = factor * factor & 0xFFFF_FFFF, (step * factor + step) & 0xFFFF_FFFF
        count >>= 1
    return jump, add


def to_even(value: int, bits: int) -> int:
    whole, rest = value >> bits, value & (1 << bits) - 1
    half = 1 << bits - 1
    return whole + (rest > half or (rest == half and whole & 1 == 1))


def test_products_of_ork_driver_halves_to_even() -> None:
    state, checked, ties = 0x2468ACE, 0, 0
    for product in ORK:
        left, state = generated(product.rows * product.depth, state)
        right, state = generated(product.depth * product.columns, state)
        if product.columns > 128:  # as many columns as the small ones have; the generator has gone on behind them
            right = right.reshape(product.depth, product.columns)[:, :64].reshape(-1)
        sums = left.reshape(product.rows, -1) @ right.reshape(product.depth, -1)
        found = converted(sums, product.scale, product.shift)
        wide = (sums * product.scale).reshape(-1).tolist()
        said = [max(-128, min(127, to_even(value, product.shift))) for value in wide]
        assert found.reshape(-1).tolist() == said
        checked += 1
        ties += sum(value & (1 << product.shift) - 1 == 1 << product.shift - 1 for value in wide)
    assert checked == len(ORK)
    assert ties > 100  # they tell the roundings apart


def test_the_ties_that_ork_driver_names() -> None:
    found = converted(np.array(list(ORK_TIES)), 0x4000, 15)
    assert found.tolist() == list(ORK_TIES.values())


# --------------------------------------------------------------------------------------------------- charsiu, RK3576

CHARSIU = ((1, 64, 64), (4, 64, 64), (1, 128, 64), (1, 192, 64), (1, 224, 64), (1, 256, 64), (1, 512, 64), (1, 64, 128))
"""Rows, depth, columns; the logs have each byte, or that all of them are those of the formula."""
CHARSIU_SCALE, CHARSIU_SHIFT, CHARSIU_LIFT = 0x68DC, 25, 160000
LINES = {
    (1, 64, 64): "-1 1 0 -1 1 0 -1 1 2 -1 -1 1 0 -1 0 1 0 -1 1 -1 -2 1 2 0 0 1 -1 0 2 0 -1 0",
    (1, 128, 64): "1 -1 1 -1 1 0 -1 1 0 0 0 0 1 -2 1 -1 1 0 -1 1 0 0 0 -1 1 -2 0 -1 1 0 0 1",
    (1, 256, 64): "1 0 2 -1 0 -1 1 1 2 -2 1 0 2 1 1 0 0 0 0 1 0 -1 -1 -1 0 0 0 -2 -1 -1 0 0",
}
"""The first 32 columns as the board printed them (r290, r299)."""


@pytest.mark.parametrize(("rows", "depth", "columns"), CHARSIU)
def test_products_of_charsiu_on_an_rk3576(rows: int, depth: int, columns: int) -> None:
    left = (np.arange(rows * depth) * 7 % 61 - 30).reshape(rows, depth)
    right = (np.arange(columns * depth) * 13 % 41 - 20).reshape(columns, depth)
    sums = left @ right.T + np.arange(columns) * 3 - 40
    found = converted(sums + CHARSIU_LIFT, CHARSIU_SCALE, CHARSIU_SHIFT, -128)
    factor = np.float32(0.02) * np.float32(0.01) / np.float32(0.25)
    assert np.array_equal(found, np.floor(sums.astype(np.float32) * factor + np.float32(0.5)))
    said = LINES.get((rows, depth, columns))
    assert said is None or found[0, :32].tolist() == [int(word) for word in said.split()]


# ----------------------------------------------------------------------------------------- 1 x 1 convolutions, RK3576

EQUAL = {20: 18, 32: 28, 40: 34, 48: 40, 50: 43, 60: 53, 64: 55, 90: 78, 100: 86, 114: 98}
"""Channels of the output -> those whose 64 bytes are all the ones of TensorFlow Lite (r337)."""
CONVOLUTION_SCALE, CONVOLUTION_SHIFT = 0x6CF0, 22
"""As the log prints them."""


FACTOR = float(np.float32(1 / 128)) * float(np.float32(0.02)) / float(np.float32(0.0235))


@pytest.mark.parametrize(("channels", "equal"), EQUAL.items())
def test_as_many_channels_as_on_an_rk3576(channels: int, equal: int) -> None:
    random = np.random.default_rng(1234 + channels)
    weights = random.integers(112, 145, (channels, 1, 1, 64)).reshape(channels, 64) - 128
    bias = random.integers(1300, 22000, channels)
    features = (np.arange(64 * 64) * 7 % 251 - 128).reshape(64, 64)
    sums = features @ weights.T + bias
    lites = np.clip(lite(sums, FACTOR), 0, 255)
    found = converted(sums, CONVOLUTION_SCALE, CONVOLUTION_SHIFT, -128) + 128
    assert np.count_nonzero((found == lites).all(axis=0)) == equal
    down = np.clip((sums * CONVOLUTION_SCALE >> CONVOLUTION_SHIFT) - 128, -128, 127) + 128
    assert np.count_nonzero((down == lites).all(axis=0)) != equal
