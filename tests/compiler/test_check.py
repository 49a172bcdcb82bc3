"""Every build is run once: a mistake is found before anybody gets the file, honest loss is not one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.cli.main import main
from openrknn.compiler import compile_model, lower, pipeline
from openrknn.compiler.check import check
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.lower import convolution
from openrknn.compiler.rounded import rounded_model
from openrknn.compiler.verify import verify
from openrknn.npu.machine import Machine
from openrknn.npu.task import Program, TaskRef
from openrknn.runtime.inspector import Inspector
from openrknn.runtime.session import Session, inspector_of
from openrknn.task.kinds import Convolution
from tests.compiler.nets import Net, feeds
from tests.compiler.test_attention import attention

SHAPE = (1, 16, 8, 8)


def network() -> onnx.ModelProto:
    net = Net()
    a = net.add("Relu", net.conv("x", 16, 16, 3, pads=[1, 1, 1, 1]))
    b = net.add("Relu", net.conv(a, 16, 24, 3, pads=[1, 1, 1, 1]))
    return net.model({"x": SHAPE}, [net.conv(b, 24, 8)])


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_what_is_right_is_said(form: str) -> None:
    compiled = compile_model(network(), calibration=feeds(SHAPE) if form == "int8" else None)
    assert compiled.checked.startswith("matches ONNX in float on ")
    found = compiled.check
    assert (found.operators, found.of_operators) == (3, 3)
    assert found.tasks == found.of_tasks > 0
    assert not found.warnings
    skipped = compile_model(network(), check=False)
    assert not skipped.check.is_checked
    assert skipped.checked == "not checked against float: --no-check (check=False) was given"


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_a_mistake_is_found_and_its_operator_named(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second convolution gets its outputs in another order."""
    plain = convolution.lower_convolution

    def mistaken(context: Any, op: Any) -> Any:
        if op.output == "t4":
            weight = context.graph.constants[op.inputs[1]]
            context.graph.constants[op.inputs[1]] = weight[::-1].copy()
        return plain(context, op)

    monkeypatch.setitem(lower._LOWER, "Conv", mistaken)
    data = feeds(SHAPE) if form == "int8" else None
    with pytest.raises(
        WrongResultError, match=r"output 't5' has -?\d+\.\d dB .*departs is ConvRelu 'Conv_t3, Relu_t4'"
    ):
        compile_model(network(), calibration=data)
    assert compile_model(network(), calibration=data, check=False).data


def lossy() -> onnx.ModelProto:
    """Half of what int8 can do is noise here: a difference of two numbers that are nearly the same."""
    net = Net()
    a, b = (net.add("Add", "x", net.constant(30.0 + more)) for more in (0.0, 0.5))
    out = net.add("Sub", net.add("Relu", a), net.add("Mul", net.add("Relu", b), net.constant(0.98)))
    return net.model({"x": SHAPE}, [out])


def test_honest_loss_is_a_warning_and_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    compiled = compile_model(lossy(), calibration=feeds(SHAPE))
    (warning,) = compiled.check.warnings
    assert "dB of float in int8 on 3 calibration inputs, as rounding alone costs" in warning
    assert warning in caplog.text
    assert not compiled.checked.startswith("right")


def test_verify_below_its_limit_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(lossy(), tmp_path / "net.onnx")
    np.save(tmp_path / "data.npy", feeds(SHAPE)[0])
    words = ["compile", str(tmp_path / "net.onnx"), "--calibrate", str(tmp_path / "data.npy")]
    assert main([*words, "--verify"]) == 1
    assert "was not written" in capsys.readouterr().err
    assert not (tmp_path / "net.rknn").exists()
    assert main([*words, "--verify", "--keep"]) == 0
    assert (tmp_path / "net.rknn").exists()


def test_what_takes_long_is_run_on_one_input() -> None:
    assert len(compile_model(network()).check.data) == 3
    short = compile_model(network(), check_seconds=0.025).check
    assert len(short.data) == 1
    assert short.operators == 3
    shortest = compile_model(network(), check_seconds=0.001).check
    assert shortest.runs == 1
    assert shortest.operators == 0
    assert "0 of 3 operators compared one by one; " in shortest.text


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    assert main(["compile", str(tmp_path / "net.onnx")]) == 0
    assert "check    matches ONNX in float on random numbers" in capsys.readouterr().out
    assert main(["compile", str(tmp_path / "net.onnx"), "--force", "--no-check"]) == 0
    assert "check    not checked against float: --no-check" in capsys.readouterr().out


def test_parts_and_decoders_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    words = ["compile", str(tmp_path / "net.onnx"), "--partition", "--prefer", "npu", "-o"]
    assert main([*words, str(tmp_path / "a.rknnz")]) == 0
    assert "; matches ONNX in float on random numbers" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "b.rknnz"), "--no-check"]) == 0
    assert "; not checked against float: --no-check" in capsys.readouterr().out


