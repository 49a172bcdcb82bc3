"""What training tools write into an ONNX file: names of classes, task, picture size, stride."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from openrknn.container.metadata import Metadata, metadata_in, read_metadata
from openrknn.container.notes import parse
from openrknn.errors import InputWarning

onnx = pytest.importorskip("onnx", reason="the extra 'compile' (onnx) is not installed")

NAMES = ("cat", "it's a \"dog\"", "Kürbis")
SAID = {
    "names": str(dict(enumerate(NAMES))), "task": "detect", "stride": "32", "imgsz": "[32, 64]",
    "description": "Ultralytics YOLOv8n model", "batch": "1",
}  # fmt: skip


def exported(path: Path, said: dict[str, str], *, is_open: bool = True) -> Path:
    """As an Ultralytics export: output0 [1, 4 + classes, places] of one picture, its height and width open."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).normal(size=(7, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["maps"], strides=[8, 8]),
        helper.make_node("Reshape", ["maps", "shape"], ["output0"]),
    ]
    size = ["height", "width"] if is_open else [32, 64]
    graph = helper.make_graph(
        nodes, "main_graph", [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, *size])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([1, 7, 32], np.int64), "shape")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, said)
    onnx.save(model, path)
    return path


def test_facts_go_into_the_file(tmp_path: Path) -> None:
    """"1 class 1": names were ignored, and `imgsz` asked for with --shapes."""
    from openrknn.compiler import compile_onnx

    model = compile_onnx(exported(tmp_path / "yolo.onnx", SAID), "rk3588")
    assert model.inputs[0].shape == (1, 32, 64, 3)
    assert metadata_in(model.notes) == Metadata(NAMES, "detect", (32, 64), 32)
    plain = compile_onnx(exported(tmp_path / "plain.onnx", {}, is_open=False), "rk3588")
    assert plain.notes_text == "{}"
    other = compile_onnx(exported(tmp_path / "x.onnx", SAID), "rk3588", shapes={"images": (1, 3, 64, 32)})
    assert other.inputs[0].shape == (1, 64, 32, 3)


def test_results_have_the_names(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
    from dataclasses import replace

    from openrknn.container.load import load
    from openrknn.vision import Pipeline
    from tests.container.places import golden

    model = load(golden("image_rk3588_i8"))  # reads as a segmentation of 16 classes
    names = tuple(f"kind {number}" for number in range(16))
    named = replace(model, notes_text=Metadata(names, "segment").as_notes())
    with Pipeline(named) as pipeline:
        assert pipeline.labels == names
    with Pipeline(named, labels=[f"mine {number}" for number in range(16)]) as pipeline:
        assert pipeline.labels is not None
        assert pipeline.labels[3] == "mine 3"
    with Pipeline(replace(model, notes_text=Metadata(names[:5]).as_notes())) as pipeline:
        assert pipeline.labels is None


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("names", "__import__('os').system('true')", "not a Python value"),
        ("names", "{0: 'a', 2: 'b'}", "not numbered from 0 to 1"),
        ("names", "{0: 1}", "not a list of names"),
        ("names", "[" * 100_000, "nested too deeply"),
        ("names", "['a'] + ['b'] * 10**9", "not a Python value"),
        ("names", f"['{'x' * 300}']", "more than 256 characters"),
        ("names", str(["x"] * 70_000), "more than 65536 names"),
        ("names", "x" * (5 << 20), "5242880 characters"),
        ("imgsz", "[640]", "not a height and a width"),
        ("imgsz", "[640, -1]", "not a height and a width"),
        ("imgsz", "[1e400, 640]", "not a height and a width"),
        ("imgsz", "[True, True]", "not a height and a width"),
        ("stride", "'32'", "not a number"),
        ("task", "mine coins", "none of detect"),
    ],
)  # fmt: skip
def test_hostile_texts_are_left_out(key: str, text: str, problem: str, tmp_path: Path) -> None:
    found, problems = read_metadata({key: text})
    assert found == Metadata()
    assert [problem in words for words in problems] == [True]
    if len(text) < 1000:
        from openrknn.compiler.importer import import_model

        path = exported(tmp_path / "bad.onnx", {key: text}, is_open=False)
        with pytest.warns(InputWarning, match="is ignored"):
            import_model(path)


def test_notes_are_read_with_the_same_bounds() -> None:
    notes = Metadata(NAMES, "pose", (640, 640), 32).as_notes()
    assert metadata_in(parse(notes)) == Metadata(NAMES, "pose", (640, 640), 32)
    assert metadata_in(parse("{'metadata': {'names': 3, 'task': [], 'imgsz': {}, 'stride': None}}")) == Metadata()
    assert metadata_in(parse("{'metadata': 5}")) == Metadata()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_metadata({"names": "{0: '\x1b[31mred'}"})[0].names == ("?[31mred",)
