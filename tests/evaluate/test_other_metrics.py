"""Classification, segmentation and text: equal to scikit-learn and jiwer."""

import jiwer
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score, top_k_accuracy_score

from openrknn.distance import measure
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
from openrknn.evaluate.metrics.text import edits, read_errors, spoken, spoken_errors
from openrknn.evaluate.truth import LinesTruth

WORDS = ["the", "a", "cat", "dog", "sat", "on", "under", "mat", "it's"]


@pytest.mark.parametrize("seed", range(5))
def test_top_k_and_confusion_are_those_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    classes, count = 8, 60
    actual = random.integers(0, classes, count)
    probabilities = random.dirichlet(np.ones(classes), count)
    rankings = np.argsort(-probabilities, axis=1)
    samples = [
        Ranked(int(kind), ranking[:5], float(row[kind]))
        for kind, ranking, row in zip(actual, rankings, probabilities, strict=True)
    ]
    scores = score_ranking(samples, [str(number) for number in range(classes)])
    labels = list(range(classes))
    assert scores.values["top1"] == pytest.approx(accuracy_score(actual, rankings[:, 0]))
    assert scores.values["top5"] == pytest.approx(top_k_accuracy_score(actual, probabilities, k=5, labels=labels))
    assert scores.confusion is not None
    assert (scores.confusion[:, :classes] == confusion_matrix(actual, rankings[:, 0], labels=labels)).all()
    assert scores.resample is not None
    assert scores.resample(np.ones((1, count), np.int64))[0] == pytest.approx(scores.value)


def test_a_class_that_the_dataset_lacks_is_in_the_last_column() -> None:
    scores = score_ranking([Ranked(0, np.array([-1, 0]), 0.3), Ranked(1, np.array([1]), 0.9)], ["a", "b"])
    assert scores.confusion is not None
    assert scores.confusion.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert (scores.values["top1"], scores.values["top5"], scores.values["class_accuracy"]) == (0.5, 1.0, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_intersection_over_union_is_that_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    actual = random.integers(0, 5, (3, 12, 9)).astype(np.uint8)
    found = np.where(random.random(actual.shape) < 0.6, actual, random.integers(0, 5, actual.shape))
    actual[:, 0] = 255
    scores = score_areas([count_pixels(a, f, 5) for a, f in zip(actual, found, strict=True)], list("abcde"))
    counted = actual != 255
    expected = jaccard_score(actual[counted], found[counted], average=None, labels=range(5))
    assert [row.value for row in scores.classes] == pytest.approx(expected.tolist())
    assert scores.value == pytest.approx(expected.mean())
    assert scores.values["pixel_accuracy"] == pytest.approx((actual == found)[counted].mean())
    assert scores.resample is not None
    assert scores.resample(np.ones((1, 3), np.int64))[0] == pytest.approx(scores.value)


@pytest.mark.parametrize("seed", range(10))
def test_error_rates_are_those_of_jiwer(seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [
        (" ".join(random.choice(WORDS, random.integers(0, 12))), " ".join(random.choice(WORDS, random.integers(1, 12))))
        for _ in range(20)
    ]
    scores = score_text([spoken_errors(found, wanted) for found, wanted in pairs], by_words=True)
    found, wanted = [one for one, _ in pairs], [other for _, other in pairs]
    assert scores.values["wer"] == pytest.approx(jiwer.wer(wanted, found))
    assert scores.values["cer"] == pytest.approx(jiwer.cer(wanted, found))


def test_what_nobody_hears_does_not_count_and_what_everybody_reads_does() -> None:
    assert spoken_errors("Hello, WORLD!", "hello world").word_errors == 0
    assert read_errors("Hello", "hello").character_errors == 1
    assert read_errors("a  b", "a b").character_errors == 0
    assert spoken("It's 5 o'clock.") == ["it's", "5", "o'clock"]
    assert edits("kitten", "sitting") == 3
    assert edits("", "abc") == edits("abc", "") == 3
    assert edits("", "") == 0


def test_lines_of_text_match_once_and_unreadable_ones_do_not_count() -> None:
    def line(left: float, top: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array([[left, top], [left + 40, top], [left + 40, top + 10], [left, top + 10]])

    truth = LinesTruth((line(0, 0), line(0, 20), line(0, 40)), ("one", "two", None))
    found = np.array([line(0, 1), line(1, 0), line(100, 0), line(0, 40)])
    assert count_lines(truth, found) == (1, 3, 2)
    scores = score_lines([(1, 3, 2)])
    assert scores.values == {"hmean": pytest.approx(0.4), "precision": pytest.approx(1 / 3), "recall": 0.5}


def test_tensors_are_measured_by_their_worst_output() -> None:
    wanted = np.array([1.0, 2.0, 3.0])
    near, far = measure(wanted + 0.01, wanted), measure(-wanted, wanted)
    scores = score_tensors([[near], [near, far]], [1e-4, 2.0])
    assert scores.values["cosine"] == pytest.approx((near.cosine + far.cosine) / 2 if near.cosine and far.cosine else 0)
    assert scores.values["snr_db"] == pytest.approx((near.snr_db + far.snr_db) / 2)
