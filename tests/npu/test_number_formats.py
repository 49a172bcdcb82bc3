"""Products of 4-bit numbers, and of features and weights in two formats.

Witnesses: integer arithmetic, the exact sum rounded once, and a file of the vendor's converter with 4-bit weights.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

from openrknn import numerics
from openrknn.chip.maps import map_for
from openrknn.chip.rk3566 import decode as rk3566
from openrknn.chip.task_registers import Registers
from openrknn.chips import CHIPS
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.npu import Buffer, Memory
from openrknn.npu.blocks import cna, core
from openrknn.npu.blocks.dpu.lut import Tables
from openrknn.npu.task import Convolution
from openrknn.runtime.session import Session
from openrknn.task import cna as task_cna
from openrknn.task.formats import MIXED, element_bits, element_bytes, surfaces_of
from tests.npu.chip_models import place

Array = npt.NDArray[Any]
GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
FEATURES, WEIGHTS, INPUTS = 0x1000, 0x100000, 32
PAIRS = [*sorted(MIXED), (Precision.INT4, Precision.INT4), (Precision.INT16, Precision.INT16)]


def convolution() -> task_cna.Config:
    """Of the vendor's file: one line of 8 pixels, 64 channels, 64 kernels."""
    steps = place(GOLDENS / "dense_rk3576_w4a16.rknn").program().steps
    return next(step for step in steps if isinstance(step, Convolution)).source


def drawn(random: np.random.Generator, precision: Precision, shape: tuple[int, ...]) -> Array:
    if precision is Precision.FP16:
        return random.standard_normal(shape).astype(np.float16)
    reach = 1 << element_bits(precision) - 1
    return random.integers(-reach, reach, shape, np.int16 if precision is Precision.INT16 else np.int8)


def stored(values: Array, precision: Precision) -> npt.NDArray[np.uint8]:
    flat = np.ascontiguousarray(values).reshape(-1)
    return numerics.pack_int4(flat) if precision is Precision.INT4 else flat.view(np.uint8)


@pytest.mark.parametrize(("features", "weights"), PAIRS, ids=lambda precision: precision.name)
def test_sums_are_those_of_the_array(features: Precision, weights: Precision) -> None:
    """Weights lie in groups of 32 inputs and, whatever their own format, 32 bytes of kernels of the features'."""
    random, (pixels, channels, kernels) = np.random.default_rng(31), (5, 96, 128)
    group, lanes = 256 // element_bits(features), 128 // element_bits(features)
    a, b = drawn(random, features, (pixels, channels)), drawn(random, weights, (channels, kernels))
    maps = a.reshape(pixels, -1, lanes).transpose(1, 0, 2)
    tiles = b.reshape(-1, INPUTS, kernels // group, group).transpose(2, 0, 3, 1)
    packed = stored(tiles, weights)
    memory = Memory([Buffer(FEATURES, stored(maps, features), "features"), Buffer(WEIGHTS, packed, "weights")])
    config = replace(
        convolution(), feature_address=FEATURES, width=pixels, out_width=pixels, channels=channels,
        line_bytes=16 * pixels, surface_bytes=16 * pixels, precision=features, weight_address=WEIGHTS,
        weight_bytes=packed.size, weight_channels=channels, weight_precision=weights, kernels=kernels,
        kernel_group=group, input_group=INPUTS,
    )  # fmt: skip
    assert config.arithmetic is features
    found = core.convolve(
        cna.fetch_features(config, memory), cna.fetch_weights(config, memory), config, window_sums=False
    ).accumulators[:, 0].T
    assert np.array_equal(found, numerics.multiply_floats(a, b) if config.is_float else a.astype(np.int64) @ b)


def test_the_converter_s_file_with_4_bit_weights() -> None:
    """Columns are divided by their largest magnitude / 7; the scales come back as multipliers of BN."""
    weights = numpy_helper.to_array(onnx.load(GOLDENS / "dense.onnx").graph.initializer[0])
    scales = np.abs(weights).max(0) / 7
    given = np.random.default_rng(4).standard_normal((1, 8, 64)).astype(np.float32)
    with Session(GOLDENS / "dense_rk3576_w4a16.rknn") as session:
        (found,) = session.run([given]).values()
    wanted = given.astype(np.float16).astype(np.float64) @ np.round(weights / scales) * scales
    assert np.abs(found - wanted).max() < 0.002 * np.abs(wanted).max()


def test_two_4_bit_channels_are_in_a_byte() -> None:
    config = replace(convolution(), precision=Precision.INT4, weight_precision=Precision.INT4, channels=32,
                     width=1, feature_address=FEATURES)  # fmt: skip
    memory = Memory([Buffer(FEATURES, (np.arange(16) * 0x11 ^ 0x0F).astype(np.uint8), "features")])
    found = cna.fetch_features(config, memory)[:, 0, 0]
    assert found[:6].tolist() == [-1, 0, -2, 1, -3, 2]
    assert surfaces_of(33, Precision.INT4) == 2


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownModeError, match="INT4 is a format of features and weights only"):
        element_bytes(Precision.INT4)
    with pytest.raises(UnknownModeError, match="TF32 is not implemented"):
        element_bits(Precision.TF32)
    config = replace(convolution(), precision=Precision.INT4, weight_precision=Precision.INT4, pad_left=1, pad_bits=3)
    with pytest.raises(UnknownModeError, match="padding of 4-bit features"):
        cna.pads_of(config, 4)


_RK3566_ROWS = {
    0x3010: 0x30000, 0x3014: 0x3F, 0x400C: 0x108, 0x4010: 0x80000000, 0x4020: 0xFFFFA000, 0x4024: 0x10, 0x4034: 3,
    0x4038: 0x1E001E, 0x403C: 0x3F003F, 0x4040: 0x53, 0x4050: 0x36C, 0x4060: 0x53, 0x4070: 0x383, 0x4084: 1,
    0x40C0: 0x40,
}  # fmt: skip
"""What runtime 2.0.0b8 writes for int8 4 x 64 x 64 on RK3566."""


def test_rows_of_a_32_bit_matrix_follow_each_other_on_rk3566() -> None:
    """An atom of 16 bytes and a notch of 30 times 8: 64 numbers. Row 0 was right, and the others were elsewhere."""
    chip = CHIPS["rk3566"]
    config = rk3566.configure_dpu(Registers(_RK3566_ROWS, chip, map_for(chip)), Tables())
    assert (config.write.line_bytes, config.write.atom_step_bytes, config.write.group_step_bytes) == (256, 16, 64)
