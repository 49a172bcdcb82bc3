"""Layer normalisation: fp16 inside int8 models, nothing of it on the CPU but the transpositions."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import Compiled, compile_model
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.lower.bits import ROOT_CONSTANT
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net

pytestmark = pytest.mark.unchecked

LENGTH, CHANNELS = 24, 48


def make(shape: tuple[int, ...], *, eps: float = 1e-5, beta: bool = True) -> tuple[object, Array, Array]:
    net = Net()
    gamma = net.random.normal(1, 0.2, shape[-1]).astype(np.float32)
    shift = net.random.normal(0, 0.2, shape[-1]).astype(np.float32) * beta
    out = net.add("LayerNormalization", "x", net.constant(gamma), net.constant(shift), axis=-1, epsilon=eps)
    return net.model({"x": shape}, [out]), gamma, shift


def snr(wanted: Array, found: Array) -> float:
    return measure(found, wanted).snr_db


def expected(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    wide = x.astype(np.float64)
    d = wide - wide.mean(-1, keepdims=True)
    result: Array = d / np.sqrt((d**2).mean(-1, keepdims=True) + eps) * gamma + beta
    return result


def run(compiled: Compiled, x: Array) -> Array:
    with Session(compiled.model, "software") as session:
        (found,) = session.run(x, layout="nchw" if x.ndim == 4 else None).values()
    return found.reshape(x.shape)


def test_int8_loses_what_its_ends_lose_and_no_more() -> None:
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(0).normal(0.5, 1, shape).astype(np.float32)
    model, gamma, beta = make(shape)
    compiled = compile_model(model, calibration=[x])
    assert compiled.format_name == "int8"
    assert {step.type for step in compiled.lowering.program.steps if step.is_cpu} <= {"Reshape", "Transpose"}
    (source,), (target,) = ([compiled.graph.values[name].quantization for name in names]
                            for names in (compiled.graph.inputs, compiled.graph.outputs))  # fmt: skip
    assert source is not None
    assert target is not None

    def stored(values: Array, scale: float, zero: int) -> Array:
        result: Array = (np.clip(np.rint(values / scale) + zero, -128, 127) - zero) * scale
        return result

    ideal = stored(expected(stored(x, source.scale, source.zero_point), gamma, beta), target.scale, target.zero_point)
    wanted = expected(x, gamma, beta)
    assert snr(wanted, run(compiled, x)) > snr(wanted, ideal) - 0.1


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_quiet_rows_beside_loud_ones(form: str) -> None:
    """Newton's method is as exact for each row; a table over all variances would not be."""
    shape = (1, LENGTH, CHANNELS)
    loud = 10.0 ** np.linspace(-1, 1 if form == "int8" else 2, LENGTH)[None, :, None]
    x = (np.random.default_rng(1).normal(0, 1, shape) * loud).astype(np.float32)
    model, gamma, beta = make(shape)
    compiled = compile_model(model, calibration=[x] if form == "int8" else None)
    wanted, found = expected(x, gamma, beta), run(compiled, x)
    rows = [snr(wanted[0, row], found[0, row]) for row in range(LENGTH)]
    assert min(rows) > (60 if form == "fp16" else 3)  # int8: a step of the input is as large as the quietest row
    assert min(rows[LENGTH // 2 :]) > (60 if form == "fp16" else 22)


def test_numbers_whose_squares_are_too_large_for_fp16() -> None:
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(2).uniform(-900, 900, shape).astype(np.float32)
    model, gamma, beta = make(shape, beta=False)
    wanted = expected(x, gamma, beta)
    assert snr(wanted, run(compile_model(model), x)) > 60
    assert snr(wanted, run(compile_model(model, calibration=[x]), x)) > 35


def test_one_channel_that_is_far_larger_than_the_others() -> None:
    """As in trained transformers: its square alone is beyond fp16, the variance is not."""
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(2).normal(0, 3, shape).astype(np.float32)
    x[..., 7] = 3500
    model, gamma, beta = make(shape)
    assert snr(expected(x, gamma, beta), run(compile_model(model), x)) > 55


def test_maps_with_channels_last() -> None:
    shape = (1, 6, 5, 40)
    x = np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)
    model, gamma, beta = make(shape)
    wanted = expected(x, gamma, beta)
    assert snr(wanted, run(compile_model(model), x)) > 60
    assert snr(wanted, run(compile_model(model, calibration=[x]), x)) > 35


def test_named_in_fp16_layers_its_result_is_fp16_too() -> None:
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(4).normal(0, 1, shape).astype(np.float32)
    model, gamma, beta = make(shape)
    compiled = compile_model(model, calibration=[x], fp16_layers=["LayerNormalization_t1"])
    (name,) = compiled.graph.outputs
    assert compiled.graph.values[name].quantization is None
    assert snr(expected(x, gamma, beta), run(compiled, x)) > 41  # what is left is the rounding of the int8 input


def test_the_first_estimate_is_the_best_constant() -> None:
    bits = np.arange(0x3C00, 0x4400).astype(np.uint16)  # 1 to 4: everything else repeats that
    roots = np.sqrt(bits.view(np.float16).astype(np.float64))

    def error(constant: int) -> float:
        estimates = (constant - (bits.astype(np.int64) >> 1)).astype(np.uint16).view(np.float16).astype(np.float64)
        return float(np.abs(estimates * roots - 1).max())

    assert error(ROOT_CONSTANT) < 0.035
    assert error(ROOT_CONSTANT) == min(error(constant) for constant in range(ROOT_CONSTANT - 40, ROOT_CONSTANT + 40))


def test_a_chip_that_cannot_mix_says_so() -> None:
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)
    model, _, _ = make(shape)
    with pytest.raises(UnsupportedOperatorError, match="this chip cannot mix the two"):
        compile_model(model, "rv1106", calibration=[x])


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(1, CHANNELS), (1, LENGTH, CHANNELS)])
def test_written_out_with_large_numbers(shape: tuple[int, ...], affine: bool) -> None:
    """Squares beyond 65504: one row, and norms without scale and bias, are recognised too. Stands on float64."""
    net, ones = Net(), np.ones(CHANNELS)
    d = net.add("Sub", "x", net.add("ReduceMean", "x", axes=[-1]))
    mean = net.add("ReduceMean", net.add("Pow", d, net.constant(2.0)), axes=[-1])
    out = net.add("Div", d, net.add("Sqrt", net.add("Add", mean, net.constant(1e-5))))
    if affine:
        out = net.add("Add", net.add("Mul", out, net.constant(2 * ones)), net.constant(ones))
    x = np.random.default_rng(2).normal(5, 200, shape).astype(np.float32)
    wanted = expected(x, 2 * ones, ones) if affine else expected(x, ones, 0 * ones)
    assert snr(wanted, run(compile_model(net.model({"x": shape}, [out], opset=11)), x)) > 50


