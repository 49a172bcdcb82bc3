"""Pictures through whole models, on the software NPU."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn.errors import UnsupportedError
from openrknn.runtime.session import Session
from openrknn.vision import Areas, Objects, Pipeline, Ranking, TextReader, UnknownFamilyError
from openrknn.vision.errors import SourceError
from openrknn.vision.families import FAMILIES
from openrknn.vision.pipeline import parallel
from openrknn.vision.sources import entries
from tests.container.places import ROOT, golden

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")

SMALL = golden("image_rk3588_i8")  # 16x16 pixels in, [1, 16, 16, 16] out: reads as a segmentation of 16 classes
CLASSIFIER = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
PATTERN = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)


def test_a_picture_goes_through_the_model_and_its_decoder() -> None:
    with Session(SMALL) as session:
        (features,) = session.run(PATTERN[None]).values()
    with Pipeline(SMALL) as pipeline:
        result = pipeline(PATTERN)
        assert pipeline.family.name == "segmentation"
        assert pipeline.device == "software:rk3588"
    assert isinstance(result.found, Areas)
    assert (result.found.classes == features[0].argmax(axis=0)).all()
    assert result.run_seconds > 0
    assert sum(row["share"] for row in result.rows()) == pytest.approx(1)


def test_a_larger_picture_comes_back_in_its_own_size() -> None:
    with Pipeline(SMALL) as pipeline:
        large = np.repeat(np.repeat(PATTERN, 4, axis=0), 4, axis=1)
        result = pipeline(large)
        small = pipeline(PATTERN)
    assert isinstance(result.found, Areas)
    assert isinstance(small.found, Areas)
    assert result.found.classes.shape == (64, 64)
    blown_up = np.repeat(np.repeat(small.found.classes, 4, axis=0), 4, axis=1)
    assert (result.found.classes == blown_up).mean() > 0.5  # scaling down softens the pixels a little


def test_a_stream_keeps_its_order_and_reports_what_it_cannot_read(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(7):
        Image.fromarray(np.roll(PATTERN, number, axis=0)).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_bytes(b"broken")
    with Pipeline(SMALL, workers=3) as pipeline:
        results = list(pipeline.stream([tmp_path]))
        alone = [pipeline(np.roll(PATTERN, number, axis=0)) for number in range(7)]
    assert [Path(result.name).name for result in results] == [f"{number}.png" for number in range(7)]
    assert [bool(result.problem) for result in results] == [number == 3 for number in range(7)]
    for number in (0, 1, 2, 4, 5, 6):
        found, expected = results[number].found, alone[number].found
        assert isinstance(found, Areas)
        assert isinstance(expected, Areas)
        assert (found.classes == expected.classes).all()
    with pytest.raises(ValueError, match="nothing to draw"):
        results[3].annotated()


@pytest.mark.parametrize("kind", [str, Path])
def test_a_stream_of_one_folder_needs_no_list(tmp_path: Path, kind: type) -> None:
    from PIL import Image

    Image.fromarray(PATTERN).save(tmp_path / "one.png")
    with Pipeline(SMALL) as pipeline:
        assert [Path(result.name).name for result in pipeline.stream(kind(tmp_path))] == ["one.png"]
        (entry,) = entries(str(tmp_path))
        assert [Path(result.name).name for result in pipeline.stream(entry)] == ["one.png"]


def test_boxes_without_area_are_left_out_with_a_note() -> None:
    """A detector that was taken for another one: 300 boxes of no width, 100 % sure."""
    boxes = np.zeros((300, 4), np.float32)
    boxes[:, 3] = 9
    boxes[0], boxes[1] = (1, 2, 5, 6), (np.nan, 0, 3, 3)
    found = Objects(boxes, np.ones(300, np.float32), np.zeros(300, np.int64))
    with Pipeline(SMALL) as pipeline:
        pipeline.family = replace(pipeline.family, task="detect", decode=lambda *_: found)
        result = pipeline(PATTERN)
    assert isinstance(result.found, Objects)
    assert result.found.boxes.tolist() == [[1, 2, 5, 6]]
    assert result.notes[0].startswith("299 of 300 boxes have no area and were left out: are these outputs really those")
    assert found.take(np.array([0])).with_area("any").note == ""


def test_a_stream_can_be_left_early(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(6):
        Image.fromarray(PATTERN).save(tmp_path / f"{number}.png")
    with Pipeline(SMALL) as pipeline:
        stream = pipeline.stream([tmp_path])
        assert next(stream).name.endswith("0.png")
        stream.close()  # type: ignore[attr-defined]
        assert isinstance(pipeline(PATTERN).found, Areas)


def test_the_example_classifier(tmp_path: Path) -> None:
    with Pipeline(CLASSIFIER) as pipeline:
        result = pipeline(ROOT / "examples" / "images" / "coffee.jpg")
    assert isinstance(result.found, Ranking)
    best = list(result.rows())
    assert best[0]["label"] == "espresso"
    assert best[0]["probability"] > 0.9
    assert len(best) == 5
    result.save(tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_thresholds_next_to_one_half_are_raised_for_int8() -> None:
    families = {family.name: family for family in FAMILIES}
    with Pipeline(SMALL, threshold=0.5) as pipeline:
        assert pipeline.settings.threshold == 0.51
        assert "no opinion" in pipeline.notes[0]
    with Pipeline(golden("image_rk3588_fp"), threshold=0.5) as pipeline:
        assert pipeline.settings.threshold == 0.5
        assert pipeline.notes == ()
    for name in ("yolov8-pose", "retinaface"):
        assert families[name].threshold == 0.51


def test_what_a_pipeline_cannot_take() -> None:
    with pytest.raises(UnsupportedError, match="2 inputs"):
        Pipeline(golden("two_inputs_rk3588_i8"))
    with pytest.raises(UnsupportedError, match="not a picture"):
        Pipeline(golden("layer_norm_rk3588_fp"))
    with pytest.raises(UnsupportedError, match="2 pictures per run"):
        Pipeline(golden("image_rk3588_i8_batch2"))
    with pytest.raises(UnknownFamilyError, match="try the command or task 'segment'"):
        Pipeline(SMALL, task="detect")
    with pytest.raises(ValueError, match="fit="):
        Pipeline(SMALL, fit="squash")
    with Pipeline(openrknn.load(SMALL)) as pipeline, pytest.raises(ValueError, match="not a model that finds text"):
        TextReader(pipeline, pipeline)


def test_a_result_does_not_wait_for_the_next_picture() -> None:
    """A slow camera: the second picture comes only after the first result was seen."""
    seen = threading.Event()

    def numbers() -> Iterator[int]:
        yield 1
        assert seen.wait(30)
        yield 2

    results = []
    for result in parallel(numbers(), lambda number: 10 * number, workers=1):
        results.append(result)
        seen.set()
    assert results == [10, 20]


def test_results_of_what_was_read_come_before_the_error() -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2, 3)
        raise SourceError("the cable is out")

    results = parallel(numbers(), str, workers=2)
    assert [next(results) for _ in range(3)] == ["1", "2", "3"]
    with pytest.raises(SourceError, match="cable"):
        next(results)


def test_no_more_are_taken_than_workers_and_one_unseen_result() -> None:
    taken = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = parallel(numbers(), str, workers=3)
    for expected in range(5):
        assert next(results) == str(expected)
        assert len(taken) <= expected + 1 + 4
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("openrknn-vision")]


def test_an_error_of_the_work_ends_it() -> None:
    results = parallel([1, 0, 2], lambda number: 1 / number, workers=2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
