"""Each block's function against the formula, written out slowly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn import numerics
from openrknn.chip.rk3562 import decode_named_dpu
from openrknn.chip.task_registers import NamedRegisters
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import EwAlgorithm, PoolingMethod
from openrknn.npu import Buffer, Memory
from openrknn.npu.blocks import cna, core, ppu
from openrknn.npu.blocks.dpu import ew, lut, out_cvt, write
from openrknn.npu.blocks.dpu.stage import apply_bn, apply_bs
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.blocks.rdma import ChannelOperands
from openrknn.task import cna as task_cna
from openrknn.task import ew as task_ew
from openrknn.task import lut as task_lut
from openrknn.task import out_cvt as task_out_cvt
from openrknn.task import ppu as task_ppu
from openrknn.task import write as task_write
from openrknn.task.stage import Clamp, Scaling, Stage

INT = np.int64


def exact_shift(value: int, shift: int) -> int:
    """Ties to even, from the definition."""
    return round(Fraction(value, 2**shift))


CONV = task_cna.Config(
    feature_address=0, height=5, width=6, channels=4, packed_channels=0, line_bytes=0, surface_bytes=0,
    precision=Precision.INT8, is_unsigned=False, converter=None, pad_top=1, pad_left=2, pad_bits=0x0503,
    out_height=3, out_width=3, weight_address=0, weight_bytes=0, weight_channels=4, weight_precision=Precision.INT8,
    kernels=2, kernel_height=3, kernel_width=2, stride_x=2, stride_y=2, dilation_x=1, dilation_y=1,
    spread_x=1, spread_y=1, depthwise=False,
)  # fmt: skip


POOL = task_ppu.Config(
    method=PoolingMethod.AVERAGE, precision=Precision.FP16, source_address=0, source_line_bytes=16,
    source_surface_bytes=16, target_address=0, target_line_bytes=16, target_surface_bytes=16, channels=1, height=1,
    width=1, out_height=1, out_width=1, kernel_height=1, kernel_width=1, stride_y=1, stride_x=1, pad_top=0, pad_left=0,
    pad_value=0, reciprocal_width=0, reciprocal_height=0,
)  # fmt: skip


def slow_convolution(
    features: np.ndarray, weights: np.ndarray, config: task_cna.Config
) -> tuple[np.ndarray, np.ndarray]:
    """Loops over everything, one multiplication at a time."""
    pads = cna.pads_of(config, config.channels)
    channels = range(config.weight_channels)
    out = config.weight_channels if config.depthwise else config.kernels
    total = np.zeros((out, config.out_height, config.out_width), INT)
    sums = np.zeros_like(total)

    def at(channel: int, row: int, column: int) -> int:
        y, rest_y = divmod(row - config.pad_top, config.spread_y)
        x, rest_x = divmod(column - config.pad_left, config.spread_x)
        inside = 0 <= y < config.height and 0 <= x < config.width and not rest_y and not rest_x
        return int(features[channel, y, x]) if inside else int(pads[channel])

    for o, y, x in np.ndindex(total.shape):
        for ky in range(config.kernel_height):
            for kx in range(config.kernel_width):
                row = y * config.stride_y + ky * config.dilation_y
                column = x * config.stride_x + kx * config.dilation_x
                for c in [o] if config.depthwise else channels:
                    value = at(c, row, column)
                    total[o, y, x] += value * int(weights[o, ky, kx] if config.depthwise else weights[o, ky, kx, c])
                    sums[o, y, x] += value
    return total, sums


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    depthwise = data.draw(st.booleans())
    config = replace(
        CONV,
        depthwise=depthwise,
        kernel_height=data.draw(st.integers(1, 3)),
        kernel_width=data.draw(st.integers(1, 3)),
        stride_x=data.draw(st.integers(0, 2)),
        stride_y=data.draw(st.integers(0, 2)),
        dilation_x=data.draw(st.integers(1, 2)),
        dilation_y=data.draw(st.integers(1, 2)),
        spread_x=data.draw(st.integers(1, 2)),
        spread_y=data.draw(st.integers(1, 2)),
        pad_top=data.draw(st.integers(0, 2)),
        pad_left=data.draw(st.integers(0, 2)),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    features = rng.integers(-128, 128, (4, 5, 6)).astype(INT)
    shape = (4, config.kernel_height, config.kernel_width)
    weights = rng.integers(-128, 128, shape if depthwise else (2, *shape[1:], 4)).astype(np.int8)
    sums = core.convolve(features, weights, config, window_sums=True)
    total, window = slow_convolution(features, weights, config)
    assert np.array_equal(sums.accumulators, total)
    assert sums.window is not None
    assert np.array_equal(np.broadcast_to(sums.window, window.shape), window)


def test_depthwise_pads_two_lanes() -> None:
    assert cna.pads_of(CONV, 4).tolist() == [3, 3, 3, 3]
    assert cna.pads_of(replace(CONV, depthwise=True), 4).tolist() == [3, 5, 3, 5]
    assert cna.pads_of(replace(CONV, pad_bits=0xFFFFFF80), 2).tolist() == [-128, -128]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**15), 2**15 - 1), st.integers(0, 30), st.integers(0, 30))
def test_bs_adds_then_scales(value: int, factor: int, shift: int, negative: int) -> None:
    stage = Stage(5, True, False, Scaling(factor, shift, negative, False), None, is_float=False)
    result = apply_bs(np.full((1, 1, 1), value, INT), stage, ChannelOperands())
    product = (value + 5) * factor
    assert result.item() == exact_shift(product, negative if product < 0 else shift)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**15), 2**15 - 1), st.integers(0, 30), st.integers(0, 30))
def test_bn_scales_then_adds(value: int, factor: int, shift: int, negative: int) -> None:
    stage = Stage(7, True, True, Scaling(factor, shift, negative, False), None, is_float=False)
    result = apply_bn(np.full((1, 1, 1), value, INT), stage, ChannelOperands())
    total = value * factor - 7
    assert result.item() == exact_shift(total, negative if total < 0 else shift)


def test_leaky_relu_in_two_stages() -> None:
    """BS shifts only negatives up by 14, BN multiplies negatives by the slope."""
    up = Stage(None, False, False, Scaling(1 << 14, 14, 0, False), None, is_float=False)
    down = Stage(None, False, False, Scaling(1638, 0, 28, True), None, is_float=False)
    values = np.array([[[-1000, 0, 1000]]], INT)
    result = apply_bn(apply_bs(values, up, ChannelOperands()), down, ChannelOperands())
    assert result.ravel().tolist() == [exact_shift(-1000 * 2**14 * 1638, 28), 0, 1000]


@pytest.mark.parametrize("apply", [apply_bs, apply_bn])
def test_a_leaky_stage_shifts_both_signs(apply: Callable[..., Numbers]) -> None:
    """Positive numbers pass the multiplier, not the shift: RK3588, the plate that LPRNet reads."""
    leaky = Stage(None, False, False, Scaling(3, 2, 2, True), None, is_float=False)
    values = np.array([[[-100, -1, 0, 1, 100]]], INT)
    assert apply(values, leaky, ChannelOperands()).ravel().tolist() == [-75, -1, 0, 0, 25]


def test_an_element_wise_leaky_product_shifts_both_signs() -> None:
    operation = task_ew.Operation(True, EwAlgorithm.MAX, 3, None, True, 2, 2)
    values = np.array([[[-100, 100]]], INT)
    assert ew.apply(values, task_ew.Config(None, operation, None), lambda: values).ravel().tolist() == [-75, 25]


def test_element_wise_adds_before_it_multiplies() -> None:
    """Ten of Newton's steps y = (y + x / y) / 2 from y = 1 are the square root, as RK3562 and RK3576 compute it."""
    halved = task_ew.Config(None, task_ew.Operation(False, EwAlgorithm.ADD, None, None, False, 0, 0), None, factor=0.5)
    x = np.array([[[0.25, 2.0, 9.0, 100.0]]], np.float32)
    y = np.ones_like(x)
    for _ in range(10):
        quotient = x / y
        y = ew.apply(y, halved, lambda quotient=quotient: quotient)  # type: ignore[misc]
    np.testing.assert_allclose(y, np.sqrt(x), rtol=1e-6)


