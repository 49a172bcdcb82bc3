"""What is done for each task: load a sample, run a model on it, judge it, and make numbers of all judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from openrknn.container.model import Model
from openrknn.distance import measure
from openrknn.errors import RknnError
from openrknn.evaluate.errors import DatasetError, EvaluationError
from openrknn.evaluate.metrics.detection import Image, errors_in_words, run_lengths, score_detection
from openrknn.evaluate.metrics.lines import count_lines
from openrknn.evaluate.metrics.others import (
    Ranked,
    count_pixels,
    score_areas,
    score_lines,
    score_ranking,
    score_tensors,
    score_text,
)
from openrknn.evaluate.metrics.scores import Scores
from openrknn.evaluate.metrics.text import read_errors, spoken_errors
from openrknn.evaluate.models import Subject
from openrknn.evaluate.names import ClassMap
from openrknn.evaluate.truth import (
    AreaTruth,
    Array,
    ClassTruth,
    Dataset,
    LinesTruth,
    ObjectTruth,
    Sample,
    TensorTruth,
    TextTruth,
)
from openrknn.pictures import PictureError
from openrknn.pictures import read_picture as decode
from openrknn.vision.inputs import picture_for
from openrknn.vision.pictures import read_picture
from openrknn.vision.results import Areas, Objects, Ranking, Reading

# model's task -> datasets' tasks that it can be measured with
FITTING = {
    "detect": ("detect", "segment", "pose"), "segment": ("segment", "detect"), "pose": ("pose",), "obb": ("obb",),
    "areas": ("areas",), "classify": ("classify",), "read": ("read",), "text": ("text",), "speech": ("speech",),
    "tensors": ("tensors",),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One sample with one model."""

    record: Any
    """What the scorer adds up."""
    said: str = ""
    """The answer in words, where it has some."""


class Task(Protocol):
    """One way to judge."""

    def load(self, sample: Sample) -> Any:
        """What the models are fed with; errors of files are `RknnError`."""

    def judge(self, subject: Subject, sample: Sample, loaded: Any) -> Judged:
        """Run one model."""

    def scores(self, records: Sequence[Any]) -> Scores:
        """The numbers of all samples."""

    def expected(self, sample: Sample) -> str:
        """What should have come out, in words."""


def task_for(dataset: Dataset, subject: Subject, maps: dict[int, ClassMap]) -> Task:
    """`maps`: the classes of each model, by `id` of the subject."""
    names = next(iter(maps.values())).names if maps else ()
    match dataset.task:
        case "detect" | "segment" | "pose" | "obb":
            return _Boxes(_kinds(dataset, subject), names, maps)
        case "classify":
            return _Classes(names, maps)
        case "areas":
            return _Pixels(names, maps)
        case "read":
            return _Text()
        case "text":
            return _Lines()
        case "speech":
            return _Speech()
        case _:
            return _Tensors()


def _kinds(dataset: Dataset, subject: Subject) -> tuple[str, ...]:
    """What is measured, the main one first."""
    if subject.task == "segment" and dataset.task == "segment":
        return ("segm", "bbox")
    return {"pose": ("keypoints", "bbox"), "obb": ("obb",)}.get(subject.task, ("bbox",))


class _Images:
    @staticmethod
    def load(sample: Sample) -> Array:
        if sample.path is None:
            raise DatasetError(f"{sample.name}: it has no image")
        return read_picture(sample.path)


class _Boxes(_Images):
    def __init__(self, kinds: tuple[str, ...], names: Sequence[str], maps: dict[int, ClassMap]) -> None:
        self.kinds, self.names, self.maps = kinds, names, maps

    def judge(self, subject: Subject, sample: Sample, loaded: Array) -> Judged:
        assert subject.pipeline is not None
        assert isinstance(sample.truth, ObjectTruth)
        height, width = loaded.shape[:2]
        found = subject.pipeline(loaded, sample.name).found
        if not isinstance(found, Objects):
            raise EvaluationError(f"{subject.path}: it does not find objects")
        masks = run_lengths(found.masks) if found.masks is not None and "segm" in self.kinds else ()
        found = replace(found, classes=self.maps[id(subject)](found.classes), masks=None)
        record = Image(width, height, sample.truth.in_pixels(width, height), found, masks)
        return Judged(record, errors_in_words(record, self.names))

    def scores(self, records: Sequence[Image]) -> Scores:
        made = [score_detection(records, self.names, kind) for kind in self.kinds]
        values = {name: value for scores in made for name, value in scores.values.items()}
        return replace(made[0], values=values)

    def expected(self, sample: Sample) -> str:
        return ""


