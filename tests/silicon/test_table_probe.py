"""A sigmoid table on RV1103, read out number by number (dnhkng/open-rknpu, research/lut_index_probe).

A diagonal convolution with gain g feeds all 256 codes of three channels into the table. The probe's author compared
the board with a model of his own, which goes to the nearest entry, and counted the bytes that differ: 768 each. With
what happens between two entries taken from the software NPU, the same counts come out; with any other rounding there,
not.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.npu.blocks.dpu import lut, out_cvt
from openrknn.npu.blocks.dpu.stage import apply_bn, apply_bs
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.blocks.rdma import ChannelOperands
from openrknn.task import lut as task_lut
from openrknn.task import out_cvt as task_out_cvt
from openrknn.task.stage import Scaling, Stage

CHANNELS = 3
BOARD = {1 / 32: 0, 0.02: 87, 0.03: 69, 1 / 48: 90, 0.024: 84, 0.012: 93}
"""Gain -> bytes of 768 that differ from the author's model."""
UNITS = 2048
"""Of the table's argument, per 1.0: 64 entries, 32 units apart."""
WEIGHT, BS_SHIFT, BN_NEGATIVE = 255, 14, 16
"""The one weight that is not 0; the shifts of negative numbers."""


def sigmoid(x: Numbers) -> Numbers:
    values: Numbers = np.clip(np.rint(32768 / (1 + np.exp(-x))), -32768, 32767).astype(np.int64)
    return values


def negative_gain(gain: float) -> float:
    """Negative numbers have a shift of their own, which does not follow the gain: whole bits are left over."""
    return 2.0 ** math.ceil(math.log2(1 / 32 / gain) - 1e-6)


def argument(gain: float) -> Numbers:
    """BS and BN bring the sums into the units of the table; BS shifts negative numbers only, BN makes up for it."""
    factor = float(np.float32(gain)) / WEIGHT * UNITS
    shift = math.floor(math.log2(32767 / factor))
    multiplier = round(factor * 2**shift)
    first = Stage(0, False, False, Scaling(1 << BS_SHIFT, 0, BS_SHIFT, False), None, is_float=False)
    second = Stage(0, False, False, Scaling(multiplier, BS_SHIFT + shift, BN_NEGATIVE, False), None, is_float=False)
    sums = (np.arange(-128, 128, dtype=np.int64) * WEIGHT)[None, None]
    return apply_bn(apply_bs(sums, first, ChannelOperands()), second, ChannelOperands())


def tables(gain: float) -> task_lut.Config:
    places = np.arange(task_lut.ENTRIES) / 64
    entries = np.array([sigmoid((places - 8) / negative_gain(gain)), sigmoid(places)])
    return task_lut.Config(entries, -16384, 0, 16384, 5, 5, task_lut.Slope(0, 0), task_lut.Slope(0, 0))


def output(values: Numbers) -> Numbers:
    even = numerics.Rounding.EVEN
    converted = out_cvt.apply(values, task_out_cvt.Config(Precision.INT8, 255, 15, -128, False, even, 0))
    return np.clip(converted, -128, 127).reshape(-1)


def authors_model(gain: float) -> Numbers:
    stem = np.arange(-128, 128) * gain
    reach = np.where(stem < 0, negative_gain(gain), 1.0)
    entry = np.clip(np.rint(64 * stem * reach), -512, 512) / 64 / reach
    return (np.rint(sigmoid(entry) * 255 / 32768) - 128).astype(np.int64)


@pytest.mark.parametrize(("gain", "differ"), BOARD.items())
def test_as_many_bytes_differ_as_on_the_board(gain: float, differ: int) -> None:
    found = output(lut.apply(argument(gain), tables(gain)))
    assert CHANNELS * np.count_nonzero(found != authors_model(gain)) == differ


def test_rounding_between_entries_to_nearest_would_be_seen() -> None:
    counts = []
    for gain in BOARD:
        x, entries = argument(gain).reshape(-1), tables(gain).entries
        place = np.where(x < 0, x + 16384, x)
        index, table = np.minimum(place >> 5, 511), (x >= 0).astype(np.int64)
        first, second = entries[table, index], entries[table, index + 1]
        nearest = numerics.shift_right((first << 5) + (second - first) * (place - (index << 5)), 5)
        counts.append(CHANNELS * int(np.count_nonzero(output(nearest) != authors_model(gain))))
    assert counts == [0, 87, 69, 90, 78, 90]
