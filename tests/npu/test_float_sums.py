"""Sums of fp16 and bf16 whose weights are mostly 0, and whose inputs are infinite or no numbers: the bits of NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openrknn.compute import native
from openrknn.isa import Precision
from openrknn.npu.task import Convolution, Flying
from openrknn.runtime.operators.softmax import softmax
from openrknn.task import ew, lut
from openrknn.task.stage import Stage
from tests.npu.accelerate_cases import (
    OPERAND,
    SOURCE,
    WEIGHTS,
    Case,
    float_convolutions,
    float_flights,
    poolings,
)

pytestmark = pytest.mark.skipif(not native.find(), reason="no native kernels")
some = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@some
@given(float_convolutions(depthwise=False), st.integers(0, 2**32 - 1), st.booleans())
def test_taps_without_weights_are_left_out(case: Case, seed: int, with_infinite: bool) -> None:
    """A kernel of few weights, as a compiler writes to move numbers; 0 times infinity is still no number."""
    noise = np.random.default_rng(seed)
    weights = case.memory.at(WEIGHTS, 1, "weights").data.view(np.uint16)
    weights[...] = np.where(noise.random(weights.size) < 0.02, weights, noise.choice([0, 0x8000], weights.size))
    if with_infinite:
        source = case.memory.at(SOURCE, 1, "source").data.view(np.uint16)
        places = noise.choice(source.size, 200)
        source[places] = noise.choice([0x7C00, 0xFC00, 0x7E00, 0x7F80, 0xFF80], places.size)
    case.check()


@some
@given(float_convolutions(depthwise=False, single=True), st.integers(0, 2**32 - 1), st.booleans())
def test_one_pixel_is_the_same(case: Case, seed: int, with_rare: bool) -> None:
    """A step of a decoder: kernels for one row read weights in another way, and have one for infinite weights."""
    noise = np.random.default_rng(seed)
    if with_rare:
        weights = case.memory.at(WEIGHTS, 1, "weights").data.view(np.uint16)
        places = noise.choice(weights.size, weights.size // 2000)
        weights[places] = noise.choice([0x7C00, 0xFC00, 0x7E00, 0x7F80, 0x0001, 0x8001, 0x03FF, 0x7BFF], places.size)
    case.check()


@some
@given(
    st.booleans().flatmap(lambda matrix: float_convolutions(depthwise=False, matrix=matrix)),
    st.integers(0, 2**32 - 1), st.booleans(),
)  # fmt: skip
def test_sums_of_one_kernel_are_the_same(case: Case, seed: int, with_infinite: bool) -> None:
    """Sums of all channels, as softmax needs them; the last kernel can also be alone in its block."""
    step, noise = case.step, np.random.default_rng(seed)
    assert isinstance(step, Convolution)
    values, weights = (case.memory.at(address, 1, "values").data.view(np.uint16) for address in (SOURCE, WEIGHTS))
    for numbers in (values, weights):  # whose sums depend on their order
        numbers[...] = noise.normal(0, 1, numbers.size).astype(np.float16).view(np.uint16)
    if with_infinite:
        values[noise.choice(values.size, 20)] = noise.choice([0x7C00, 0xFC00, 0x7E00], 20)
        weights[: weights.size // 512 * 512].reshape(-1, 512)[noise.random(weights.size // 512) < 0.5] = 0
    source = replace(step.source, kernels=(step.source.kernels - 1) // 16 * 16 + 1)
    program = replace(
        step.dpu, bias=None, norm=None, element_wise=None, out=replace(step.dpu.out, precision=Precision.FP32)
    )
    Case(replace(step, source=source, dpu=program), case.memory).check()


@some
@given(float_convolutions(depthwise=False, matrix=True), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_channels_with_the_same_weights_are_the_same(case: Case, seed: int, is_plain: bool, is_same: bool) -> None:
    """A number for all channels of a pixel; not where one kernel, or one operand of the DPU, is another one."""
    step, noise = case.step, np.random.default_rng(seed)
    assert isinstance(step, Convolution)
    weights = case.memory.at(WEIGHTS, 1, "weights").data.view(np.uint16)
    weights[...] = np.tile(noise.normal(0, 1, 8).astype(np.float16).view(np.uint16), weights.size // 8)
    if not is_same:
        weights[noise.integers(8 * step.source.kernels)] = 0x3C00
    bias = None if is_plain else Stage(addend=None, adds=True, subtracts=False, scaling=None, clamp=None, is_float=True)
    out = replace(step.dpu.out, precision=Precision.FP16)
    program = replace(step.dpu, bias=bias, norm=None, element_wise=None, out=out)
    source = replace(step.source, channels=8, weight_channels=8)
    Case(replace(step, source=source, dpu=program), case.memory).check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@some
@given(float_flights(single=True))
def test_element_wise_programs_of_one_pixel_are_the_same(case: Case) -> None:
    case.check()


@some
@given(float_convolutions(depthwise=False, matrix=True), st.integers(0, 2**32 - 1))
def test_weights_of_matrices_are_packed_the_same(case: Case, seed: int) -> None:
    """Whole groups of kernels and channels have a way of their own; some of their taps have no weights."""
    noise = np.random.default_rng(seed)
    weights = case.memory.at(WEIGHTS, 1, "weights").data.view(np.uint16)
    for first in noise.choice(weights.size // 512, 40) * 512:
        weights[first : first + 512].reshape(16, 4, 8)[:, noise.integers(4)] = noise.choice([0, 0x8000])
    case.check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@some
@given(float_flights(), st.integers(0, 2**32 - 1))
def test_element_wise_programs_of_what_is_not_finite_are_the_same(case: Case, seed: int) -> None:
    """Infinities, what is no number, the smallest and the largest numbers, through every stage and every table."""
    noise = np.random.default_rng(seed)
    for address in (SOURCE, OPERAND):
        values = case.memory.at(address, 1, "values").data.view(np.uint16)
        places = noise.choice(values.size, values.size // 2)
        rare = [0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x7F80, 0xFF80]
        values[places] = noise.choice(rare, places.size)
    case.check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@some
@given(
    float_flights(), st.integers(0, 2**32 - 1), st.tuples(st.integers(3, 6), st.integers(3, 6)),
    st.sampled_from([0, -30000, 7]), st.booleans(),
)  # fmt: skip
def test_tables_of_any_numbers_are_the_same(
    case: Case, seed: int, selects: tuple[int, int], below: int, meets: bool
) -> None:
    """At entries, at both ends, next to 0, and where rounding decides; tables that do not fit together too."""
    noise = np.random.default_rng(seed)
    size = noise.choice([3, 300, 32767])
    starts = -(512 << selects[0]) + (0 if meets else 40), 0 if meets else -24
    table = lut.Config(
        entries=noise.integers(-size, size + 1, (2, 513)), le_start=starts[0], lo_start=starts[1],
        lo_end=512 << selects[1], le_select=selects[0], lo_select=selects[1],
        below=lut.Slope(below, 3), above=lut.Slope(int(noise.choice([0, 21854])), 5),
    )  # fmt: skip
    values = case.memory.at(SOURCE, 1, "values").data.view(np.uint16)
    usual = noise.integers(-513, 514, values.size) * 2.0 ** noise.choice([3, 4, 5, 6, -12, -20, 0], values.size)
    values[...] = np.where(noise.random(values.size) < 0.01, values, usual.astype(np.float16).view(np.uint16))
    step = case.step
    assert isinstance(step, Flying)
    program = replace(step.dpu, bias=None, norm=None, element_wise=ew.Config(table=table, operation=None, clamp=None))
    Case(replace(step, dpu=program), case.memory).check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@some
@given(poolings(precision=Precision.FP16), st.integers(0, 2**32 - 1), st.booleans())
def test_poolings_of_zeros_and_of_what_is_not_finite_are_the_same(case: Case, seed: int, with_rare: bool) -> None:
    """Of zeros with two signs the last one counts, a sum of -0 is -0 unless there is padding, and NaN stays."""
    noise = np.random.default_rng(seed)
    values = case.memory.at(SOURCE, 1, "values").data.view(np.uint16)
    values[...] = noise.choice([0, 0x8000, 0x8000, 0x8000], values.size)
    if with_rare:
        places = noise.choice(values.size, values.size // 8)
        values[places] = noise.choice([0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x8001, 0x7BFF], places.size)
    case.check()


@pytest.mark.parametrize(("shape", "size"), [((3, 5, 41), 1), ((2, 64), 40), ((4, 3), 2), ((7, 9), 1e30), ((6, 1), 1)])
def test_softmax_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], size: float) -> None:
    values = (np.random.default_rng(7).standard_normal(shape) * size).astype(np.float32)
    values.flat[0] = 0
    fast = softmax([values], {}, shape)
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    assert np.array_equal(softmax([values], {}, shape).view(np.uint32), fast.view(np.uint32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_softmax_of_what_is_not_finite_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([[1, 2, 3, 4, 5], [-np.inf, 0, 1, 2, 3]], np.float32)
    fast = softmax([values], {}, values.shape)
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    assert np.array_equal(softmax([values], {}, values.shape), fast)
    assert fast[1, 0] == 0