class _Classes(_Images):
    def __init__(self, names: Sequence[str], maps: dict[int, ClassMap]) -> None:
        self.names, self.maps = names, maps

    def judge(self, subject: Subject, sample: Sample, loaded: Array) -> Judged:
        assert subject.pipeline is not None
        assert isinstance(sample.truth, ClassTruth)
        result = subject.pipeline(loaded, sample.name)
        if not isinstance(result.found, Ranking):
            raise EvaluationError(f"{subject.path}: it does not classify")
        ranking = self.maps[id(subject)](result.found.classes)
        places = np.flatnonzero(ranking == sample.truth.number)
        probability = float(result.found.probabilities[places[0]]) if places.size else 0.0
        said = ", ".join(f"{row['label']} {100 * row['probability']:.0f} %" for row in result.rows(3))
        return Judged(Ranked(sample.truth.number, ranking[:5], probability), said)

    def scores(self, records: Sequence[Ranked]) -> Scores:
        return score_ranking(records, self.names)

    def expected(self, sample: Sample) -> str:
        return self.names[sample.truth.number] if isinstance(sample.truth, ClassTruth) else ""


class _Pixels(_Images):
    def __init__(self, names: Sequence[str], maps: dict[int, ClassMap]) -> None:
        self.names, self.maps = names, maps

    def judge(self, subject: Subject, sample: Sample, loaded: Array) -> Judged:
        assert subject.pipeline is not None
        assert isinstance(sample.truth, AreaTruth)
        found = subject.pipeline(loaded, sample.name).found
        if not isinstance(found, Areas):
            raise EvaluationError(f"{subject.path}: it does not give every pixel a class")
        mask = read_mask(sample.truth)
        if mask.shape != loaded.shape[:2]:
            sizes = f"{mask.shape[1]}x{mask.shape[0]}, the image {loaded.shape[1]}x{loaded.shape[0]}"
            raise DatasetError(f"{sample.truth.path}: the mask has {sizes} pixels")
        return Judged(count_pixels(mask, found.classes, len(self.names)))

    def scores(self, records: Sequence[Any]) -> Scores:
        return score_areas(records, self.names)

    def expected(self, sample: Sample) -> str:
        return ""


def read_mask(truth: AreaTruth) -> Array:
    """[height, width] of class numbers: gray levels, or the numbers of a palette's colours."""
    from PIL import Image as PillowImage

    try:
        with PillowImage.open(truth.path, formats=("PNG",)) as opened:
            if opened.mode in ("P", "L", "1") and opened.width * opened.height <= 1 << 26:
                return np.asarray(opened).astype(np.uint8)
        return decode(truth.path, "L")
    except (PictureError, OSError, ValueError, SyntaxError) as error:
        raise DatasetError(f"{truth.path}: {error}") from None


class _Text(_Images):
    def judge(self, subject: Subject, sample: Sample, loaded: Array) -> Judged:
        assert subject.pipeline is not None
        assert isinstance(sample.truth, TextTruth)
        found = subject.pipeline(loaded, sample.name).found
        if not isinstance(found, Reading):
            raise EvaluationError(f"{subject.path}: it does not read text")
        return Judged(read_errors(found.text, sample.truth.text), found.text)

    def scores(self, records: Sequence[Any]) -> Scores:
        return score_text(records, by_words=False)

    def expected(self, sample: Sample) -> str:
        return sample.truth.text if isinstance(sample.truth, TextTruth) else ""


class _Lines(_Images):
    def judge(self, subject: Subject, sample: Sample, loaded: Array) -> Judged:
        assert subject.pipeline is not None
        assert isinstance(sample.truth, LinesTruth)
        found = subject.pipeline(loaded, sample.name).found
        if not isinstance(found, Objects) or (found.corners is None and len(found)):
            raise EvaluationError(f"{subject.path}: it does not find text")
        corners = found.corners if found.corners is not None else np.zeros((0, 4, 2))
        return Judged(count_lines(sample.truth, corners), f"{len(found)} lines")

    def scores(self, records: Sequence[Any]) -> Scores:
        return score_lines(records)

    def expected(self, sample: Sample) -> str:
        return f"{len(sample.truth.texts)} lines" if isinstance(sample.truth, LinesTruth) else ""