def test_a_residual_counts_in_the_range_of_half_a_sum() -> None:
    """3 x 3 of 200 channels is two sums; the first has the residual in it, and was calibrated without: 17 dB."""
    net = Net()
    shape = (1, 200, 7, 5)
    moved = net.add("Mul", "x", net.constant(4.0))
    out = net.add("Add", net.conv(moved, 200, 200, 3, pads=[2, 2, 2, 2], dilations=[2, 2]), moved)
    compiled = compile_model(net.model({"x": shape}, [out]), calibration=feeds(shape))
    assert compiled.graph.addends
    assert min(entry.decibels for entry in verify(compiled)) > 30


def test_an_input_that_is_always_zero_has_a_range() -> None:
    net = Net()
    model = net.model({"x": (1, 3, 8, 8)}, [net.conv("x", 3, 8)])
    compiled = compile_model(model, calibration=[np.zeros((1, 8, 8, 3), np.uint8)])
    numbers = compiled.graph.values["x"].quantization
    assert numbers is not None
    assert numbers.high == pytest.approx(1.0)


def test_inputs_that_are_too_large_for_fp16_are_told() -> None:
    """The power of a signal: right for numbers around 1, infinite for samples of 16 bits."""
    net = Net()
    power = net.add("Mul", "x", "x")
    model = net.model({"x": SHAPE}, [net.conv(power, 16, 8)])
    assert not compile_model(model).check.warnings
    wide = net.model({"x": SHAPE}, [net.add("Mul", power, net.constant(40.0))])
    (note,) = compile_model(wide).check.notes
    assert "infinite" in note
    assert "on inputs 100 times as large" in note
    assert not compile_model(wide, calibration=feeds(SHAPE)).check.notes


def test_numbers_that_are_too_small_for_fp16_are_told() -> None:
    """A product of 120 numbers is nothing in fp16. No error is large, which made it right before."""
    net = Net()
    model = net.model({"x": (1, 13, 5, 24)}, [net.add("ReduceProd", "x", axes=[2, 3])])
    (warning,) = compile_model(model).check.warnings
    assert "keeps 0.0 dB of float in fp16 on random numbers, where it is no larger than" in warning


def test_what_may_be_sound_is_checked_on_a_tone_without_noise() -> None:
    """Its empty bins are smaller than what fp16 rounds the others by, and a logarithm shows them."""
    net = Net()
    places = np.arange(512)[:, None] * np.arange(64) * (2 * np.pi / 512)
    window = np.hanning(512)[:, None]
    parts = [net.add("MatMul", "x", net.constant(window * way(places))) for way in (np.cos, np.sin)]
    power = net.add("Add", *(net.add("Mul", part, part) for part in parts))
    model = net.model({"x": (1, 512)}, [net.add("Log", net.add("Add", power, net.constant(np.float32(1e-7))))])
    check = compile_model(model).check
    assert check.data[-1] == "a tone without noise"
    assert check.snr_db > 40
    (warning,) = check.warnings
    assert "dB of float in fp16 on a tone without noise, as rounding alone costs" in warning


def test_what_may_be_a_picture_is_checked_on_other_numbers_too() -> None:
    """Pixels are not negative: in the place of all large inputs they hid that this is 0 in fp16."""
    net = Net()
    model = net.model({"x": (1, 4, 2, 6)}, [net.add("Sign", net.add("Softplus", "x"))])
    check = compile_model(model).check
    assert check.data[1:] == ["inputs 0.01 times as large", "inputs 100 times as large", "pixels of 0 to 255"]
    (note,) = check.notes
    assert "on inputs 100 times as large, as rounding alone costs" in note


def test_fp16_is_checked_on_calibration_data_too() -> None:
    compiled = compile_model(network(), calibration=feeds(SHAPE), fp16=True)
    assert compiled.format_name == "fp16"
    assert compiled.check.data == ["3 calibration inputs"]


def test_a_file_that_does_not_run_names_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:

    def outside(*words: Any) -> Any:
        lowering = lower.lower(*words)
        for task in lowering.program.steps[1].tasks:
            assert isinstance(task.work, Convolution)
            far = replace(task.work.dpu.write, atom_step_bytes=1 << 24)
            task.work = replace(task.work, dpu=replace(task.work.dpu, write=far))
        return lowering

    monkeypatch.setattr(pipeline, "lower", outside)
    with pytest.raises(WrongResultError, match=r"does not run on the software NPU \(operator ConvRelu 'Conv_t3, Rel"):
        compile_model(network())


