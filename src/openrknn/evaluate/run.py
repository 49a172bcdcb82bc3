"""`evaluate`: a model on a dataset, sample by sample, with its float version beside it."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openrknn.container.model import Model
from openrknn.evaluate.datasets import open_dataset
from openrknn.evaluate.drawing import draw_sample
from openrknn.evaluate.errors import DatasetError, EvaluationError
from openrknn.evaluate.metrics.names import METRICS
from openrknn.evaluate.metrics.scores import RESAMPLES, Scores, interval, weights_for
from openrknn.evaluate.models import ModelOptions, Subject, open_subject
from openrknn.evaluate.names import ClassMap, class_map
from openrknn.evaluate.report import Report, Side, Worst
from openrknn.evaluate.tasks import READ_ERRORS, Judged, Task, check_fit, task_for
from openrknn.evaluate.truth import AreaTruth, ClassTruth, Dataset, ObjectTruth, Sample
from openrknn.vision.labels import LISTS, names_of
from openrknn.vision.pipeline import parallel

Progress = Callable[[str, int, int], None]
_PERFECT = 0.999
_MOST_WORK = 40_000_000
"""Elements that resampling may go through: with more samples there are fewer resamples."""


def evaluate(
    model: str | os.PathLike[str] | Model,
    dataset: str | os.PathLike[str] | Dataset,
    *,
    float_model: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    budget: float | None = None,
    worst: int = 8,
    seed: int = 0,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
    options: ModelOptions | None = None,
    **more: Any,
) -> Report:
    """Measure a model.

    `float_model` is evaluated beside it, on the same samples with the same preprocessing: usually the ONNX file that
    the model was made from. `limit` takes so many samples, `budget` stops after so many seconds; both take the samples
    in a random order that depends on `seed` alone, so that all classes are among them. `more` are fields of
    `ModelOptions`: task, family, labels, threshold, overlap, fit, order, mean, std, size, device, cores, workers.
    Ctrl-C ends it early: the report is about what was evaluated by then, and its `end` is "interrupted".
    """
    chosen = replace(options or ModelOptions(), **more)
    with ExitStack() as stack:
        subject = stack.enter_context(open_subject(model, chosen))
        data = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, subject.task)
        check_fit(data, subject)
        subjects = [subject]
        if float_model is not None:
            subjects.append(stack.enter_context(open_subject(float_model, chosen, subject)))
            check_fit(data, subjects[1])
            if data.task != "tensors" and subjects[1].task != subject.task:
                raise EvaluationError(
                    f"{subjects[1].path}: its task is {subjects[1].task!r}, the model's is {subject.task!r}; they are "
                    "not the same network"
                )
        maps = {id(one): _map(data, one) for one in subjects} if data.task in _WITH_CLASSES else {}
        run = _Run(data, subjects, task_for(data, subject, maps), progress)
        run.through(_chosen(data.samples, limit, shuffles=bool(limit or budget), seed=seed), budget, chosen.workers)
        return _report(run, maps, worst=worst, resamples=resamples, is_limited=bool(limit and limit < len(data)))


_WITH_CLASSES = ("detect", "segment", "pose", "obb", "classify", "areas")


def _map(data: Dataset, subject: Subject) -> ClassMap:
    assert subject.pipeline is not None
    largest = -1
    for sample in data.samples:
        if isinstance(sample.truth, ObjectTruth) and len(sample.truth):
            largest = max(largest, int(sample.truth.classes.max()))
        elif isinstance(sample.truth, ClassTruth):
            largest = max(largest, sample.truth.number)
    if any(isinstance(sample.truth, AreaTruth) for sample in data.samples):
        largest = -1  # in the masks; what a model has no class for is not counted
    pipeline = subject.pipeline
    return class_map(_with_known_names(data, subject, largest), pipeline.labels, pipeline.classes, largest)


def _with_known_names(data: Dataset, subject: Subject, largest: int) -> Dataset:
    """A YOLO dataset without names beside a model of COCO's 90 numbers: labels count COCO's 80 classes."""
    assert subject.pipeline is not None
    is_coco = subject.pipeline.labels == names_of("coco90")
    if data.names is None and is_coco and data.task == "detect" and largest < LISTS["coco"]:
        return replace(data, names=names_of("coco"))
    return data


def _chosen(samples: Sequence[Sample], limit: int | None, *, shuffles: bool, seed: int) -> list[Sample]:
    found = list(samples)
    if shuffles:
        random.Random(seed).shuffle(found)
    return found[:limit]


@dataclass(frozen=True, slots=True, eq=False)
class _Done:
    sample: Sample
    judged: tuple[Judged, ...]
    """By every model."""
    seconds: tuple[float, ...]
    problem: str = ""


class _Run:
    """What was evaluated so far."""

    def __init__(self, data: Dataset, subjects: Sequence[Subject], task: Task, progress: Progress | None) -> None:
        self.data, self.subjects, self.task, self.progress = data, subjects, task, progress
        self.done: list[_Done] = []
        self.problems: list[tuple[str, str]] = []
        self.end = "complete"
        self.seconds = 0.0

    def through(self, samples: Sequence[Sample], budget: float | None, workers: int) -> None:
        """Evaluate samples until they, the time or the user's patience end."""
        started = time.monotonic()
        stop = threading.Event()

        def until_stopped() -> Any:
            for number, sample in enumerate(samples):
                if stop.is_set():
                    return
                if budget is not None and number and time.monotonic() - started >= budget:
                    self.end = "budget"
                    return
                yield sample

        outcomes = parallel(until_stopped(), self._one, workers)
        try:
            for number, outcome in enumerate(outcomes, 1):
                if outcome.problem:
                    self.problems.append((outcome.sample.name, outcome.problem))
                else:
                    self.done.append(outcome)
                if self.progress is not None:
                    self.progress("samples", number, len(samples))
        except KeyboardInterrupt:
            self.end = "interrupted"
            stop.set()
        finally:
            outcomes.close()
        self.seconds = time.monotonic() - started

    def _one(self, sample: Sample) -> _Done:
        try:
            loaded = self.task.load(sample)
        except READ_ERRORS as error:
            return _Done(sample, (), (), str(error))
        judged, seconds = [], []
        for subject in self.subjects:
            started = time.perf_counter()
            try:
                judged.append(self.task.judge(subject, sample, loaded))
            except DatasetError as error:
                return _Done(sample, (), (), str(error))
            seconds.append(time.perf_counter() - started)
        return _Done(sample, tuple(judged), tuple(seconds))