def test_one_row_that_is_only_centred() -> None:
    net = Net()
    out = net.add("Sub", "x", net.add("ReduceMean", "x", axes=[-1]))
    x = np.random.default_rng(2).normal(5, 20, (1, CHANNELS)).astype(np.float32)
    assert snr(x - x.mean(), run(compile_model(net.model({"x": x.shape}, [out], opset=11)), x)) > 50


@pytest.mark.parametrize("chip", ["rk3588", "rk3576", "rk3566", "rk3562"])
def test_numbers_of_any_size(chip: str) -> None:
    """Rows from 0.003 to 300 and one with a residual of 25,000, without calibration. Stands on float64."""
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(2).normal(0, 1, shape) * np.geomspace(0.003, 300, LENGTH)[None, :, None]
    x[0, 3, 7], x[0, 4] = 25000, 0
    x = x.astype(np.float16).astype(np.float32)
    model, gamma, beta = make(shape)
    wanted, found = expected(x, gamma, beta), run(compile_model(model, chip), x)
    assert min(snr(wanted[0, row], found[0, row]) for row in range(LENGTH)) > 57


@pytest.mark.parametrize(("mean", "deviation"), [(5, 1), (200, 10), (-1000, 10)])
def test_a_mean_far_above_the_deviation(mean: float, deviation: float) -> None:
    """The mean has eleven bits in fp16: one subtraction leaves 54, 45 and 30 dB. Stands on float64."""
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(2).normal(mean, deviation, shape).astype(np.float16).astype(np.float32)
    model, gamma, beta = make(shape)
    assert snr(expected(x, gamma, beta), run(compile_model(model), x)) > 60


