"""Datasets: recognised by their content, read with bounds, and errors that say what to do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openrknn.evaluate import Dataset, DatasetError, open_dataset
from openrknn.evaluate.datasets.classes import synsets
from openrknn.evaluate.names import class_map
from openrknn.evaluate.truth import AreaTruth, ClassTruth, LinesTruth, ObjectTruth, TensorTruth, TextTruth


def image(path: Path, width: int = 40, height: int = 20) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (200, 30, 60)).save(path)
    return path


def objects(dataset: Dataset, at: int = 0) -> ObjectTruth:
    truth = dataset.samples[at].truth
    assert isinstance(truth, ObjectTruth)
    return truth.in_pixels(40, 20)


# -- COCO ------------------------------------------------------------------------------------------------------------


def coco(folder: Path, **changes: Any) -> Path:
    annotation = {"id": 5, "image_id": 7, "category_id": 9, "bbox": [1, 2, 10, 8], "area": 33.5, "iscrowd": 0,
                  "segmentation": [[1, 2, 11, 2, 11, 10]]}  # fmt: skip
    content = {
        "images": [{"id": 7, "file_name": "a.png", "width": 40, "height": 20}],
        "annotations": [annotation | changes.pop("annotation", {})],
        "categories": [{"id": 9, "name": "cat"}, {"id": 2, "name": "dog"}],
        **changes,
    }
    path = folder / "annotations" / "instances_val2017.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_coco_is_found_in_its_folder(tmp_path: Path) -> None:
    coco(tmp_path)
    image(tmp_path / "val2017" / "a.png")
    dataset = open_dataset(tmp_path, "segment")
    assert (dataset.kind, dataset.task, dataset.names) == ("COCO instances", "segment", ("dog", "cat"))
    truth = objects(dataset)
    assert truth.boxes.tolist() == [[1, 2, 11, 10]]
    assert (truth.classes.tolist(), truth.box_areas().tolist()) == ([1], [33.5])
    assert truth.segments == [[[1, 2, 11, 2, 11, 10]]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"annotation": {"bbox": [1, 2, 3]}}, "bbox should be 4 finite numbers"),
        ({"annotation": {"bbox": [1, 2, 3, float("inf")]}}, "bbox should be 4 finite numbers"),
        ({"annotation": {"category_id": 3}}, "no `category_id`"),
        ({"annotation": {"segmentation": {"size": [20, 40], "counts": [5]}}}, "do not add up to 20 x 40"),
        ({"annotation": {"segmentation": {"size": [20, 40], "counts": "zz"}}}, "do not add up to 20 x 40"),
        ({"annotation": {"segmentation": {"size": [10**6, 10**6], "counts": []}}}, "neither polygons nor run lengths"),
        ({"annotation": {"segmentation": [[1, 2]]}}, "at least three corners"),
        ({"images": [{"id": 7, "file_name": "../a.png"}]}, "outside of"),
        ({"images": [{"id": 7, "file_name": "/etc/passwd"}]}, "outside of"),
        ({"images": [{"id": 7}]}, "file_name"),
        ({"images": []}, "no images"),
        ({"categories": [{"id": 9, "name": 4}]}, "text `name`"),
        ({"annotations": 4}, "not COCO"),
    ],
)
def test_a_damaged_coco_file_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    image(tmp_path / "val2017" / "a.png")
    with pytest.raises(DatasetError, match=words) as error:
        open_dataset(coco(tmp_path, **changes))
    assert "instances_val2017.json" in str(error.value)


def test_coco_without_images_says_where_they_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="put the images beside"):
        open_dataset(coco(tmp_path))
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(DatasetError, match="not JSON"):
        open_dataset(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(DatasetError, match="not JSON"):
        open_dataset(tmp_path / "x.json")


# -- YOLO ------------------------------------------------------------------------------------------------------------


def yolo(folder: Path, label: str, yaml: str = "") -> Path:
    image(folder / "images" / "val" / "a.png")
    image(folder / "images" / "val" / "b.png")
    place = folder / "labels" / "val"
    place.mkdir(parents=True)
    (place / "a.txt").write_text(label)
    if yaml:
        (folder / "data.yaml").write_text(yaml)
    return folder


def test_yolo_with_and_without_a_description(tmp_path: Path) -> None:
    plain = open_dataset(yolo(tmp_path / "1", "1 0.5 0.5 0.5 1\n"))
    assert (plain.kind, plain.task, plain.names, len(plain)) == ("YOLO labels", "detect", None, 2)
    assert objects(plain).boxes.tolist() == [[10, 0, 30, 20]]
    assert len(objects(plain, 1)) == 0
    described = "path: /no/where\nval: images/val\nnames: {0: a, 1: b}\n"
    named = open_dataset(yolo(tmp_path / "2", "1 0.5 0.5 0.5 1\n", described))
    assert (named.names, named.samples[0].name) == (("a", "b"), "images/val/a.png")


def test_yolo_outlines_oriented_boxes_and_keypoints(tmp_path: Path) -> None:
    four = "0 0 0 0.5 0 0.5 1 0 1\n"
    assert open_dataset(yolo(tmp_path / "1", four), "segment").task == "segment"
    oriented = open_dataset(yolo(tmp_path / "2", four), "obb")
    assert oriented.task == "obb"
    corners = objects(oriented).corners
    assert corners is not None
    assert corners[0].tolist() == [[0, 0], [20, 0], [20, 20], [0, 20]]
    outline = open_dataset(yolo(tmp_path / "3", "0 0 0 1 0 1 1\n0 0.5 0.5 0.2 0.2\n"))
    assert outline.task == "segment"
    assert objects(outline).boxes.tolist() == [[0, 0, 40, 20], [16, 8, 24, 12]]
    described = "val: images/val\nnames: [p]\nkpt_shape: [2, 2]\n"
    pose = open_dataset(yolo(tmp_path / "4", "0 .5 .5 1 1 .25 .5 0 0\n", described))
    points = objects(pose).keypoints
    assert pose.task == "pose"
    assert points is not None
    assert points[0].tolist() == [[10, 10, 2], [0, 0, 0]]


@pytest.mark.parametrize(
    ("label", "yaml", "words"),
    [
        ("0 0.5 0.5 nan 1\n", "", "not a class and at least four numbers"),
        ("0 5 0.5 0.5 1\n", "", "from 0 to 1"),
        ("7 0.5 0.5 0.5 1\n", "val: images/val\nnames: [a]\n", "class 7, and there are 1 names"),
        ("0 .5 .5 .5 1\n", "names: [a]\n", "names no images"),
        ("0 .5 .5 .5 1\n", "val: nowhere\n", "no images in val: nowhere"),
        ("0 .5 .5 .5 1\n", "val: [1\n", "not YAML"),
        ("0 .5 .5 .5 1\n", "val: images/val\nkpt_shape: [0, 9]\n", "kpt_shape"),
        ("", "val: images/val\n", "none of 2 images has a label"),
    ],
)
def test_a_damaged_yolo_dataset_is_named(tmp_path: Path, label: str, yaml: str, words: str) -> None:
    described = yaml or "val: images/val\n"
    with pytest.raises(DatasetError, match=words):
        open_dataset(yolo(tmp_path, label, described))


# -- classes and masks -----------------------------------------------------------------------------------------------


def test_a_folder_per_class(tmp_path: Path) -> None:
    for name in ("n01440764", "n01443537"):
        image(tmp_path / "val" / name / "a.png")
    dataset = open_dataset(tmp_path)
    assert (dataset.kind, dataset.task, len(dataset)) == ("class folders", "classify", 2)
    assert dataset.samples[1].truth == ClassTruth(1)
    labels = [f"class {number}" for number in range(1001)]
    assert class_map(dataset, labels, 1001, 1).table[:3].tolist() == [-1, 0, 1]  # 0 is background
    assert class_map(dataset, None, 1000, 1).table[:3].tolist() == [0, 1, -1]


def test_imagenets_identifiers_are_those_of_its_1000_classes() -> None:
    found = synsets()
    assert len(set(found)) == 1000
    assert list(found) == sorted(found)
    assert (found[0], found[281], found[999]) == ("n01440764", "n02123045", "n15075141")  # tench, tabby, toilet tissue


def test_images_named_by_class_and_tables(tmp_path: Path) -> None:
    image(tmp_path / "a" / "n01440764_tench.png")
    image(tmp_path / "a" / "n02123045_tabby.png")
    assert open_dataset(tmp_path / "a").keys == ("n01440764", "n02123045")
    image(tmp_path / "b" / "x.png")
    (tmp_path / "b" / "labels.csv").write_text('filename,label\nx.png,"a, b"\n')
    table = open_dataset(tmp_path / "b")
    assert (table.kind, table.names) == ("table of files and classes", ("a, b",))
    image(tmp_path / "c" / "images" / "x.png")
    (tmp_path / "c" / "val.txt").write_text("x.png 281\n")
    assert open_dataset(tmp_path / "c", "classify").samples[0].truth == ClassTruth(281)
    (tmp_path / "c" / "val.txt").write_text("../x.png 281\n")
    with pytest.raises(DatasetError, match="outside of"):
        open_dataset(tmp_path / "c" / "val.txt", "classify")


def test_classes_are_matched_by_name(tmp_path: Path) -> None:
    described = "val: images/val\nnames: [motorcycle, Traffic_Light, gnu]\n"
    dataset = open_dataset(yolo(tmp_path, "0 .5 .5 .5 1\n", described))
    found = class_map(dataset, ["traffic light", "cup", "motorbike"], 3, 0)
    assert found.table.tolist() == [1, -1, 0]
    assert found(np.array([0, 1, 2, 9, -1])).tolist() == [1, -1, 0, -1, -1]
    assert "gnu" in found.notes[0]


def test_images_and_masks(tmp_path: Path) -> None:
    image(tmp_path / "images" / "a.png")
    image(tmp_path / "masks" / "a.png")
    dataset = open_dataset(tmp_path)
    assert (dataset.kind, dataset.task) == ("images and masks", "areas")
    assert isinstance(dataset.samples[0].truth, AreaTruth)


# -- text and sound --------------------------------------------------------------------------------------------------


def test_text_as_paddleocr_has_it(tmp_path: Path) -> None:
    image(tmp_path / "w.png")
    (tmp_path / "rec_gt.txt").write_text('w.png\tsay "hello"\n')
    read = open_dataset(tmp_path)
    assert (read.kind, read.samples[0].truth) == ("images and text", TextTruth('say "hello"'))
    lines = [{"transcription": "a", "points": [[0, 0], [9, 0], [9, 5], [0, 5]]},
             {"transcription": "###", "points": [[0, 0], [9, 0], [9, 5]]}]  # fmt: skip
    (tmp_path / "rec_gt.txt").write_text(f"w.png\t{json.dumps(lines)}\n")
    places = open_dataset(tmp_path)
    assert places.task == "text"
    assert isinstance(places.samples[0].truth, LinesTruth)
    assert places.samples[0].truth.texts == ("a", None)
    (tmp_path / "rec_gt.txt").write_text('w.png\t[{"transcription": "a", "points": [[0, 1e99]]}]\n')
    with pytest.raises(DatasetError, match="line 1: `points` should be"):
        open_dataset(tmp_path)


def test_recordings_with_transcripts(tmp_path: Path) -> None:
    for folder in ("libri/1/2", "pairs", "table/clips", "lines"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "libri/1/2/1-2.trans.txt").write_text("1-2-0 HELLO WORLD\n")
    (tmp_path / "libri/1/2/1-2-0.flac").touch()
    (tmp_path / "pairs/a.wav").touch()
    (tmp_path / "pairs/a.txt").write_text("hello\nworld\n")
    (tmp_path / "pairs/b.wav").touch()
    (tmp_path / "table/clips/c.mp3").touch()
    (tmp_path / "table/test.tsv").write_text("client_id\tpath\tsentence\n9\tc.mp3\thello world\n")
    (tmp_path / "lines/d.wav").touch()
    (tmp_path / "lines/d.jsonl").write_text('{"audio": "d.wav", "text": "hello world"}\n')
    kinds = {"libri": "LibriSpeech", "pairs": "recordings and text", "table": "table of recordings and text",
             "lines": "JSON lines of recordings and text"}  # fmt: skip
    for folder, kind in kinds.items():
        dataset = open_dataset(tmp_path / folder, "speech")
        truth = dataset.samples[0].truth
        assert (dataset.kind, dataset.task, len(dataset)) == (kind, "speech", 1)
        assert isinstance(truth, TextTruth)
        assert truth.text.lower() == "hello world"
    assert "1 recordings have no text" in open_dataset(tmp_path / "pairs").notes[0]
    (tmp_path / "libri/1/2/1-2-0.flac").unlink()
    with pytest.raises(DatasetError, match="there is no recording 1-2-0"):
        open_dataset(tmp_path / "libri")


# -- JSON lines ------------------------------------------------------------------------------------------------------


def test_arrays_in_json_lines(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.ones(3, np.float32))
    path = tmp_path / "d.jsonl"
    path.write_text('{"inputs": {"x": [[1, 2.5]]}, "expected": {"y": "y.npy"}}\n\n{"input": [1], "expected": [2]}\n')
    dataset = open_dataset(path)
    truth = dataset.samples[0].truth
    assert (dataset.task, len(dataset)) == ("tensors", 2)
    assert isinstance(truth, TensorTruth)
    assert truth.inputs["x"].dtype == np.float32
    assert truth.expected["y"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1: not JSON"),
        ("4", "each line is an object"),
        ('{"inputs": {"x": [[1], [1, 2]]}, "expected": [1]}', "different lengths"),
        ('{"inputs": {"x": ["a"]}, "expected": [1]}', "should be numbers"),
        ('{"inputs": {"x": "a.exe"}, "expected": [1]}', "neither an array"),
        ('{"inputs": {"x": "../a.npy"}, "expected": [1]}', "outside of"),
        ('{"inputs": {"x": "a.npy"}, "expected": [1]}', "cannot be read"),
        ('{"text": "a"}', "one of audio"),
        ("", "no lines"),
    ],
)
def test_damaged_json_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "d.jsonl").write_text(line + "\n")
    with pytest.raises(DatasetError, match=words):
        open_dataset(tmp_path / "d.jsonl")


def test_what_was_looked_for_is_named_where_nothing_fits(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"Looked for: COCO .*YOLO .*LibriSpeech .*JSON lines"):
        open_dataset(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"\0\xff")
    with pytest.raises(DatasetError, match="Looked for"):
        open_dataset(tmp_path / "a.bin")
    with pytest.raises(DatasetError, match="no such file"):
        open_dataset(tmp_path / "b")