def _report(run: _Run, maps: dict[int, ClassMap], *, worst: int, resamples: int, is_limited: bool) -> Report:
    if not run.done:
        if not run.problems:
            raise KeyboardInterrupt  # before the first sample: there is nothing to report
        name, why = run.problems[0]
        raise DatasetError(f"{run.data.path}: none of {len(run.problems)} samples could be evaluated; {name}: {why}")
    scores = [run.task.scores([one.judged[at].record for one in run.done]) for at in range(len(run.subjects))]
    resampled = [_resampled(one, len(run.done), resamples) for one in scores]
    sides = [
        Side(subject.path, subject.about, one, _within(_interval(values, one.value), one.primary),
             sum(done.seconds[at] for done in run.done))
        for at, (subject, one, values) in enumerate(zip(run.subjects, scores, resampled, strict=True))
    ]  # fmt: skip
    drop_interval = None
    if len(sides) > 1 and resampled[0] is not None and resampled[1] is not None:
        loss = METRICS[scores[0].primary].loss
        measured = loss(scores[0].value or 0.0, scores[1].value or 0.0)
        drop_interval = _interval(loss(resampled[0], resampled[1]), measured)
    notes = [*run.data.notes]
    for subject in run.subjects:
        notes += [*subject.notes, *(maps[id(subject)].notes if id(subject) in maps else ())]
    if run.end == "complete" and is_limited:
        run.end = "limit"
    return Report(
        task=run.subjects[0].task,
        dataset=str(run.data.path),
        kind=run.data.kind,
        total=len(run.data),
        evaluated=len(run.done),
        problems=run.problems,
        model=sides[0],
        reference=sides[1] if len(sides) > 1 else None,
        drop_interval=drop_interval,
        worst=_worst(run, scores, worst),
        notes=list(dict.fromkeys(notes)),
        seconds=run.seconds,
        end=run.end,
        settings=_settings(run.subjects[0]),
    )


def _interval(values: Any, measured: float | None) -> tuple[float, float] | None:
    return None if values is None or measured is None else interval(values, measured)


def _within(found: tuple[float, float] | None, name: str) -> tuple[float, float] | None:
    """A share is from 0 to 1; an error rate may be larger."""
    if found is None or not METRICS[name].is_share:
        return found
    return max(found[0], 0.0), found[1] if METRICS[name].is_error else min(found[1], 1.0)


def _settings(subject: Subject) -> dict[str, Any]:
    if subject.pipeline is None:
        return {}
    pipeline = subject.pipeline
    found: dict[str, Any] = {"family": pipeline.family.name, "fit": pipeline.fit, "order": pipeline.order}
    if subject.task in ("detect", "segment", "pose", "obb"):
        settings = pipeline.settings
        found |= {"threshold": settings.threshold, "overlap": settings.overlap, "limit": settings.limit}
    return found


def _resampled(scores: Scores, count: int, resamples: int) -> Any:
    if scores.resample is None or count < 2 or not resamples or scores.value is None:
        return None
    most = max(int(_MOST_WORK / max(count * max(len(scores.classes), 1), 1)), 50)
    return scores.resample(weights_for(count, min(resamples, most)))


def _worst(run: _Run, scores: Sequence[Scores], count: int) -> list[Worst]:
    """Those that lost the most against float; without it, those that went worst."""
    own = scores[0].qualities
    other = scores[1].qualities if len(scores) > 1 else None
    key = own if other is None else own - other
    order = np.lexsort((own, np.round(key, 6))).tolist()
    found: list[Worst] = []
    for at in order:
        if len(found) == count or (own[at] > _PERFECT and (other is None or own[at] >= other[at])):
            break
        done = run.done[at]
        found.append(
            Worst(
                name=done.sample.name,
                quality=float(own[at]),
                reference_quality=None if other is None else float(other[at]),
                expected=run.task.expected(done.sample),
                said=done.judged[0].said,
                reference_said=done.judged[1].said if len(done.judged) > 1 else "",
                image=draw_sample(done.sample, done.judged[0].record, run.subjects[0].task),
            )
        )
    return found
