"""`accuracy_drop`: networks that need a technique, the bound, what is chosen, and warnings where it cannot be held."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from openrknn.compiler import compile_model
from openrknn.compiler.accuracy.judge import LossJudge
from openrknn.compiler.accuracy.precision import rank_by_time
from openrknn.compiler.errors import CalibrationError, OptionError
from openrknn.compiler.importer import import_model
from openrknn.compiler.normalise import normalise
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.quantise.equalise import equalise, pairs_of
from openrknn.compiler.sensitivity import Noise
from openrknn.compiler.targets import RK3588
from openrknn.container.model import Model
from tests.cli.run import run
from tests.compiler.nets import Array, Net, feeds
from tests.compiler.test_equalise import SHAPE, uneven
from tests.compiler.test_qdq import CHANNELS, build


def test_uneven_channels_are_equalised_and_stay_int8() -> None:
    model, data = uneven(1, 6.0), feeds(SHAPE, 6)
    told: list[str] = []
    made = compile_model(
        model, calibration=data, accuracy_drop="2%", check=False, progress=lambda stage, done, of: told.append(stage)
    )
    found = made.accuracy
    assert found is not None
    assert found.is_held
    assert found.chosen.startswith("int8, equalised channels")
    assert found.attempts[0].name == "int8"
    assert found.attempts[0].loss > 0.02 > found.loss
    assert made.format_name == "int8"
    assert found.attempts[0].time_ms == pytest.approx(made.costs[1].time_ms)  # it takes no longer on the NPU
    again = compile_model(model, calibration=data, accuracy_drop=0.02, check=False)
    assert again.data == made.data


def test_a_bound_that_int8_holds_changes_nothing() -> None:
    net = Net()
    model = net.model({"x": SHAPE}, [net.conv("x", 8, 8, 3)])
    data = feeds(SHAPE, 4)
    made = compile_model(model, calibration=data, accuracy_drop=0.2, check=False)
    assert made.accuracy is not None
    assert [entry.name for entry in made.accuracy.attempts] == ["int8"]
    assert made.data == compile_model(model, calibration=data, check=False).data


def mixed_net() -> tuple[onnx.ModelProto, list[Array]]:
    """Many small numbers minus about the same: the last operators need more than 8 bits, the first ones do not."""
    net = Net(3)
    value = "x"
    for _ in range(3):
        value = net.add("Relu", net.conv(value, 8, 8, 3, pads=[1] * 4))
    left = net.conv(value, 8, 8)
    close = net.add("Mul", left, net.constant(np.full((1, 8, 1, 1), 1.15)))
    right = net.add("Sigmoid", close)
    out = net.add("Sub", net.add("Mul", right, net.constant(np.full((1, 8, 1, 1), 30.0))),
                  net.add("Mul", net.add("Sigmoid", left), net.constant(np.full((1, 8, 1, 1), 30.0))))  # fmt: skip
    return net.model({"x": (1, 8, 8, 8)}, [out]), feeds((1, 8, 8, 8), 4)


def test_where_int8_is_not_enough_some_operators_are_fp16() -> None:
    model, data = mixed_net()
    made = compile_model(model, calibration=data, accuracy_drop="1%", check=False)
    found = made.accuracy
    assert found is not None
    assert found.is_held
    assert min(entry.loss for entry in found.attempts if entry.name.startswith("int8,")) > 0.01
    assert found.chosen in {"int8 and fp16", "fp16"}
    names = [entry.name for entry in found.attempts]
    assert names[-2:] == ["int8 and fp16", "fp16"]
    times = {entry.name: entry.time_ms or 0.0 for entry in found.attempts if entry.loss <= 0.01}
    assert times[found.chosen] == min(times.values())
    assert compile_model(model, calibration=data, accuracy_drop="1%", check=False).data == made.data


def test_operators_become_fp16_by_what_they_gain_for_their_time() -> None:
    noise = Noise(np.array([1.0]), {"a": np.array([4e-3]), "b": np.array([3e-3]), "c": np.array([1e-4])})
    assert rank_by_time(noise, ["a", "b", "c"], {"a": 1e-3, "b": 1e-4, "c": 1e-4}) == ["b", "a", "c"]
    assert rank_by_time(noise, ["a", "b", "c"], dict.fromkeys("abc", 0.0)) == ["a", "b", "c"]


def test_what_cannot_be_held_is_said(caplog: pytest.LogCaptureFixture) -> None:
    net = Net()
    model = net.model({"x": SHAPE}, [net.conv("x", 8, 8, 3)])
    with caplog.at_level(logging.WARNING):
        made = compile_model(model, calibration=feeds(SHAPE, 4), accuracy_drop=1e-9, check=False)
    assert made.accuracy is not None
    assert not made.accuracy.is_held
    assert made.accuracy.loss == min(entry.loss for entry in made.accuracy.attempts)
    assert "cannot be held" in caplog.text
    assert "NOT held" in made.accuracy.text


def test_your_own_metric_decides() -> None:
    model, data = mixed_net()
    asked: list[str] = []

    def metric(compiled: Model | None) -> float:
        asked.append("float" if compiled is None else "compiled")
        return 0.8

    made = compile_model(model, calibration=data, accuracy_drop="1%", metric=metric, check=False)
    assert made.accuracy is not None
    assert made.accuracy.chosen == "int8"
    assert made.accuracy.against == "metric"
    assert asked == ["float", "compiled"]


@pytest.mark.parametrize("given", ["0", "100%", "abc", "-1%", 0.0, 1.5, "nan"])
def test_a_share_that_is_none_is_refused(given: float | str) -> None:
    with pytest.raises(OptionError, match="accuracy_drop is what may be lost"):
        CompileOptions(accuracy_drop=given)


def test_what_contradicts_it_is_refused() -> None:
    net = Net()
    model = net.model({"x": SHAPE}, [net.conv("x", 8, 8)])
    with pytest.raises(OptionError, match="leave out fp16 and auto_mixed"):
        CompileOptions(accuracy_drop="1%", fp16=True)
    with pytest.raises(OptionError, match="say how much may be lost"):
        CompileOptions(metric=lambda compiled: 1.0)
    with pytest.raises(CalibrationError, match="accuracy_drop measures on calibration data"):
        compile_model(model, accuracy_drop="1%")


def test_a_chip_without_fp16_tries_int8_alone() -> None:
    net = Net()
    model = net.model({"x": SHAPE}, [net.conv("x", 8, 8, 3)])
    made = compile_model(model, "rv1106", calibration=feeds(SHAPE, 4), accuracy_drop=1e-9, check=False)
    assert made.accuracy is not None
    assert made.accuracy.warning
    assert all(entry.name.startswith("int8") for entry in made.accuracy.attempts)
    assert "int8 and fp16" not in [entry.name for entry in made.accuracy.attempts]


def bounded(seed: int = 0) -> onnx.ModelProto:
    """conv - ReLU6 - depthwise - ReLU6 - conv with channels of very different size, all below the bound."""
    net = Net(seed)
    value = net.add("Clip", net.conv("x", 8, 16, 3), net.constant(0.0), net.constant(6.0))
    value = net.add("Clip", net.conv(value, 16, 16, 3, group=16), net.constant(0.0), net.constant(6.0))
    model = net.model({"x": SHAPE}, [net.conv(value, 16, 8)])
    constants = {entry.name: entry for entry in model.graph.initializer}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    size = np.exp(np.random.default_rng(seed).uniform(-5, 0, 16)).astype(np.float32)
    for name in convs[0].input[1:]:
        array = numpy_helper.to_array(constants[name])
        constants[name].CopyFrom(numpy_helper.from_array(array * size.reshape(-1, *[1] * (array.ndim - 1)), name))
    reader = numpy_helper.to_array(constants[convs[1].input[1]])
    changed = numpy_helper.from_array(reader / size.reshape(-1, 1, 1, 1), convs[1].input[1])
    constants[convs[1].input[1]].CopyFrom(changed)
    return model


def test_relu6_is_equalised_below_its_bound() -> None:
    model, data = bounded(), feeds(SHAPE, 6)
    imported = import_model(model)
    normalise(imported.graph, atom=16, target=RK3588)
    assert len(pairs_of(imported.graph)) == 2
    assert equalise(imported.graph, imported.model, [{"x": values} for values in data]) == 2
    plain, even = (
        compile_model(model, calibration=data, equalize=equal, method="minmax", adaptive_rounding=False)
        for equal in (False, True)
    )
    assert even.check.snr_db > plain.check.snr_db + 4


def test_int8_that_loses_much_is_equalised_without_being_asked() -> None:
    model, data = uneven(1, 6.0), feeds(SHAPE, 6)
    made = compile_model(model, calibration=data)
    plain = compile_model(model, calibration=data, check=False)
    assert made.data != plain.data
    assert made.data == compile_model(model, calibration=data, equalize=True, check=False).data


def test_int8_that_loses_much_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    model, data = mixed_net()
    with caplog.at_level(logging.WARNING):
        made = compile_model(model, calibration=data)
    assert made.check.loss > 0.01
    assert "--accuracy-drop 1%" in caplog.text
    assert made.check.as_json()["losses"][0]["kind"] == "numbers"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(uneven(1, 6.0), tmp_path / "net.onnx")
    for number, values in enumerate(feeds(SHAPE, 4)):
        np.save(tmp_path / f"{number}.npy", values)
    data = [str(tmp_path / f"{number}.npy") for number in range(4)]
    target = str(tmp_path / "net.rknn")
    source = str(tmp_path / "net.onnx")
    result = run(capsys, "compile", source, "-o", target, "--accuracy-drop", "2%", "--calibrate", *data)
    assert result.code == 0, result.err
    assert "tried    int8: loses" in result.out
    assert "chosen   int8, equalised channels" in result.out
    told = run(
        capsys, "compile", source, "-o", target, "--force", "--json", "--accuracy-drop", "0.02",
        "--calibrate", *data,
    )  # fmt: skip
    accuracy = json.loads(told.out)["accuracy"]
    assert accuracy["is_held"]
    assert accuracy["bound"] == 0.02
    assert run(capsys, "compile", source, "-o", target, "--accuracy-drop", "soon").code != 0


def test_a_quantised_model_keeps_its_scales() -> None:
    model = build("uint8", "int8", per_channel=True)
    data = feeds((1, CHANNELS, 12, 10), 4)
    made = compile_model(model, calibration=data, accuracy_drop=0.5, check=False)
    assert made.accuracy is not None
    assert made.accuracy.chosen == "int8"
    assert made.data == compile_model(model, check=False).data
    tight = compile_model(model, calibration=data, accuracy_drop=1e-9, check=False)
    assert tight.accuracy is not None
    assert {entry.name for entry in tight.accuracy.attempts} <= {"int8", "int8 and fp16"}  # no recipe changes ranges


def test_boxes_and_scores_in_one_output_hold_the_bound() -> None:
    """Ultralytics' form: boxes in pixels and scores of 0 to 1 share one output, but no scale."""
    net = Net(5)
    stem = net.add("Relu", net.conv("x", 8, 16, 3, pads=[1] * 4))
    boxes = net.add("Mul", net.add("Sigmoid", net.conv(stem, 16, 4)), net.constant(np.full((1, 4, 1, 1), 300.0)))
    scores = net.add("Sigmoid", net.add("Mul", net.conv(stem, 16, 3), net.constant(np.full((1, 3, 1, 1), 3.0))))
    size = net.constant([1, -1, 64], np.int64)
    parts = [net.add("Reshape", value, size) for value in (boxes, scores)]
    model = net.model({"x": (1, 8, 8, 8)}, [net.add("Concat", *parts, axis=1)])
    made = compile_model(model, calibration=feeds((1, 8, 8, 8), 4), accuracy_drop="5%", check=False)
    assert made.accuracy is not None
    assert made.accuracy.is_held
    (output,) = made.accuracy.as_json()["outputs"]
    assert output["kind"] == "detections"


def test_one_odd_input_does_not_take_the_steps_of_all_others() -> None:
    """A value that one calibration input drives far beyond: min-max holds it, ranges by percentile leave it out."""
    net = Net(7)
    large = net.add("Relu", net.conv("x", 8, 8))
    for _ in range(2):
        large = net.add("Mul", large, large)
    model = net.model({"x": SHAPE}, [net.add("Tanh", net.conv(large, 8, 8))])
    data = feeds(SHAPE, 40)
    data[0][0, :, 4, 3] *= 4.0
    usual = data[8:24]
    losses = []
    for method in ("minmax", "percentile"):
        made = compile_model(model, calibration=data, method=method, check=False)
        variant = made.variants[0]
        judge = LossJudge(variant.source, variant.graph, [{"x": entry} for entry in usual], made.preprocess)
        losses.append(judge.loss(made.model)[0])
    assert losses[1] < 0.7 * losses[0]
