"""Whole evaluations with tiny models whose answers are known: NPU and float, limits, interruptions, the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import openrknn
from openrknn.evaluate import EvaluationError, evaluate
from openrknn.evaluate.datasets import open_dataset
from openrknn.pages.evaluate import render
from tests.cli.run import run

COLORS = {"red": (220, 20, 20), "green": (20, 220, 20), "blue": (20, 20, 220)}


def saved(path: Path, nodes: list[Any], output: tuple[int, ...], constants: dict[str, Any], size: int = 16) -> Path:
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, size, size))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The colour of an image: an ONNX model and the same for the NPU; every fourth class is never right."""
    folder = tmp_path_factory.mktemp("classifier")
    weights = (np.eye(3, 4) * 12).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"]),
    ]
    path = saved(folder / "colour.onnx", nodes, (1, 4), {"w": weights, "b": np.zeros(4, np.float32)})
    openrknn.save(openrknn.compile(path, std=[255.0]), folder / "colour.rknn")
    return folder / "colour.rknn", path


def colours(folder: Path, each: int = 3, *, wrong: int = 0) -> Path:
    """A folder per colour; `wrong` red images lie among the blue ones."""
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for number in range(each):
            shown = COLORS["red"] if name == "blue" and number < wrong else color
            Image.new("RGB", (20, 16), shown).save(folder / name / f"{number}.png")
    return folder


LABELS = ("red", "green", "blue", "none")


