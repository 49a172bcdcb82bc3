"""Every build is run once: a mistake is found before anybody gets the file, honest loss is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.cli.main import main
from openrknn.compiler import check as module
from openrknn.compiler import compile_model, lower
from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.lower import convolution
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net, feeds

SHAPE = (1, 16, 8, 8)


def network() -> onnx.ModelProto:
    net = Net()
    a = net.add("Relu", net.conv("x", 16, 16, 3, pads=[1, 1, 1, 1]))
    b = net.add("Relu", net.conv(a, 16, 24, 3, pads=[1, 1, 1, 1]))
    return net.model({"x": SHAPE}, [net.conv(b, 24, 8)])


@pytest.mark.parametrize("form", ["fp16", "int8"])
def test_what_is_right_is_said(form: str) -> None:
    compiled = compile_model(network(), calibration=feeds(SHAPE) if form == "int8" else None)
    assert compiled.checked.startswith("right against ONNX in float on ")
    assert compile_model(network(), check=False).checked == ""


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


def test_honest_loss_is_not_a_mistake() -> None:
    """Half of what int8 can do is noise here: a difference of two numbers that are nearly the same."""
    net = Net()
    a, b = (net.add("Add", "x", net.constant(30.0 + more)) for more in (0.0, 0.5))
    out = net.add("Sub", net.add("Relu", a), net.add("Mul", net.add("Relu", b), net.constant(0.98)))
    compiled = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE))
    assert compiled.checked


def test_what_takes_long_is_left_to_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    assert compile_model(network()).checked.startswith("not checked against float: running it here would take")


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    assert main(["compile", str(tmp_path / "net.onnx")]) == 0
    assert "check    right against ONNX in float on random numbers" in capsys.readouterr().out
    assert main(["compile", str(tmp_path / "net.onnx"), "--force", "--no-check"]) == 0
    assert "check    " not in capsys.readouterr().out


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
    assert "inputs 32 times as large" not in compile_model(model).checked
    wide = net.model({"x": SHAPE}, [net.add("Mul", power, net.constant(40.0))])
    assert "inputs 32 times as large" in compile_model(wide).checked
    assert "inputs 32 times as large" not in compile_model(wide, calibration=feeds(SHAPE)).checked
