"""int8 and fp16 in one model: borders by exact rules, and precision chosen by what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.errors import CalibrationError, CompileError
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.compiler.verify import verify
from openrknn.runtime.session import Session
from tests.cli.run import run
from tests.compiler.nets import Array, Net, feeds, small_cnn

SHAPE = (1, 16, 6, 5)


def worst(compiled: object) -> float:
    return min(verdict.decibels for verdict in verify(compiled))  # type: ignore[arg-type]


@pytest.mark.parametrize("channels", [8, 16, 24, 40])
@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 700.0])
def test_int8_becomes_fp16_as_the_vendor_does_it(channels: int, magnitude: float) -> None:
    """(stored - zero point) * scale, the scale with 15 bits; seen through an operator that changes nothing."""
    net = Net()
    out = net.add("MaxPool", net.add("Add", "x", "y"), kernel_shape=[1, 1])
    shape = (1, channels, 6, 5)
    data = [{name: values * magnitude for name, values in zip("xy", feeds(shape, 2, seed), strict=True)}
            for seed in range(2)]  # fmt: skip
    model = net.model({"x": shape, "y": shape}, [out])
    whole = compile_model(model, calibration=data)
    mixed = compile_model(model, calibration=data, fp16_layers=["MaxPool_t2"])
    assert [op.type for op in mixed.graph.ops if op.type == "Convert"] == ["Convert"]
    quantization = whole.graph.values["t1"].quantization
    assert quantization is not None
    with Session(whole.model, "software") as first, Session(mixed.model, "software") as second:
        stored = first.run(data[0], outputs="raw", layout={"x": "nchw", "y": "nchw"})[out]
        found = second.run(data[0], outputs="raw", layout={"x": "nchw", "y": "nchw"})[out]
    assert found.dtype == np.float16
    multiplier, shift = factor(quantization.scale)
    exact = (stored.astype(np.float64) - quantization.zero_point) * multiplier / 2.0**shift
    np.testing.assert_allclose(found, exact, rtol=2**-10, atol=quantization.scale / 32)


@pytest.mark.parametrize("channels", [8, 16, 24, 40])
@pytest.mark.parametrize("magnitude", [1e-4, 1.0, 700.0])
def test_fp16_becomes_int8_by_rounding(channels: int, magnitude: float) -> None:
    net = Net()
    relu = net.add("Add", "x", "y")
    out = net.add("Relu", relu)
    shape = (1, channels, 6, 5)
    data = [{name: values * magnitude for name, values in zip("xy", feeds(shape, 2, seed), strict=True)}
            for seed in range(2)]  # fmt: skip
    model = net.model({"x": shape, "y": shape}, [relu, out])
    mixed = compile_model(model, calibration=data, fp16_layers=["Add_t1"])
    target = mixed.graph.values[out].quantization
    between = next(op.output for op in mixed.graph.ops if op.type == "Convert")
    source = mixed.graph.values[between].quantization
    assert source is not None
    assert target is not None
    with Session(mixed.model, "software") as session:
        found = session.run(data[0], outputs="raw", layout={"x": "nchw", "y": "nchw"})
    # The factor is fp16, with a power of two beside it where that is not enough; all in fp32, ties to even.
    power = 2.0 ** max(0, int(np.frexp(1 / source.scale)[1]) - 15)
    gain = np.float32(np.float16(1 / source.scale / power))
    steps = found[relu].astype(np.float32) * gain * np.float32(power) + np.float32(source.zero_point)
    stored = np.clip(np.rint(steps), -128, 127) - source.zero_point
    wanted = np.maximum(stored, 0) * source.scale / target.scale + target.zero_point
    assert found[out].dtype == np.int8
    assert np.abs(found[out] - np.clip(wanted, -128, 127)).max() <= 0.51


def test_every_operator_alone_in_fp16_runs() -> None:
    """Strict software NPU; views, tables, residuals, the picture input, the mean and the classifier at a border."""
    model, shape = small_cnn()
    data = feeds(shape)
    whole = compile_model(model, calibration=data)
    base = worst(whole)
    for op in whole.graph.ops:
        mixed = compile_model(model, calibration=data, fp16_layers=[op.name])
        assert mixed.format_name == "mixed"
        assert worst(mixed) > base - 3, op.name


def test_pictures_of_bytes_with_mean_and_std() -> None:
    model, _ = small_cnn()
    pixels = [np.random.default_rng(n).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8) for n in range(3)]
    options = {"calibration": pixels, "mean": 127.0, "std": 64.0}
    for layers in (["Conv_t1"], ["Conv_t14"]):
        mixed = compile_model(model, fp16_layers=layers, **options)  # type: ignore[arg-type]
        assert worst(mixed) > 30


@pytest.mark.parametrize("bar", [20.0, 50.0, 58.0])
def test_the_asked_bar_is_reached_with_few_operators(bar: float) -> None:
    model, shape = small_cnn()
    data = feeds(shape)
    told: list[tuple[str, int, int]] = []
    mixed = compile_model(
        model, calibration=data, auto_mixed=True, min_snr=bar, progress=lambda *entry: told.append(entry)
    )
    decibels = worst(mixed)
    assert decibels >= bar
    assert decibels == pytest.approx(mixed.mixed_snr_db)
    floats = [choice for choice in mixed.precision if choice.precision == "fp16"]
    assert bool(floats) == (worst(compile_model(model, calibration=data)) < bar)
    assert len(floats) < len(mixed.precision)
    assert all(choice.reason for choice in mixed.precision)
    assert [entry for entry in told if entry[0] == "precision"]
    again = compile_model(model, calibration=data, auto_mixed=True, min_snr=bar)
    assert again.data == mixed.data


def test_a_bar_beyond_fp16_makes_everything_fp16() -> None:
    model, shape = small_cnn()
    mixed = compile_model(model, calibration=feeds(shape), auto_mixed=True, min_snr=150.0)
    assert mixed.format_name == "fp16"
    assert not [op for op in mixed.graph.ops if op.type == "Convert"]
    assert mixed.mixed_snr_db is not None
    assert 55 < mixed.mixed_snr_db < 150


def test_operators_of_the_cpu_on_both_sides() -> None:
    net = Net()
    soft = net.add("Softmax", net.conv("x", 16, 24), axis=1)
    out = net.conv(net.add("Transpose", soft, perm=[0, 1, 3, 2]), 24, 8)
    data = feeds(SHAPE)
    model = net.model({"x": SHAPE}, [out])
    for name in ("Conv_t1", "Softmax_t2", "Conv_t4"):
        assert worst(compile_model(model, calibration=data, fp16_layers=[name])) > 25


def one_conv() -> tuple[onnx.ModelProto, list[Array]]:
    net = Net()
    return net.model({"x": SHAPE}, [net.conv("x", 16, 8)]), feeds(SHAPE)


def test_wrong_names_and_missing_data_are_refused_with_what_to_do() -> None:
    model, data = one_conv()
    with pytest.raises(CompileError, match=r"no operator 'Conv_1'.*Conv_t1"):
        compile_model(model, calibration=data, fp16_layers=["Conv_1"])
    with pytest.raises(CalibrationError, match="calibration data"):
        compile_model(model, auto_mixed=True)
    with pytest.raises(CalibrationError, match="do not ask for fp16"):
        compile_model(model, calibration=data, fp16=True, fp16_layers=["Conv_t1"])


def test_method_auto_goes_together_with_mixed() -> None:
    model, data = one_conv()
    assert worst(compile_model(model, calibration=data, method="auto", auto_mixed=True, min_snr=50.0)) >= 50


def test_the_command_lists_precision_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, shape = small_cnn()
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", feeds(shape)[0])
    words = ["-o", tmp_path / "net.rknn", "--calibrate", tmp_path / "x.npy", "--json"]
    mixed = ["--auto-mixed", "--min-snr", "50", "--fp16-layers", "Conv_t1", "--report", tmp_path / "page.html"]
    result = run(capsys, "compile", tmp_path / "net.onnx", *words, *mixed)
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert facts["format"] == "mixed"
    assert facts["mixed_snr_db"] >= facts["min_snr_db"] == 50
    first = facts["precision"][0]
    assert (first["operator"], first["precision"], first["reason"]) == ("Conv_t1", "fp16", "named in fp16_layers")
    page = (tmp_path / "page.html").read_text()
    assert "int8 and fp16" in page
    assert "named in fp16_layers" in page


def test_fp16_beside_a_norm_is_not_rounded_to_8_bits_in_between() -> None:
    """Norms are fp16 in int8 models, too: where what follows is fp16, nothing is converted there and back."""
    net, shape = Net(), (1, 12, 32)
    first = net.add("MatMul", "x", net.weights(32, 32))
    norm = net.add("LayerNormalization", first, net.constant(np.ones(32)), axis=-1)
    second = net.add("MatMul", norm, net.weights(32, 32))
    last = net.add("MatMul", second, net.weights(32, 16))
    model = net.model({"x": shape}, [last])
    made = compile_model(model, calibration=feeds(shape), fp16_layers=[f"MatMul_{name}" for name in (first, second)],
                         cores=1, check=False)  # fmt: skip
    reads = {name: step for step in made.lowering.program.steps for name in step.inputs}
    twice = [step.name for step in made.lowering.program.steps if step.type == "exDataConvert"
             and any(reads[name].type == "exDataConvert" for name in step.outputs if name in reads)]  # fmt: skip
    assert twice == []


@pytest.mark.parametrize("target", ["rk3588", "rk3566"])
def test_a_table_behind_a_border_reaches_as_far_as_the_data(target: str) -> None:
    """The border's result has no range of its own. A table of exp that reaches to 16 holds nothing below 256."""
    net = Net()
    model = net.model({"x": SHAPE}, [net.add("Exp", "x"), net.conv("x", 16, 16)])
    made = compile_model(model, target, calibration=feeds(SHAPE), fp16_layers=["Exp_t1"])
    assert made.check.snr_db > 35