def test_bn_takes_the_larger_of_a_constant() -> None:
    stage = Stage(-7, True, False, None, None, is_float=False, adds_first=True, takes_larger=True)
    values = np.array([[[-100, -7, 5]]], INT)
    assert apply_bn(values, stage, ChannelOperands()).ravel().tolist() == [-7, -7, 5]


def test_operands_per_channel_and_clamp() -> None:
    stage = Stage(None, True, False, Scaling(None, 1, 1, False), Clamp(20), is_float=False)
    operands = ChannelOperands(alu=np.array([1, 2]), mul=np.array([3, -3]))
    values = np.array([[[5, 100]], [[5, 100]]], INT)
    assert apply_bs(values, stage, operands).tolist() == [[[9, 20]], [[0, 0]]]
    with pytest.raises(UnknownModeError, match="per channel"):
        apply_bs(values, stage, ChannelOperands())


def table_config(rng: np.random.Generator) -> task_lut.Config:
    entries = rng.integers(-32768, 32768, (2, task_lut.ENTRIES))
    return task_lut.Config(entries, -16384, 0, 16384, 5, 5, task_lut.Slope(-300, 7), task_lut.Slope(16384, 13))


@given(st.integers(-60000, 60000), st.integers(0, 9))
def test_lookup(value: int, seed: int) -> None:
    config = table_config(np.random.default_rng(seed))
    result = lut.apply(np.array([[[value]]], INT), config).item()
    low, high = config.entries.tolist()
    if value < -16384:
        expected = low[0] + (value + 16384) * -300 // 2**7
    elif value > 16384:
        expected = high[512] + (value - 16384) * 16384 // 2**13
    elif value == 16384:
        expected = high[512]
    else:
        table, distance = (low, value + 16384) if value < 0 else (high, value)
        index, rest = divmod(distance, 32)
        expected = table[index] + (table[index + 1] - table[index]) * rest // 32
    assert result == expected