def test_the_npu_and_float_beside_each_other(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    npu, path = classifier
    report = evaluate(npu, colours(tmp_path / "d", wrong=1), float_model=path, labels=LABELS, workers=2)
    assert (report.evaluated, report.total, report.end) == (9, 9, "complete")
    for side in (report.model, report.reference):
        assert side is not None
        assert side.scores.values == {"top1": pytest.approx(8 / 9), "top5": 1.0, "class_accuracy": pytest.approx(8 / 9)}
    assert report.drop == pytest.approx(0)
    assert report.model.about == "fp16 on software:rk3588"
    assert [row.name for row in report.model.scores.classes] == ["blue", "green", "red"]
    assert report.model.scores.confusion is not None
    assert report.model.scores.confusion.tolist() == [[2, 0, 1, 0], [0, 3, 0, 0], [0, 0, 3, 0]]
    assert report.model.interval is not None
    assert report.model.interval[0] < 8 / 9 <= report.model.interval[1] <= 1
    worst = report.worst[0]
    assert (worst.name, worst.expected) == ("blue/0.png", "blue")
    assert worst.said.startswith("red")
    assert worst.image.startswith(b"\xff\xd8")
    assert report.failures(0.01, {"top1": 0.9}) == ["top-1 is 88.9 %; required is 90.0 %"]
    assert report.failures(0.0, {"top1": 0.5}) == []


def test_a_worse_model_fails(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    npu, path = classifier
    report = evaluate(openrknn.load(npu), colours(tmp_path / "d"), float_model=path, labels=LABELS, order="bgr")
    assert report.value == pytest.approx(1 / 3)  # red and blue are exchanged
    assert report.drop == pytest.approx(0)
    alone = evaluate(path, tmp_path / "d", labels=LABELS, std=[255.0])
    assert alone.value == 1
    assert alone.model.about == "float, ONNX Runtime"


def test_limits_and_budgets_take_the_same_random_part(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    _, path = classifier
    data = colours(tmp_path / "d", each=8)
    first, second = (evaluate(path, data, labels=LABELS, limit=6) for _ in range(2))
    assert (first.evaluated, first.end) == (6, "limit")
    assert [row.count for row in first.model.scores.classes] == [row.count for row in second.model.scores.classes]
    assert sum(row.count > 0 for row in first.model.scores.classes) > 1
    short = evaluate(path, data, labels=LABELS, budget=1e-9)
    assert (short.evaluated, short.end) == (1, "budget")


def test_an_interrupted_evaluation_reports_what_it_has(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    _, path = classifier

    def press(stage: str, done: int, of: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    report = evaluate(path, colours(tmp_path / "d"), labels=LABELS, progress=press)
    assert (report.evaluated, report.end) == (4, "interrupted")
    assert report.value is not None


def test_a_sample_that_cannot_be_read_is_left_out_and_named(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    _, path = classifier
    data = colours(tmp_path / "d")
    (data / "red" / "0.png").write_bytes(b"broken")
    report = evaluate(path, data, labels=LABELS)
    assert report.evaluated == 8
    assert [name for name, _ in report.problems] == ["red/0.png"]


# -- a detector whose boxes are constants ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Always the same two boxes, whatever it sees: [1, 2, 6] as YOLOv10 gives them."""
    rows = np.array([[[4, 4, 12, 12, 0.9, 0], [0, 0, 4, 4, 0.8, 1]]], np.float32)
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Mul", ["s", "zero"], ["z"]),
        helper.make_node("Add", ["rows", "z"], ["y"]),
    ]
    folder = tmp_path_factory.mktemp("detector")
    return saved(folder / "boxes.onnx", nodes, (1, 2, 6), {"rows": rows, "zero": np.zeros((), np.float32)})


def boxes(folder: Path) -> Path:
    for name, label in (("a", "0 0.5 0.5 0.5 0.5\n"), ("b", "0 0.5 0.5 0.5 0.5\n1 0.75 0.75 0.5 0.5\n")):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        (folder / "labels").mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (90, 90, 90)).save(folder / "images" / f"{name}.png")
        (folder / "labels" / f"{name}.txt").write_text(label)
    (folder / "data.yaml").write_text("val: images\nnames: [cup, <b>pot</b>]\n")
    return folder


def test_boxes_in_an_image_of_another_size(detector: Path, tmp_path: Path) -> None:
    report = evaluate(detector, boxes(tmp_path / "d"), labels=("cup", "<b>pot</b>"))
    cup, pot = report.model.scores.classes
    assert (cup.count, pot.count) == (2, 1)
    assert cup.value == pytest.approx(1)  # 4..12 of 16 is 8..24 of 32
    assert pot.value == pytest.approx(0)
    assert report.value == pytest.approx(0.5)
    assert report.worst[0].name == "images/b.png"
    assert "missed: 1 <b>pot</b>" in report.worst[0].said


def test_the_command_prints_judges_and_writes_a_page(
    detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = boxes(tmp_path / "d")
    labels = tmp_path / "labels.txt"
    labels.write_text("cup\n<b>pot</b>\n")
    page = tmp_path / "page.html"
    words = ["evaluate", str(detector), str(data), "--labels", str(labels)]
    done = run(capsys, *words, "--float", str(detector), "--max-drop", "1%", "--report", str(page))
    assert done.code == 0, done.err
    assert "mAP50-95" in done.out
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "<b>pot</b>" not in text
    assert "&lt;b&gt;pot&lt;/b&gt;" in text
    assert text.count("data:image/jpeg;base64,") == 2
    found = json.loads(run(capsys, *words, "--json", "--require", "map=90%").out)
    assert found["failures"] == ["mAP50-95 is 50.0 %; required is 90.0 %"]
    assert found["model"]["metrics"]["map"] == pytest.approx(0.5)
    assert run(capsys, *words, "--quiet", "--require", "map=90%").code == 1
    assert run(capsys, *words, "--quiet").out.strip() == "mAP50-95 50.0 %"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-drop", "1%"], "--float MODEL.onnx"),
        (["--max-drop", "many"], "not a share such as 1%"),
        (["--budget", "soon"], "not a time such as"),
        (["--require", "beauty=1"], "metrics are map"),
        (["--family", "yolov9000"], "yolov9000"),
        (["--size", "0x5"], "not a size"),
        (["--std", "a"], "not a list of numbers"),
    ],
)
def test_wrong_options_are_one_line(
    detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    done = run(capsys, "evaluate", str(detector), str(boxes(tmp_path / "d")), *words)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_models_and_datasets_have_to_fit(detector: Path, classifier: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="the model's task is 'classify'"):
        evaluate(classifier[1], boxes(tmp_path / "d"), labels=LABELS)
    with pytest.raises(EvaluationError, match="none of its 3 classes"):
        evaluate(classifier[1], colours(tmp_path / "c"), labels=("a", "b", "c", "d"))
    with pytest.raises(EvaluationError, match="no such file"):
        evaluate(tmp_path / "none.rknn", tmp_path / "c")
    (tmp_path / "text.rknn").write_text("hello")
    with pytest.raises(EvaluationError, match=r"give a \.rknn"):
        evaluate(tmp_path / "text.rknn", tmp_path / "c")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(EvaluationError, match=r"text\.onnx"):
        evaluate(tmp_path / "text.onnx", tmp_path / "c")


def test_arrays(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    npu, path = classifier
    pixels = np.full((1, 16, 16, 3), (255, 0, 0), np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    (tmp_path / "d.jsonl").write_text('{"input": "x.npy", "expected": [[12, 0, 0, 0]]}\n')
    report = evaluate(npu, tmp_path / "d.jsonl", float_model=path)
    assert report.task == "classify"
    assert report.model.scores.values["cosine"] == pytest.approx(1, abs=1e-3)
    assert report.reference is not None
    assert report.reference.scores.values["mse"] == pytest.approx(0, abs=1e-6)
    wrong = tmp_path / "w.jsonl"
    wrong.write_text('{"input": "x.npy", "expected": [1, 2]}\n')
    with pytest.raises(openrknn.errors.RknnError, match="4 elements, expected are 2"):
        evaluate(npu, wrong)


def test_a_page_of_an_evaluation_of_few_samples(classifier: tuple[Path, Path], tmp_path: Path) -> None:
    report = evaluate(classifier[1], open_dataset(colours(tmp_path / "d", each=1)), labels=LABELS, worst=0)
    page = render(report)
    assert "Confusion" in page
    assert "Worst samples" not in page
