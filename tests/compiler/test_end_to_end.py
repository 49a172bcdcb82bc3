"""Whole models: exact integers for convolutions, closeness to float for the rest, on the strict software NPU."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import openrknn
from openrknn.compiler import compile_model
from openrknn.compiler.errors import CalibrationError, CompileError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.quantise.weights import quantize_weights
from openrknn.compiler.recipes.fixed_point import factor
from openrknn.compiler.verify import verify
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds, small_cnn

pytestmark = pytest.mark.unchecked

SHAPE = (1, 16, 12, 10)


def rounded(values: Array, multiplier: Array | int, shift: int) -> Array:
    """value * multiplier / 2**shift, ties to even, in exact integers."""
    pairs = zip(*np.broadcast_arrays(values, multiplier), strict=True)
    return np.array([round(Fraction(int(value) * int(factor), 2**shift)) for value, factor in pairs])


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_a_convolution_follows_the_integer_rule(relu: bool, adaptive: bool) -> None:
    net = Net()
    out = net.conv("x", 16, 24, 3, pads=[1, 1, 1, 1])
    weight, bias = (entry for entry in net.constants[:2])
    out = net.add("Relu", out) if relu else out
    data = feeds(SHAPE)
    compiled = compile_model(
        net.model({"x": SHAPE}, [out]), calibration=data, bias_correction=False, adaptive_rounding=adaptive
    )
    from onnx import numpy_helper

    real, b = numpy_helper.to_array(weight).astype(np.float64), numpy_helper.to_array(bias).astype(np.float64)
    source, target = (compiled.graph.values[name].quantization for name in ("x", out))
    assert source is not None
    assert target is not None
    # Shallow models are built both ways, and the better one is kept.
    q = compiled.graph.adapted[out][1] if out in compiled.graph.adapted else quantize_weights(real)
    assert adaptive or out not in compiled.graph.adapted
    x = np.clip(np.rint(data[0] / np.float32(source.scale) + source.zero_point), -128, 127).astype(np.int64)[0]
    padded = np.full((16, 14, 12), source.zero_point, np.int64)
    padded[:, 1:-1, 1:-1] = x
    relative = np.clip(np.rint(q.scale / q.scale.max() * 16384), 1, 16384).astype(np.int64)
    whole = factor(source.scale * float(q.scale.max()) / target.scale)
    expected = np.zeros((24, 12, 10), np.int64)
    for o in range(24):
        taps = q.stored[o] - q.zero_point[o]
        windows = np.lib.stride_tricks.sliding_window_view(padded, (16, 3, 3))[0]
        sums = np.einsum("yxckl,ckl->yx", windows, taps) - source.zero_point * taps.sum()
        sums = sums + round(b[o] / (source.scale * q.scale[o]))
        scaled = rounded(sums.reshape(-1), relative[o], 14)
        scaled = np.maximum(scaled, 0) if relu else scaled
        stored = rounded(scaled, whole.multiplier, whole.shift) + target.zero_point
        expected[o] = np.clip(stored, -128, 127).reshape(12, 10)
    with Session(compiled.model, "software") as session:
        found = session.run(data[0], outputs="raw", layout="nchw")[out][0]
    np.testing.assert_array_equal(found, expected)


def _one(kind: str, *extra: object, **attributes: object) -> Callable[[Net], str]:
    def build(net: Net) -> str:
        constants = [net.constant(value) for value in extra]  # type: ignore[arg-type]
        return net.add(kind, "x", *constants, **attributes)

    return build


def _conv(outputs: int, kernel: int, **attributes: object) -> Callable[[Net], str]:
    return lambda net: net.conv("x", 16, outputs, kernel, **attributes)  # type: ignore[arg-type]


def _act(kind: str, **attributes: object) -> Callable[[Net], str]:
    return lambda net: net.add(kind, net.conv("x", 16, 24), **attributes)


def _split(net: Net) -> str:
    net.nodes.append(
        __import__("onnx").helper.make_node("Split", ["x", net.constant([8, 8], np.int64)], ["a", "b"], axis=1)
    )
    return net.add("Concat", "b", net.conv("a", 8, 8), "a", axis=1)


CASES: dict[str, Callable[[Net], str]] = {
    "stride": _conv(20, 3, strides=[2, 2], pads=[1, 0, 1, 2]),
    "dilated": _conv(32, 3, dilations=[2, 2], pads=[2] * 4),
    "depthwise": _conv(16, 3, group=16, pads=[1] * 4),
    "narrow groups": _conv(16, 3, group=4, pads=[1] * 4),
    "one output": _conv(1, 1),
    "leaky": _act("LeakyRelu", alpha=0.2),
    "elu": _act("Elu", alpha=1.0),
    "hard sigmoid": _act("HardSigmoid", alpha=1 / 6, beta=0.5),
    "tanh alone": _one("Tanh"),
    "relu alone": _one("Relu"),
    "leaky alone": _one("LeakyRelu", alpha=0.1),
    "clip below zero": _one("Clip", -0.5, 1.5),
    "add scalar": _one("Add", 0.5),
    "subtract map": lambda net: net.add("Sub", "x", net.constant(net.random.normal(0, 1, SHAPE))),
    "channel scale": lambda net: net.add("Mul", "x", net.constant(net.random.normal(1, 0.2, (1, 16, 1, 1)))),
    "max": lambda net: net.add("Max", net.conv("x", 16, 16), "x"),
    "attention": lambda net: net.add("Mul", "x", net.add("Sigmoid", net.conv("x", 16, 1))),
    "squeeze": lambda net: net.add("Mul", "x", net.add("Sigmoid", net.add("GlobalAveragePool", "x"))),
    "deconvolution": lambda net: net.add(
        "ConvTranspose", "x", net.weights(16, 12, 4, 4), strides=[2, 2], pads=[1] * 4, kernel_shape=[4, 4]
    ),
    "linear resize": lambda net: net.add("Resize", "x", "", net.constant([1, 1, 2, 3]), mode="linear"),
    "matrices": lambda net: net.add("MatMul", "x", net.add("Transpose", "x", perm=[0, 1, 3, 2])),
    "layer norm": lambda net: net.add(
        "LayerNormalization",
        net.add("Reshape", "x", net.constant([1, 40, 48], np.int64)),
        net.constant(net.random.normal(1, 0.2, 48)), net.constant(net.random.normal(0, 0.2, 48)), axis=-1,
    ),
    "feed forward": lambda net: net.add(
        "MatMul",
        net.add("Relu", net.add("MatMul", net.add("Reshape", "x", net.constant([1, 40, 48], np.int64)),
                                net.weights(48, 64))),
        net.weights(64, 24),
    ),
    "softmax of three dimensions": lambda net: net.add(
        "Softmax",
        net.add("Tanh", net.add("Reshape", "x", net.constant([1, 40, 48], np.int64))), axis=2,
    ),
    "average": _one("AveragePool", kernel_shape=[3, 3], strides=[2, 2]),
    "max pool": _one("MaxPool", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4),
    "slice of pixels": lambda net: net.add(
        "Slice", "x", *(net.constant(value, np.int64) for value in ([1, 2], [11, 10], [2, 3], [2, 1]))
    ),
    "split": _split,
    "space to depth": _one("SpaceToDepth", blocksize=2),
    "depth to space": _one("DepthToSpace", blocksize=2),
    "transpose": _one("Transpose", perm=[0, 2, 3, 1]),
    "softmax": _one("Softmax", axis=1),
    "reshape": lambda net: net.add("Reshape", "x", net.constant([1, 16, 120], np.int64)),
    "pad with a value": lambda net: net.add(
        "Pad", "x", net.constant([0, 0, 1, 1, 0, 0, 2, 1], np.int64), net.constant(1.0)
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_operators_are_close_to_float(name: str, form: str) -> None:
    net = Net()
    out = CASES[name](net)
    model = net.model({"x": SHAPE}, [out])
    data = feeds(SHAPE)
    compiled = compile_model(model, calibration=data if form == "int8" else None)
    feed = [{"x": array} for array in data]
    (verdict,) = verify(compiled, feed)
    assert verdict.decibels > (26 if form == "int8" else 55), verdict


@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_a_small_network(form: str) -> None:
    model, shape = small_cnn()
    compiled = compile_model(model, calibration=feeds(shape) if form == "int8" else None)
    (verdict,) = verify(compiled, [{"x": array} for array in feeds(shape)])
    assert verdict.decibels > (28 if form == "int8" else 55)
    types = [step.type for step in compiled.lowering.program.steps]
    assert not any(step.is_cpu for step in compiled.lowering.program.steps)
    assert "Concat" not in types  # written in place


def test_the_same_input_gives_the_same_bytes() -> None:
    model, shape = small_cnn()
    first, second = (compile_model(model, calibration=feeds(shape)).data for _ in range(2))
    assert first == second


def test_pictures_go_in_as_pixels_and_the_model_normalises_them() -> None:
    model, shape = small_cnn()
    pixels = [np.random.default_rng(s).integers(0, 256, (32, 32, 3)).astype(np.uint8) for s in range(3)]
    mean, std = (120.0, 110.0, 100.0), (60.0, 58.0, 57.0)
    compiled = compile_model(model, calibration=pixels, mean=mean, std=std)
    assert compiled.model.inputs[0].is_image
    real = (pixels[0].transpose(2, 0, 1)[None] - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
    from openrknn.compiler.float_model import FloatModel

    out = compiled.graph.outputs[0]
    wanted = dict(FloatModel(model, [out]).run({"x": real.astype(np.float32)}))[out]
    with Session(compiled.model, "software") as session:
        found = session.run(pixels[0])[out]
    assert np.corrcoef(found.reshape(-1), wanted.reshape(-1))[0, 1] > 0.99
    assert shape[2] == 32


def test_the_public_function_returns_a_model() -> None:
    net = Net()
    model = openrknn.compile(net.model({"x": SHAPE}, [net.conv("x", 16, 8)]))
    assert [spec.dtype for spec in model.outputs] == ["float16"]


def test_bad_requests_have_one_clear_message_each() -> None:
    net = Net()
    model = net.model({"x": SHAPE}, [net.conv("x", 16, 8)])
    with pytest.raises(CompileError, match="'rk9999' is not a chip"):
        compile_model(model, "rk9999")
    with pytest.raises(CompileError, match="RV1106B has other registers"):
        compile_model(model, "rv1106b")
    with pytest.raises(CalibrationError, match="int8 needs calibration data"):
        compile_model(model, fp16=False)
    with pytest.raises(CalibrationError, match="no calibration data"):
        compile_model(model, calibration=[])
    with pytest.raises(CalibrationError, match=r"has the shape \[3, 3\], the model wants \[1, 16, 12, 10\]"):
        compile_model(model, calibration=[np.zeros((3, 3))])
    with pytest.raises(CompileError, match="std of input 'x' is 0"):
        compile_model(model, std=0.0)
    with pytest.raises(ValueError, match="method 'guess' is unknown"):
        compile_model(model, method="guess")


def test_large_kernels_are_cut_unless_bold() -> None:
    net = Net()
    model = net.model({"x": (1, 384, 6, 6)}, [net.conv("x", 384, 16, 3, pads=[1] * 4)])
    data = feeds((1, 384, 6, 6))
    safe, bold = (compile_model(model, calibration=data, bold=bold) for bold in (False, True))
    assert [len(entry.model.graphs[0].tasks) for entry in (safe, bold)] == [2, 1]
    feed = [{"x": data[0]}]
    assert verify(bold, feed)[0].decibels >= verify(safe, feed)[0].decibels > 30


def test_a_quantised_model_keeps_its_scales() -> None:
    net = Net()
    q = net.add("QuantizeLinear", "x", net.constant(0.04), net.constant(3, np.int8))
    x = net.add("DequantizeLinear", q, net.constant(0.04), net.constant(3, np.int8))
    stored = net.random.integers(-127, 128, (8, 16, 1, 1))
    w = net.add("DequantizeLinear", net.constant(stored, np.int8), net.constant(np.linspace(0.001, 0.002, 8)),
                net.constant(np.zeros(8), np.int8), axis=0)  # fmt: skip
    c = net.add("Conv", x, w, kernel_shape=[1, 1])
    q2 = net.add("QuantizeLinear", c, net.constant(0.05), net.constant(-5, np.int8))
    out = net.add("DequantizeLinear", q2, net.constant(0.05), net.constant(-5, np.int8))
    compiled = compile_model(net.model({"x": SHAPE}, [out]))
    source, target = compiled.model.inputs[0].quantization, compiled.model.outputs[0].quantization
    assert source is not None
    assert target is not None
    assert source.zero_point == (3,)
    assert source.scale[0] == pytest.approx(0.04)
    assert target.zero_point == (-5,)
    assert target.scale[0] == pytest.approx(0.05)
    weights = next(t for t in compiled.model.graphs[0].tensors if t.shape == (8, 16, 1, 1))
    assert weights.data is not None
    np.testing.assert_array_equal(np.frombuffer(weights.data, np.int8), stored.reshape(-1).astype(np.int8))


def test_boxes_and_scores_do_not_share_a_scale() -> None:
    """One int8 scale for both leaves nothing of the scores: the joined output is fp16, or two outputs when asked."""
    net = Net()
    boxes = net.add("Mul", net.conv("x", 16, 16), net.constant(600.0))
    scores = net.add("Sigmoid", net.conv("x", 16, 16))
    out = net.add("Concat", boxes, scores, axis=1)
    model, data = net.model({"x": SHAPE}, [out]), feeds(SHAPE)
    joined = compile_model(model, calibration=data)
    split = compile_model(model, calibration=data, split_outputs=True)
    assert split.graph.outputs == [boxes, scores]
    with Session(joined.model, "software") as session:
        assert len(np.unique(session.run(data[0], layout="nchw")[out][0, 16:])) > 200
    assert min(verdict.decibels for verdict in verify(split, [{"x": data[0]}])) > 30


def test_auto_is_as_good_as_the_best_of_its_candidates() -> None:
    model, shape = small_cnn()
    data = feeds(shape)
    found = [
        verify(compile_model(model, calibration=data, method=method, bias_correction=correct))[0].decibels
        for method in ("minmax", "mse")
        for correct in (True, False)
    ]
    assert verify(compile_model(model, calibration=data, method="auto"))[0].decibels == max(found)


def test_the_reference_evaluator_calibrates_where_onnx_runtime_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from openrknn.compiler.float_model import FloatModel

    net = Net()
    out = net.add("Relu", net.conv("x", 16, 8))
    model, data = net.model({"x": SHAPE}, [out]), feeds(SHAPE)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert FloatModel(model, [out]).engine == "onnx reference evaluator"
    assert verify(compile_model(model, calibration=data))[0].decibels > 30


def test_projections_in_a_row_turn_the_map_only_at_their_ends() -> None:
    net = Net()
    a = net.add("MatMul", "x", net.weights(32, 64))
    b = net.add("MatMul", a, net.weights(64, 32))
    compiled = compile_model(net.model({"x": (1, 20, 32)}, [b]))
    assert [step.type for step in compiled.lowering.program.steps].count("Transpose") == 2


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "HardSwish", "Gelu", "Softplus"])
def test_a_function_stays_right_far_outside_of_its_table(function: str) -> None:
    net = Net()
    shape = (1, 8, 8, 8)
    value = np.linspace(-60, 60, 512, dtype=np.float32).reshape(shape)
    model = net.model({"x": shape}, [net.add(function, "x")], opset=20 if function == "Gelu" else 17)
    compiled = compile_model(model)
    wanted = dict(FloatModel(compiled.source, ["t1"]).run({"x": value}))["t1"]
    with Session(compiled.model, "software") as session:
        found = session.run(value, layout="nchw")["t1"]
    assert np.abs(found - wanted).max() <= 1e-3 + np.abs(wanted).max() * 2**-11


def test_probabilities_at_the_end_of_an_int8_model_are_not_rounded_to_int8() -> None:
    net = Net()
    out = net.add("Softmax", net.conv("x", 16, 24), axis=1)
    compiled = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE))
    assert [spec.dtype for spec in compiled.model.outputs] == ["float16"]
    assert compiled.model.inputs[0].dtype == "int8"
    assert verify(compiled)[0].decibels > 35