@given(st.floats(-60000, 60000, width=32), st.integers(0, 4))
def test_lookup_of_floats(value: float, seed: int) -> None:
    config = table_config(np.random.default_rng(seed))
    result = lut.apply(np.array([[[value]]], np.float32), config).item()
    low, high = config.entries.tolist()
    if value < -16384:
        expected = low[0] + (value + 16384) * -300 / 2**7
    elif value >= 16384:
        expected = high[512] + (value - 16384) * 16384 / 2**13
    else:
        table, place = (low, (value + 16384) / 32) if value < 0 else (high, value / 32)
        index = min(int(place), 511)
        expected = table[index] + (table[index + 1] - table[index]) * (place - index)
    assert result == np.float32(expected)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**15), 2**15 - 1), st.integers(0, 40), st.booleans())
def test_out_converter(value: int, scale: int, shift: int, add_first: bool) -> None:
    config = task_out_cvt.Config(Precision.INT8, scale, shift, -9, add_first, numerics.Rounding.EVEN, 0)
    result = out_cvt.apply(np.array([[[value]]], INT), config).item()
    expected = exact_shift((value - 9) * scale if add_first else value * scale + (-9 << shift), shift)
    assert result == expected


def test_the_output_converter_rounds_once() -> None:
    """Ties of x / 4 with an odd offset go to the even result: RK3588, 16 scores of PP-OCR's detector."""
    config = task_out_cvt.Config(Precision.INT8, 1, 2, 3, False, numerics.Rounding.EVEN, 0)
    values = np.array([[[-6, -2, 2, 6, 10]]], INT)
    assert out_cvt.apply(values, config).ravel().tolist() == [2, 2, 4, 4, 6]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (EwAlgorithm.MAX, [3, 5]),
        (EwAlgorithm.MIN, [-7, 3]),
        (EwAlgorithm.ADD, [-4, 8]),
        (EwAlgorithm.MINUS, [-10, 2]),
        (EwAlgorithm.ABS, [7, 5]),
        (EwAlgorithm.NEG, [7, -5]),
    ],
)
def test_element_wise_operations(algorithm: EwAlgorithm, expected: list[int]) -> None:
    operation = task_ew.Operation(False, algorithm, 3, None, False, 0, 0)
    values = np.array([[[-7, 5]]], INT)
    assert ew.apply(values, task_ew.Config(None, operation, None), lambda: values).ravel().tolist() == expected


def test_element_wise_operand_converter() -> None:
    """A subtraction comes as an addition with a negative scale."""
    converter = task_ew.Converter(True, 4, -0x4000, 14, numerics.Rounding.EVEN)
    operation = task_ew.Operation(False, EwAlgorithm.ADD, None, converter, False, 0, 0)
    values = np.array([[[100]]], INT)
    result = ew.apply(values, task_ew.Config(None, operation, None), lambda: np.array([[[26]]], INT))
    assert result.item() == 100 - 30


@pytest.mark.parametrize(
    ("limit", "result", "lowest"), [(0xC1000000, 0xBF000000, -0.5), (0xC0800000, 0xBF800000, -1.0)]
)
def test_a_limit_of_floats_is_ordered_as_a_whole_number(limit: int, result: int, lowest: float) -> None:
    """What RK3576's files hold for Clip(-0.5, 2) and Clip(-1, 2): the negated bits, and the bits themselves."""
    registers = {
        "BS_LIMIT_MINIMUM": limit, "BS_LIMIT_MAXIMUM": 0x40000000,
        "BS_CLAMP_MINIMUM": result, "BS_CLAMP_MAXIMUM": 0x40000000,
    }  # fmt: skip
    named = cast("NamedRegisters", lambda name, field: registers[name])
    assert decode_named_dpu.read_clamp(named, "BS", Precision.FP16) == Clamp(2.0, lowest, None)