@pytest.mark.parametrize("form", ["Div", "Reciprocal", "Pow"])
def test_rms_norms_of_any_size(form: str) -> None:
    """As language models have them: position 0 reaches 25,000, and its square is beyond fp16. Stands on float64."""
    net, shape = Net(), (1, LENGTH, 64)
    mean = net.add("ReduceMean", net.add("Pow", "x", net.constant(2.0)), axes=[-1])
    mean = net.add("Add", mean, net.constant(1e-5))
    if form == "Pow":
        root = net.add("Pow", mean, net.constant(-0.5))
    elif form == "Div":
        root = net.add("Div", net.constant(1.0), net.add("Sqrt", mean))
    else:
        root = net.add("Reciprocal", net.add("Sqrt", mean))
    gamma = net.random.normal(1, 0.2, 64).astype(np.float32)
    model = net.model({"x": shape}, [net.add("Mul", net.constant(gamma), net.add("Mul", "x", root))])
    x = np.random.default_rng(3).normal(0, 1, shape) * np.geomspace(0.003, 300, LENGTH)[None, :, None]
    x[0, 0, 5], x[0, 1], x[0, 2, 9] = 25000, 0, -60000
    x = x.astype(np.float16).astype(np.float64)
    wanted = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma
    compiled = compile_model(model)
    assert {step.type for step in compiled.lowering.program.steps if step.is_cpu} <= {"Reshape", "Transpose"}
    found = run(compiled, x.astype(np.float32))
    assert min(snr(wanted[0, row], found[0, row]) for row in range(LENGTH)) > 57
    calibrated = run(compile_model(model, calibration=[x.astype(np.float32)]), x.astype(np.float32))
    assert np.isfinite(calibrated).all()


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-12])
def test_epsilon_is_of_the_true_size(eps: float) -> None:
    """Beside numbers whose variance is as small as epsilon, and smaller. Stands on float64."""
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(2).normal(0, 1, shape) * np.geomspace(0.0005, 1, LENGTH)[None, :, None]
    x = x.astype(np.float16).astype(np.float32)
    model, gamma, beta = make(shape, eps=eps, beta=False)
    wanted, found = expected(x, gamma, beta, eps), run(compile_model(model), x)
    assert min(snr(wanted[0, row], found[0, row]) for row in range(LENGTH)) > 50


def test_a_quantised_model_without_calibration() -> None:
    """A model that states its ranges (QDQ): differences above 16 once overflowed. Stands on ONNX Runtime."""
    shape, scale = (1, LENGTH, CHANNELS), 1.0
    net = Net()
    pair = net.constant(scale), net.constant(0, np.int8)
    held = net.add("DequantizeLinear", net.add("QuantizeLinear", "x", *pair), *pair)
    normed = net.add("LayerNormalization", held, net.constant(np.ones(CHANNELS)), net.constant(np.zeros(CHANNELS)))
    pair = net.constant(0.04), net.constant(0, np.int8)
    out = net.add("DequantizeLinear", net.add("QuantizeLinear", normed, *pair), *pair)
    x = np.random.default_rng(4).normal(0, 30, shape).astype(np.float32)
    compiled = compile_model(net.model({"x": shape}, [out]))
    assert compiled.format_name == "int8"
    stored = np.clip(np.rint(x / scale), -128, 127) * scale
    wanted = expected(stored, np.ones(CHANNELS), np.zeros(CHANNELS))
    assert snr(wanted, run(compiled, x)) > 35


def test_int8_of_small_numbers() -> None:
    """Calibrated on numbers of 0.001, which once was refused with the advice to compile in int8."""
    shape = (1, LENGTH, CHANNELS)
    x = np.random.default_rng(5).normal(0, 0.001, shape).astype(np.float32)
    model, gamma, beta = make(shape)
    assert snr(expected(x, gamma, beta), run(compile_model(model, calibration=[x]), x)) > 30