class _Speech:
    @staticmethod
    def load(sample: Sample) -> Any:
        from openrknn.voice.audio import read_audio

        if sample.path is None:
            raise DatasetError(f"{sample.name}: it has no recording")
        return read_audio(sample.path)

    @staticmethod
    def judge(subject: Subject, sample: Sample, loaded: Any) -> Judged:
        assert isinstance(sample.truth, TextTruth)
        text = subject.transcriber(loaded).text
        return Judged(spoken_errors(text, sample.truth.text), text)

    @staticmethod
    def scores(records: Sequence[Any]) -> Scores:
        return score_text(records, by_words=True)

    @staticmethod
    def expected(sample: Sample) -> str:
        return sample.truth.text if isinstance(sample.truth, TextTruth) else ""


class _Tensors:
    @staticmethod
    def load(sample: Sample) -> Any:
        return sample.truth

    def judge(self, subject: Subject, sample: Sample, loaded: TensorTruth) -> Judged:
        run = subject.runner or (subject.pipeline._pool if subject.pipeline is not None else None)
        if run is None:
            raise EvaluationError(f"{subject.path}: it cannot be fed with arrays")
        specs = subject.inputs or (subject.pipeline.model.inputs if subject.pipeline is not None else ())
        feeds = {}
        for spec in specs:
            value = loaded.inputs.get(spec.name, loaded.inputs.get("") if len(specs) == 1 else None)
            if value is None:
                raise DatasetError(f"{sample.name}: there is no input {spec.name!r}; there are "
                                   f"{', '.join(map(repr, loaded.inputs))}")  # fmt: skip
            feeds[spec.name] = value if isinstance(value, np.ndarray) else self._image(subject, spec, value)
        found = run.run(feeds)
        distances, squares = [], []
        for name, wanted in loaded.expected.items():
            values = found.get(name) if name else next(iter(found.values())) if len(found) == 1 else None
            if values is None:
                known = ", ".join(map(repr, found))
                raise DatasetError(f"{sample.name}: there is no output {name!r}; there are {known}")
            if values.size != wanted.size:
                counts = f"{values.size} elements, expected are {wanted.size}"
                raise DatasetError(f"{sample.name}: output {name!r} has {counts}")
            distances.append(measure(values, wanted))
            squares.append(float(np.mean((values.reshape(-1).astype(np.float64) - wanted.reshape(-1)) ** 2)))
        return Judged((distances, float(np.mean(squares))))

    @staticmethod
    def _image(subject: Subject, spec: Any, path: Any) -> Array:
        if isinstance(subject.model, Model):
            return picture_for(subject.model, spec, path)[0]
        if subject.pipeline is not None:
            from openrknn.vision.geometry import place
            from openrknn.vision.pictures import fitted

            pixels = read_picture(path)
            pipeline = subject.pipeline
            placement = place(pixels.shape[1], pixels.shape[0], pipeline.frame, pipeline.fit)
            return fitted(pixels, placement, channels=pipeline.channels, order=pipeline.order)
        raise EvaluationError(f"{subject.path}: its input {spec.name!r} is not an image")

    @staticmethod
    def scores(records: Sequence[Any]) -> Scores:
        return score_tensors([one for one, _ in records], [square for _, square in records])

    @staticmethod
    def expected(sample: Sample) -> str:
        return ""


def check_fit(dataset: Dataset, subject: Subject) -> None:
    """A model can only be measured with a dataset that says what it should find."""
    if dataset.task == "tensors":
        return
    if dataset.task not in FITTING[subject.task]:
        raise EvaluationError(
            f"{dataset.path}: {dataset.kind} for the task {dataset.task!r}, and the model's task is {subject.task!r}; "
            f"give a dataset for {' or '.join(FITTING[subject.task])}, or another --task"
        )


READ_ERRORS = (RknnError, OSError)
"""A sample that raises one of these is left out, and named in the report."""