@pytest.mark.parametrize(
    ("bits", "share"), [(0x7C00, 1), (0x7800, 2), (0x7555, 3), (0x7400, 4), (0x7266, 5), (0x7155, 6), (0x7092, 7)]
)
def test_the_average_of_floats_has_reciprocals_of_17_bits(bits: int, share: int) -> None:
    """The bits are what the vendor writes for windows of 1 to 7; fp16 would read the first one as an infinity."""
    values = np.array([[[0.75]]], np.float32)
    pooled = ppu.pool(values, replace(POOL, reciprocal_width=bits, reciprocal_height=0x7C00))
    np.testing.assert_allclose(pooled, values / share, rtol=2**-11)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_pooling(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(list(PoolingMethod)))
    kernel = data.draw(st.integers(1, 3))
    config = task_ppu.Config(
        method=method, precision=Precision.INT8, source_address=0, source_line_bytes=0, source_surface_bytes=0,
        target_address=0, target_line_bytes=0, target_surface_bytes=0, channels=2, height=6, width=5,
        out_height=2, out_width=2, kernel_height=kernel, kernel_width=kernel, stride_y=2, stride_x=2,
        pad_top=data.draw(st.integers(0, kernel - 1)), pad_left=data.draw(st.integers(0, kernel - 1)), pad_value=-9,
        reciprocal_width=65536 // kernel, reciprocal_height=65536 // kernel,
    )  # fmt: skip
    values = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-128, 128, (2, 6, 5)).astype(INT)
    pooled = ppu.pool(values, config)
    for c, y, x in np.ndindex(pooled.shape):
        window = []
        for row in range(kernel):
            for column in range(kernel):
                at = (y * 2 + row - config.pad_top, x * 2 + column - config.pad_left)
                inside = 0 <= at[0] < 6 and 0 <= at[1] < 5
                window.append(int(values[c, at[0], at[1]]) if inside else None)
        real = [value for value in window if value is not None]
        if method is PoolingMethod.AVERAGE:
            total = sum(-9 if value is None else value for value in window)
            assert pooled[c, y, x] == exact_shift(total * (65536 // kernel) ** 2, 32)
        else:
            assert pooled[c, y, x] == (max if method is PoolingMethod.MAX else min)(real)


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.integers(0, 2))
def test_write_counters(per_pixel: int, width: int, height: int, atoms: int, notch: int) -> None:
    """Every atom lands where the formula puts it, and nothing else is touched."""
    surface, group = 4 * (width + notch) * height, 20 * (width + notch) * height
    config = task_write.Config(
        address=0x1000, per_pixel=per_pixel, width=width, height=height, line_bytes=16 * (width + notch),
        atom_step_bytes=16 * surface, group_step_bytes=16 * group, packed_bytes=None, transposes_atoms=False,
        transposed_lanes=None,
    )  # fmt: skip
    memory = Memory([Buffer(0x1000, np.zeros(1 << 18, np.uint8))])
    stream = np.random.default_rng(0).integers(1, 255, (atoms, 16), np.uint8)
    write.place(stream, config, memory)
    expected = np.zeros((1 << 14, 16), np.uint8)
    for k in range(atoms):
        e, t = k % per_pixel, k // per_pixel
        w, h, g = t % width, t // width % height, t // (width * height)
        expected[g * group + h * (width + notch) + w + e * surface] = stream[k]
    assert np.array_equal(memory.view(0x1000, 1 << 18, "test").reshape(-1, 16), expected)


@pytest.mark.parametrize("lanes", [8, 16])
def test_lane_transpose_goes_over_the_ends_of_surfaces(lanes: int) -> None:
    """RK3588, LPRNet: maps of 3 x 17 pixels, whose surfaces do not end with a run."""
    atoms = np.random.default_rng(2).integers(0, 255, (3, 3, 17, 16), np.uint8)
    stream = write.transpose_lanes(atoms, lanes).reshape(-1, lanes, lanes, 16 // lanes)
    pixels = atoms.reshape(-1, lanes, 16 // lanes)
    assert len(stream) == -(-len(pixels) // lanes)
    for run, lane, at in np.ndindex(stream.shape[:3]):
        pixel = run * lanes + at
        expected = pixels[pixel, lane] if pixel < len(pixels) else 0
        assert np.array_equal(stream[run, lane, at], np.broadcast_to(expected, 16 // lanes))


@pytest.mark.parametrize("lanes", [8, 16])
def test_lane_transpose_is_its_own_inverse(lanes: int) -> None:
    atoms = np.random.default_rng(1).integers(0, 255, (2, 4, lanes, 16), np.uint8)
    once = write.transpose_lanes(atoms, lanes)
    again = write.transpose_lanes(once.reshape(atoms.shape), lanes)
    assert np.array_equal(again, atoms.reshape(-1, 16))
    typed = np.uint16 if lanes == 8 else np.uint8
    assert atoms[0, 0].view(typed)[3, 1] == once.reshape(atoms.shape)[0, 0].view(typed)[1, 3]