def test_channels_that_a_common_scale_erases_are_told() -> None:
    """One convolution for boxes and scores: there are no parts that could get scales of their own."""
    net = Net()
    weight = np.concatenate([np.full((4, 16, 1, 1), 100.0), np.full((12, 16, 1, 1), 0.001)])
    model = net.model({"x": SHAPE}, [net.add("Conv", "x", net.constant(weight), kernel_shape=[1, 1])])
    (warning,) = compile_model(model, calibration=feeds(SHAPE)).check.warnings
    assert "12 of 16 channels of output 't1' are constant" in warning
    assert not compile_model(model).check.warnings


@pytest.mark.parametrize("axis", [1, 2])
def test_infinite_numbers_on_the_cpu_are_data(axis: int) -> None:
    """RK3566 has no softmax on its NPU. NumPy's warnings are errors in these tests."""
    net = Net()
    scores = net.add("Mul", "x", net.constant(2000.0))
    compiled = compile_model(net.model({"x": (1, 20, 6)}, [net.add("Softmax", scores, axis=axis)]), "rk3566")
    assert compiled.check.is_checked
    assert "exSoftmax13" in [step.type for step in compiled.lowering.program.steps if step.is_cpu]
    value = np.zeros((1, 20, 6), np.float32)
    value[0, 0, 0] = 1000
    with Session(compiled.model, "software") as session:
        (found,) = session.run(value).values()
    rows = np.moveaxis(found.reshape(value.shape), axis, -1).reshape(-1, value.shape[axis])
    assert np.isnan(rows[0]).all()
    assert np.allclose(rows[1:], 1 / value.shape[axis], rtol=1e-3)


def test_truths_are_not_rounded() -> None:
    """A rounded truth is no truth for ONNX Runtime, which refused to say what rounding costs."""
    net = Net()
    scores = net.conv("x", 16, 16, 3, pads=[1, 1, 1, 1])
    is_hidden = net.add("Equal", "mask", net.constant(0.0))
    out = net.add("Where", is_hidden, net.constant(-1e4), net.add("Mul", scores, scores))
    compiled = compile_model(net.model({"x": SHAPE, "mask": SHAPE}, [out]))
    (variant,) = compiled.variants
    assert any(value.integer == "bool" for value in variant.graph.values.values())
    model = FloatModel(rounded_model(variant, (), is_int8=False), variant.graph.outputs)
    assert model.engine.startswith("onnxruntime")
    assert not compiled.check.warnings


@pytest.mark.parametrize("chip", ["rk3588", "rk3566"])
def test_scores_beyond_fp16_are_no_mistake(chip: str) -> None:
    """Scores of an attention are stored in another layout alone, where they overflow as anywhere else."""
    check = compile_model(attention(40, 2, 64)[0], chip).check
    assert not check.warnings
    (note,) = check.notes
    assert "on inputs 100 times as large, as rounding alone costs" in note


@pytest.mark.parametrize("cores", [1, 3])
def test_tasks_are_decoded_once(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole runs and operators alone share them: decoding takes most of the time of a check."""
    made = compile_model(network(), calibration=feeds(SHAPE), cores=cores, check=False)
    decoded: list[int] = []
    plain = Machine.prepare

    def prepare(self: Machine, lists: Sequence[Sequence[TaskRef]]) -> Program:
        decoded.extend(task.address for tasks in lists for task in tasks)
        return plain(self, lists)

    monkeypatch.setattr(Machine, "prepare", prepare)
    found = check(made)
    assert (found.operators, found.of_operators) == (3, 3)
    assert len(decoded) == sum(len(numbers) for numbers in made.model.graphs[0].task_lists.values())


def test_operators_of_a_session_are_those_of_an_inspector() -> None:
    """Bit for bit, whatever the session has left in its memory."""
    model = compile_model(network(), calibration=feeds(SHAPE), check=False).model
    values = {"x": feeds(SHAPE)[0]}
    with Inspector(model, "software") as own, Session(model, "software", cores=1) as session:
        shared = inspector_of(session)
        shared.prepare()
        session.run({"x": values["x"] * -3}, layout="nchw")
        shared.clear()
        for inspector in (own, shared):
            inspector.feed(values, "nchw")
        pairs = list(zip(own.captured(), shared.captured(), strict=True))
        assert len(pairs) == 4
        assert all(np.array_equal(left.stored, right.stored) for left, right in pairs)
        with Session(model, "software", cores=1) as whole:
            assert np.array_equal(session.run(values, layout="nchw")[0], whole.run(values, layout="nchw")[0])


def test_a_file_that_writes_into_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels keep packed weights, so that the numbers alone would not show it."""
    made = compile_model(network(), check=False)
    execute = Session._execute

    def damaged(self: Session, *arguments: Any) -> None:
        execute(self, *arguments)
        self._engine.weights()[5] ^= 1  # type: ignore[attr-defined]

    monkeypatch.setattr(Session, "_execute", damaged)
    with pytest.raises(WrongResultError, match="writes into its own weights"):
        check(made)
