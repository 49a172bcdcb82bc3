"""Classification, segmentation by pixels, text and tensors: metrics that are sums over samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from openrknn.distance import EQUAL_DB, Distance
from openrknn.evaluate.metrics.scores import Array, ClassScore, Scores
from openrknn.evaluate.metrics.text import TextErrors

_TOP = 5


# -- classification --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """One image: its class, the model's classes with the best first, and the probability of the right one."""

    actual: int
    ranking: Array
    probability: float


def score_ranking(samples: Sequence[Ranked], names: Sequence[str]) -> Scores:
    """Top-1, top-5, and a confusion matrix of the dataset's classes; one more column for all others."""
    first = np.array([len(one.ranking) > 0 and int(one.ranking[0]) == one.actual for one in samples], np.float64)
    among = np.array([one.actual in one.ranking[:_TOP].tolist() for one in samples], np.float64)
    count = len(names)
    confusion = np.zeros((count, count + 1), np.int64)
    for one in samples:
        guess = int(one.ranking[0]) if len(one.ranking) else -1
        confusion[one.actual, guess if 0 <= guess < count else count] += 1
    actual, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    rows = []
    for number, name in enumerate(names):
        hits = int(confusion[number, number])
        recall = hits / actual[number] if actual[number] else None
        precision = hits / predicted[number] if predicted[number] else None
        rows.append(ClassScore(name, int(actual[number]), recall, {"precision": precision}))
    known = [row.value for row in rows if row.value is not None]
    values = {
        "top1": _mean(first),
        "top5": _mean(among),
        "class_accuracy": float(np.mean(known)) if known else None,
    }
    qualities = np.array([one.probability for one in samples])
    return Scores("top1", values, rows, qualities, partial(_weighted, first, np.ones(len(samples))), (), confusion)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if values.size else None


def _weighted(part: Array, whole: Array, weights: Array) -> Array:
    total = weights @ whole
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((weights @ part) / np.where(total == 0, np.nan, total))


# -- segmentation by pixels ------------------------------------------------------------------------------------------

IGNORED = 255
"""Pixels of this number count neither for nor against: the edges of VOC, what Cityscapes leaves out."""


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """One image: for each class the pixels in both, in the truth, and in what was found."""

    both: Array
    actual: Array
    predicted: Array


def count_pixels(actual: Array, predicted: Array, classes: int) -> Pixels:
    """[height, width] each."""
    wanted = (actual != IGNORED) & (actual < classes)
    one, other = actual[wanted].astype(np.int64), predicted[wanted].astype(np.int64)
    other = np.where((other >= 0) & (other < classes), other, classes)
    both = np.bincount(one[one == other], minlength=classes)
    return Pixels(both, np.bincount(one, minlength=classes), np.bincount(other, minlength=classes + 1)[:classes])


def score_areas(samples: Sequence[Pixels], names: Sequence[str]) -> Scores:
    """Mean IoU over the classes that are in the truth or were found."""
    both, actual, predicted = (
        np.array([getattr(one, key) for one in samples], np.float64).reshape(len(samples), len(names))
        for key in ("both", "actual", "predicted")
    )
    union = actual + predicted - both
    total = union.sum(axis=0)
    rows = [
        ClassScore(name, int(actual[:, at].sum()), float(both[:, at].sum() / total[at]) if total[at] else None)
        for at, name in enumerate(names)
    ]
    known = [row.value for row in rows if row.value is not None]
    pixels = actual.sum()
    values = {
        "miou": float(np.mean(known)) if known else None,
        "pixel_accuracy": float(both.sum() / pixels) if pixels else None,
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(union > 0, both / union, np.nan)
    qualities = np.array([float(np.nanmean(row)) if np.isfinite(row).any() else 1.0 for row in each])
    return Scores("miou", values, rows, qualities, partial(_resampled_areas, both, union))


def _resampled_areas(both: Array, union: Array, weights: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (weights @ both) / (weights @ union)
    return np.array([float(np.nanmean(row)) if np.isfinite(row).any() else np.nan for row in shares])


# -- text ------------------------------------------------------------------------------------------------------------


def score_text(samples: Sequence[TextErrors], *, by_words: bool) -> Scores:
    """Error rates over all samples together; `by_words`: speech, where the word error rate is the main number."""
    words = np.array([one.word_errors for one in samples], np.float64)
    of_words = np.array([one.words for one in samples], np.float64)
    letters = np.array([one.character_errors for one in samples], np.float64)
    of_letters = np.array([one.characters for one in samples], np.float64)
    values = {
        "wer": _rate(words, of_words),
        "cer": _rate(letters, of_letters),
        "exact": _mean(np.array([one.character_errors == 0 for one in samples], np.float64)),
    }
    primary = "wer" if by_words else "cer"
    part, whole = (words, of_words) if by_words else (letters, of_letters)
    qualities = 1 - np.minimum(part / np.maximum(whole, 1), 1)
    return Scores(primary, values, (), qualities, partial(_weighted, part, whole))


def _rate(errors: Array, count: Array) -> float | None:
    return float(errors.sum() / count.sum()) if count.sum() else None


# -- lines of text ---------------------------------------------------------------------------------------------------


def score_lines(samples: Sequence[tuple[int, int, int]]) -> Scores:
    """From (right, found, there) of each image: precision, recall and their harmonic mean, as ICDAR counts them."""
    counts = np.array(samples, np.float64).reshape(-1, 3)
    right, found, there = counts.sum(axis=0)
    values = {
        "hmean": 2 * right / (found + there) if found + there else None,
        "precision": right / found if found else None,
        "recall": right / there if there else None,
    }
    whole = counts[:, 1] + counts[:, 2]
    qualities = np.where(whole > 0, 2 * counts[:, 0] / np.maximum(whole, 1), 1.0)
    return Scores("hmean", values, (), qualities, partial(_weighted, 2 * counts[:, 0], whole))


# -- tensors ---------------------------------------------------------------------------------------------------------


def score_tensors(samples: Sequence[Sequence[Distance]], squares: Sequence[float]) -> Scores:
    """From the distances of each sample's outputs, and its mean squared error."""
    cosines = np.array([min((d.cosine for d in one if d.cosine is not None), default=0.0) for one in samples])
    decibels = np.array([min((d.snr_db for d in one), default=EQUAL_DB) for one in samples])
    values = {
        "snr_db": _mean(decibels),
        "cosine": _mean(cosines),
        "mse": float(np.mean(squares)) if len(squares) else None,
        "largest_error": max((d.largest_error for one in samples for d in one), default=None),
    }
    qualities = np.clip(cosines, 0, 1)
    return Scores("snr_db", values, (), qualities, partial(_weighted, decibels, np.ones(len(samples))))
