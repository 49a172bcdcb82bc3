"""fp16 convolutions as an Orange Pi 5 (RK3588) computed them: the largest error of each shape, to four digits.

allbilly/rk3588 (40fae7b, sweep_results of 2026-07-10) fed uniform numbers from NumPy's generator with seed 42 and
printed max |board - float32 sum|. The inputs can be made again, so the four digits say how a board rounds and adds:
products exact, groups of 32 added up in single precision, the result to the nearest fp16.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from openrknn.isa import Precision
from openrknn.npu.blocks import core
from openrknn.npu.blocks.formats import Numbers, decode, encode
from openrknn.task import cna

ROWS = json.loads(Path(__file__).with_name("fp16_convolutions.json").read_text())


class Shape(NamedTuple):
    batch: int
    channels: int
    height: int
    width: int
    kernels: int
    kernel_channels: int
    kernel_height: int
    kernel_width: int
    groups: int

    @property
    def out(self) -> tuple[int, int]:
        return self.height - self.kernel_height + 1, self.width - self.kernel_width + 1


def data(shape: Shape) -> tuple[Numbers, Numbers]:
    random = np.random.RandomState(42)  # the generator of the recording
    features = random.uniform(-2, 2, (shape.batch, shape.channels, shape.height, shape.width)).astype(np.float16)
    size = shape.kernels, shape.kernel_channels, shape.kernel_height, shape.kernel_width
    return features, random.uniform(-2, 2, size).astype(np.float16)


def groups(shape: Shape, features: Numbers, weights: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Each group of each picture is a convolution of its own, as the program runs them."""
    for picture in features:
        yield from zip(np.split(picture, shape.groups), np.split(weights, shape.groups), strict=True)


def configuration(shape: Shape) -> cna.Config:
    height, width = shape.out
    return cna.Config(
        feature_address=0,
        line_bytes=0,
        surface_bytes=0,
        weight_address=0,
        weight_bytes=0,
        stride_x=1,
        stride_y=1,
        dilation_x=1,
        dilation_y=1,
        spread_x=1,
        spread_y=1,
        height=shape.height,
        width=shape.width,
        channels=shape.kernel_channels,
        packed_channels=0,
        precision=Precision.FP16,
        is_unsigned=False,
        converter=None,
        pad_top=0,
        pad_left=0,
        pad_bits=0,
        out_height=height,
        out_width=width,
        weight_channels=shape.kernel_channels,
        weight_precision=Precision.FP16,
        kernels=shape.kernels // shape.groups,
        kernel_height=shape.kernel_height,
        kernel_width=shape.kernel_width,
        depthwise=False,
    )


def accumulators(shape: Shape, features: Numbers, weights: Numbers) -> Numbers:
    config = configuration(shape)
    parts = [
        core.convolve(part, kernels.transpose(0, 2, 3, 1), config, window_sums=False).accumulators
        for part, kernels in groups(shape, features, weights)
    ]
    return np.array(parts).reshape(shape.batch, shape.kernels, *shape.out)


def expected(shape: Shape, features: Numbers, weights: Numbers) -> Numbers:
    """The recording's reference: float32, kernel position by kernel position."""
    height, width = shape.out
    totals = []
    for part, kernels in groups(shape, features, weights):
        total = np.zeros((len(kernels), height, width), np.float32)
        wide, factors = part.astype(np.float32), kernels.astype(np.float32)  # first: the order follows the strides
        for row in range(shape.kernel_height):
            for column in range(shape.kernel_width):
                seen = wide[:, row : row + height, column : column + width]
                total += np.einsum("ihw,oi->ohw", seen, factors[:, :, row, column])
        totals.append(total)
    return np.array(totals).reshape(shape.batch, shape.kernels, height, width)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "x".join(map(str, row[:9])))
def test_the_largest_error_is_the_boards(row: list[float]) -> None:
    shape = Shape(*map(int, row[:9]))
    features, weights = data(shape)
    sums = accumulators(shape, features, weights)
    result = decode(encode(sums, Precision.FP16), Precision.FP16).reshape(sums.shape)
    error = np.abs(result.astype(np.float32) - expected(shape, features, weights)).max()
    assert f"{error:.4f}" == f"{row[9]:.4f}"


def test_the_recording_tells_the_roundings_apart() -> None:
    """Cutting off towards zero gives other errors: nearly none of the recorded ones."""
    toward_zero = 0
    rows = ROWS[:40]
    for row in rows:
        shape = Shape(*map(int, row[:9]))
        features, weights = data(shape)
        sums, reference = accumulators(shape, features, weights), expected(shape, features, weights)
        nearest = sums.astype(np.float16)
        away = np.abs(nearest.astype(np.float64)) > np.abs(sums)
        cut = np.where(away, np.nextafter(nearest, np.float16(0)), nearest)
        toward_zero += f"{np.abs(cut.astype(np.float32) - reference).max():.4f}" == f"{row[9]:.4f}"
    assert toward_zero <= len(rows) // 10


DECIDING = {
    (528, 14, 256, 1): ((200, 7, 7), -96.125, {"exact"}),
    (192, 7, 384, 3): ((103, 1, 1), 129.625, {"one by one"}),
    (512, 14, 32, 1): ((25, 2, 4), -68.6875, {"groups of 16", "groups of 64"}),
}
"""Channels, size, kernels and size of the kernel -> an output so near the middle of two fp16 numbers that the order of
the additions decides, which of them the board had (the other one has an error that is larger than the recorded
largest one), and the sums that have the other one."""


def summed(products: Numbers, group: int) -> np.float32:
    """[channel, row, column]: `group` channels at a position one by one, then what they are to the total."""
    total = np.float32(0)
    for first in range(0, len(products), group):
        for position in products[first : first + group].reshape(-1, products[0].size).T:
            total += np.add.accumulate(position)[-1]
    return total


@pytest.mark.parametrize("key", DECIDING)
def test_outputs_that_tell_the_orders_apart(key: tuple[int, int, int, int]) -> None:
    channels, size, kernels, kernel = key
    (o, y, x), board, refused = DECIDING[key]
    shape = Shape(1, channels, size, size, kernels, channels, kernel, kernel, 1)
    features, weights = data(shape)
    seen = features[0, :, y : y + kernel, x : x + kernel]
    products = seen.astype(np.float32) * weights[o].astype(np.float32)
    one_by_one = products.transpose(1, 2, 0).ravel()
    others = {
        "exact": np.float32(math.fsum(products.ravel().tolist())),
        "one by one": np.add.accumulate(one_by_one)[-1],
        "groups of 16": summed(products, 16),
        "groups of 64": summed(products, 64),
    }
    one = Shape(1, channels, kernel, kernel, 1, channels, kernel, kernel, 1)
    assert accumulators(one, seen[None], weights[o : o + 1]).item() == summed(products, 32)
    assert np.float16(summed(products, 32)) == board
    assert refused <= {name for name, value in others.items() if np.float16(value) != board}
