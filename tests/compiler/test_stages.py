"""Quantise, tile, plan: each alone."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import Activation
from openrknn.compiler.functions import FUNCTIONS, function_for
from openrknn.compiler.link.plan import plan
from openrknn.compiler.program import Program, Step, Tensor
from openrknn.compiler.quantise.ranges import METHODS, quantization_for, squared_error
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.quantise.weights import quantize_weights
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.compiler.targets import RK3588
from openrknn.compiler.tile import Shape, stripes, tile
from openrknn.container.parts import DataType, Kind

FP16, INT8 = RK3588.fp16, RK3588.int8


def test_zero_is_exact_and_the_ends_are_covered() -> None:
    for low, high in ((-1.0, 3.0), (0.0, 6.0), (2.0, 5.0), (-4.0, -1.0), (0.0, 0.0)):
        found = quantization_for(low, high)
        assert -128 <= found.zero_point <= 127
        assert found.low <= min(low, 0) + found.scale
        assert found.high >= max(high, 0) - found.scale


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_outliers_cost_precision_only_with_minmax(method: str) -> None:
    values = np.random.default_rng(0).normal(0, 1, 100_000).astype(np.float32)
    values[::20_000] = 100.0
    seen = Statistics()
    seen.add(values)
    bulk = values[np.abs(values) < 5].astype(np.float64)
    errors = {name: squared_error(bulk, quantization_for(*METHODS[name](seen, None))) for name in ("minmax", method)}
    assert errors[method] < errors["minmax"]


def test_mse_never_has_a_larger_error_than_minmax() -> None:
    for power in (1, 3, 5):
        seen = Statistics()
        seen.add(np.random.default_rng(power).normal(0, 1, 50_000) ** power)
        sample = seen.sample.astype(np.float64)
        errors = [squared_error(sample, quantization_for(*METHODS[name](seen, None))) for name in ("mse", "minmax")]
        assert errors[0] <= errors[1]


def test_weights_come_back_within_half_a_step() -> None:
    weights = np.random.default_rng(0).normal(0, 1, (8, 4, 3, 3))
    weights[3] = 0
    found = quantize_weights(weights)
    assert np.all(np.abs(found.real - weights) <= found.scale.reshape(-1, 1, 1, 1) * 0.51)
    assert np.all(found.real[3] == 0)


def test_factors_have_fifteen_bits() -> None:
    for value in (1e-9, 3e-5, 0.5, 0.99999, 1.0, 100.0):
        multiplier, shift = factor(value)
        assert 1 << 14 <= multiplier < 1 << 15
        assert multiplier / 2**shift == pytest.approx(value, rel=2**-15)
    with pytest.raises(UnsupportedOperatorError, match="no fixed-point form"):
        factor(0.0)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {"pow", "bounds"}])
def test_tables_follow_their_functions(name: str) -> None:
    function = function_for(Activation(name, 0.2, 0.5), 6.0, power_of_two=False)
    x = np.linspace(0.05, function.reach, 4001)
    entries = np.array(function.table.high) / function.gain
    found = np.interp(x, np.linspace(0, function.reach, 513), entries)
    wanted = function.compute(x)
    # `reciprocal` is steep next to zero; all others are smooth enough for straight pieces.
    assert np.max(np.abs(found - wanted)) <= (1.0 if name == "reciprocal" else 5e-3) * np.max(np.abs(wanted))


def shape(**changes: object) -> Shape:
    values: dict[str, object] = {
        "channels": 64, "height": 56, "width": 56, "out_height": 56, "kernel": (3, 3), "stride": 1, "dilation": 1,
        "pad_top": 1, "depthwise": False, "stored_kernels": 64, "kernel_channels": 64, "picture_row": 0,
        "buffer": RK3588.buffer,
    }  # fmt: skip
    return Shape(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        shape(),
        shape(height=224, width=224, out_height=224),
        shape(height=224, width=224, out_height=112, stride=2),
        shape(channels=512, kernel_channels=512, stored_kernels=512, height=28, width=28, out_height=28),
        shape(channels=960, kernel_channels=64, depthwise=True, stored_kernels=1, height=99, width=99, out_height=99),
        shape(channels=3, kernel_channels=16, picture_row=640, height=640, width=640, out_height=320, stride=2),
        shape(height=100, width=200, out_height=200, kernel=(4, 4), pad_top=2, spread=2),
    ],
)
@pytest.mark.parametrize("form", [INT8, FP16])
def test_bands_cover_every_row_once_and_fit_the_buffer(given: Shape, form: object) -> None:
    bands = tile(given, form, "test")  # type: ignore[arg-type]
    for channel in {band.channel for band in bands}:
        mine = [band for band in bands if band.channel == channel]
        rows = [row for band in mine for row in range(band.out_row, band.out_row + band.out_rows)]
        assert rows == list(range(given.out_height))
    for band in bands:
        assert band.data_banks + band.weight_banks <= 12
        assert 0 <= band.row < band.row + band.rows <= given.height
        if given.spread == 1:
            needed = (band.out_rows - 1) * given.stride + given.reach - band.pad_top
            assert band.rows >= min(needed, given.height - band.row)


def test_what_never_fits_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="make the input narrower"):
        tile(shape(channels=2048, kernel_channels=2048, width=2000), INT8, "wide")


def test_stripes_cover_every_column() -> None:
    for width, out, kernel, stride, left in ((640, 640, 5, 1, 2), (13, 13, 13, 1, 6), (300, 150, 3, 2, 1)):
        found = stripes(width, out, (kernel, kernel), (stride, stride), left)
        assert [c for s in found for c in range(s.out_column, s.out_column + s.out_columns)] == list(range(out))
        for stripe in found:
            assert stripe.column + stripe.columns <= width
            assert stripe.pad_left + stripe.columns + stripe.pad_right == (stripe.out_columns - 1) * stride + kernel


def test_tensors_that_live_together_do_not_share_memory() -> None:
    program = Program("p", INT8, ["a"], ["d"], RK3588)
    for name, size in (("a", 640), ("b", 1280), ("c", 640), ("d", 64)):
        kind = Kind.INPUT if name == "a" else Kind.OUTPUT if name == "d" else Kind.INTERNAL
        shape = (1, size, 1, 1)
        program.tensors[name] = Tensor(name, kind, DataType.INT8, shape, "feature", size_bytes=size, atom_bytes=16)
    program.steps = [Step("s", "s", [x], [y]) for x, y in (("a", "b"), ("b", "c"), ("c", "d"))]
    plan(program)
    places = {name: range(t.offset, t.offset + t.size_bytes) for name, t in program.tensors.items()}
    for x, y in (("a", "b"), ("b", "c"), ("c", "d")):
        assert not set(places[x]) & set(places[y])
    assert program.internal_bytes == 1920
