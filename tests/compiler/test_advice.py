"""Notes after a compilation: outputs that lose their small part, data that look wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from openrknn.cli.main import main
from openrknn.compiler import compile_model
from openrknn.compiler.advice import advice
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds, small_cnn

SHAPE = (1, 16, 8, 10)
PIXELS = 80


def head(box_channels: int = 4) -> tuple[onnx.ModelProto, str]:
    """Boxes in pixels and scores below one, joined as YOLOv8's exporters do it."""
    net = Net()
    boxes = net.add("Mul", net.add("Sigmoid", net.conv("x", 16, box_channels)), net.constant(640.0))
    scores = net.add("Sigmoid", net.conv("x", 16, 20))
    flat = [
        net.add("Reshape", part, net.constant([1, size, PIXELS], np.int64))
        for part, size in ((boxes, box_channels), (scores, 20))
    ]
    out = net.add("Concat", *flat, axis=1)
    return net.model({"x": SHAPE}, [out]), out


def run(model: object, data: list[Array], **options: object) -> dict[str, Array]:
    compiled = compile_model(model, calibration=data, **options)  # type: ignore[arg-type]
    with Session(compiled.model, "software") as session:
        return dict(session.run(data[0], layout="nchw"))


@pytest.mark.parametrize("box_channels", [4, 16])
def test_scores_beside_boxes(box_channels: int) -> None:
    model, out = head(box_channels)
    data = feeds(SHAPE, 8)
    (text,) = advice(compile_model(model, calibration=data))
    assert f"output {out!r} joins" in text
    assert "it is fp16" in text
    wanted = 1 / (1 + np.exp(-np.zeros(1)))
    survived = run(model, data)[out][0, box_channels:]
    split = run(model, data, split_outputs=True)
    apart = next(values for values in split.values() if values.size == 20 * PIXELS).reshape(20, PIXELS)
    for scores in (survived, apart):
        assert len(np.unique(scores)) > 50
        assert abs(float(scores.mean()) - wanted[0]) < 0.2
    np.testing.assert_allclose(survived, apart, atol=0.01)


def test_even_parts_and_enough_data_are_not_worth_a_word() -> None:
    net = Net()
    out = net.add("Concat", net.conv("x", 16, 16), net.conv("x", 16, 16), axis=1)
    assert advice(compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE, 8))) == []
    assert advice(compile_model(net.model({"x": SHAPE}, [out]))) == []


def test_data_that_look_wrong() -> None:
    net = Net()
    model = net.model({"x": (1, 3, 8, 8)}, [net.conv("x", 3, 8)])
    random = np.random.default_rng(0)
    normalised = [random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32) for _ in range(8)]
    pictures = [random.integers(0, 256, (1, 8, 8, 3)).astype(np.uint8) for _ in range(8)]
    options = {"mean": [120.0, 120.0, 120.0], "std": [60.0, 60.0, 60.0]}
    (text,) = advice(compile_model(model, calibration=normalised, **options))  # type: ignore[arg-type]
    assert "normalised already" in text
    assert advice(compile_model(model, calibration=pictures, **options)) == []  # type: ignore[arg-type]
    (text,) = advice(compile_model(model, calibration=pictures[:1], **options))  # type: ignore[arg-type]
    assert text.startswith("1 calibration input:")
    black = [np.zeros((1, 8, 8, 3), np.uint8)] * 8
    (text,) = advice(compile_model(model, calibration=black))
    assert "0 everywhere" in text


def test_verify_says_what_it_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    onnx.save(net.model({"x": (1, 3, 8, 8)}, [net.conv("x", 3, 8)]), tmp_path / "net.onnx")
    example = tmp_path / "one.npy"
    np.save(example, np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8))
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.rknn"), "--force", "--std", "255",
               "--library", str(tmp_path / "none.so")]  # fmt: skip

    def told(*more: str) -> dict[str, object]:
        assert main([*command, "--json", *more]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    assert str(told("--verify")["verified_with"]).startswith("noise")
    assert told("--verify", "--calibrate", str(example))["verified_with"] == "the first calibration inputs"
    facts = told("--verify-with", str(example))
    assert facts["verified_with"] == str(example)
    assert facts["verify"][0]["snr_db"] > 50  # type: ignore[index]


def test_a_mixture_that_costs_more_than_fp16_is_told() -> None:
    """The borders between the formats are tasks too: the note has both numbers."""
    net = Net()
    out = net.conv(net.add("Relu", net.conv("x", 16, 16)), 16, 16)
    model, data = net.model({"x": SHAPE}, [out]), feeds(SHAPE, 8)
    compiled = compile_model(model, calibration=data, fp16_layers=[out])
    assert not any("everything in fp16" in note for note in advice(compiled)), "nothing was searched for"
    compiled.fp16_cycles = compiled.costs[1].cycles
    (note,) = [note for note in advice(compiled) if "everything in fp16" in note]
    assert "--min-snr" in note
    compiled.fp16_cycles += 1
    assert not any("everything in fp16" in note for note in advice(compiled))


def test_the_search_compares_its_mixture_with_fp16() -> None:
    model, shape = small_cnn()
    plain = compile_model(model, fp16=True)
    compiled = compile_model(model, calibration=feeds(shape), auto_mixed=True, min_snr=50)
    assert compiled.format_name == "mixed"
    assert compiled.fp16_cycles == plain.costs[1].cycles


def empty_detector(*, is_cut: bool) -> tuple[onnx.ModelProto, str]:
    """Scores that stay far below 50 % on what it is calibrated with."""
    net = Net()
    logits = net.conv("x", 16, 16)
    moved = net.add("Sub", logits, net.constant(12.0))
    out = net.add("Sigmoid", moved)
    return net.model({"x": SHAPE}, [out]), moved if is_cut else out


@pytest.mark.parametrize("is_cut", [False, True])
def test_scores_that_no_calibration_input_reached(is_cut: bool) -> None:
    model, out = empty_detector(is_cut=is_cut)
    made = compile_model(model, calibration=feeds(SHAPE, 8), outputs=[out] if is_cut else [])
    (text,) = advice(made)
    assert f"no score in output {out!r} reached 50 %" in text
    with Session(made.model, "software") as session:
        quantization = session.outputs[0].quantization
    assert quantization is not None
    largest = (127 - quantization.zero_point[0]) * quantization.scale[0]
    assert largest > (3.5 if is_cut else 0.95)


def test_scores_that_crossed_keep_their_range() -> None:
    net = Net()
    out = net.add("Sigmoid", net.conv("x", 16, 16))
    made = compile_model(net.model({"x": SHAPE}, [out]), calibration=feeds(SHAPE, 8))
    assert not advice(made)
