"""ByteTrack against a published implementation, and by the measures of multiple object tracking."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.watch.tracking import Tracker, TrackerSettings
from openrknn.watch.tracking.assignment import assign
from openrknn.watch.tracking.tracker import overlaps
from tests.watch.moving import Sequence, sequences

Array = np.ndarray[Any, np.dtype[np.float64]]
WITNESS = Path(__file__).with_name("witness.json")
"""Track of each detection as `supervision` 0.25.1 gives it (ByteTrack, thresholds of the paper)."""


def _ids(sequence: Sequence, lost: float = 30) -> list[list[int]]:
    """Track of each detection; 0: none."""
    tracker, rows = Tracker(TrackerSettings(lost_seconds=lost), 1.0), []
    for frame, (boxes, scores) in enumerate(sequence.found):
        mine = [0] * len(boxes)
        for track in tracker.update(boxes, scores, [0] * len(boxes), float(frame)):
            mine[int(np.argmin(np.abs(boxes - track.box).sum(1)))] = track.number
        rows.append(mine)
    return rows


def test_gives_the_tracks_of_a_published_implementation() -> None:
    theirs = json.loads(WITNESS.read_text())["ids"]
    total = differing = 0
    for sequence, rows in zip(sequences(len(theirs)), theirs, strict=True):
        names: dict[int, int] = {}
        for mine, their in zip(_ids(sequence), rows, strict=True):
            for one, other in zip(mine, their, strict=True):
                total += 1
                differing += bool(one) != bool(other) or (one > 0 and names.setdefault(one, other) != other)
    assert total > 3000
    # Twice the published one gives a detection to nobody: it looks for the boxes of its tracks by their overlap.
    assert differing <= 2


def _measures(sequence: Sequence) -> tuple[float, float]:
    """MOTA and IDF1 with an overlap of one half (Bernardin 2008, Ristani 2016)."""
    tracker = Tracker(TrackerSettings(lost_seconds=30), 1.0)
    misses = wrong = switches = total = reported = 0
    last: dict[int, int] = {}
    shared: dict[tuple[int, int], int] = {}
    for frame, (boxes, scores) in enumerate(sequence.found):
        tracks = tracker.update(boxes, scores, [0] * len(boxes), float(frame))
        truth = sequence.truth[frame]
        near = overlaps(np.array([box for _, box in truth]).reshape(-1, 4),
                        np.array([track.box for track in tracks]).reshape(-1, 4))  # fmt: skip
        pairs = assign(1 - near, 0.5)
        total, reported = total + len(truth), reported + len(tracks)
        misses, wrong = misses + len(truth) - len(pairs), wrong + len(tracks) - len(pairs)
        for row, column in pairs:
            one, number = truth[row][0], tracks[column].number
            switches += last.get(one, number) != number
            last[one] = number
            shared[one, number] = shared.get((one, number), 0) + 1
    rows, columns = sorted({key[0] for key in shared}), sorted({key[1] for key in shared})
    table = np.array([[-float(shared.get((row, column), 0)) for column in columns] for row in rows])
    same = -sum(table[row, column] for row, column in assign(table, 0.0))
    return 1 - (misses + wrong + switches) / total, 2 * same / (total + reported)


def test_follows_objects_through_occlusions() -> None:
    scores = [_measures(Sequence(seed, objects=8, miss=0.03)) for seed in range(100, 106)]
    # Missed detections are what MOTA loses; who is who is what IDF1 measures.
    assert min(mota for mota, _ in scores) > 0.75
    assert sum(idf1 for _, idf1 in scores) / len(scores) > 0.88


@pytest.mark.parametrize("seed", range(12))
def test_assigns_at_the_least_cost(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows, columns = (int(one) for one in dice.integers(1, 5, 2))
    costs, limit = dice.uniform(0, 1, (rows, columns)), float(dice.uniform(0.2, 1))
    best = 0.0
    for count in range(1, min(rows, columns) + 1):
        for chosen in itertools.combinations(range(rows), count):
            for places in itertools.permutations(range(columns), count):
                best = min(best, sum(costs[row, place] - limit for row, place in zip(chosen, places, strict=True)))
    pairs = assign(costs, limit)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    assert all(costs[pair] <= limit for pair in pairs)
    assert sum(costs[pair] - limit for pair in pairs) == pytest.approx(best)


def test_assigns_nothing_to_nothing() -> None:
    assert assign(np.zeros((0, 3)), 1.0) == assign(np.zeros((3, 0)), 1.0) == []
    assert assign(np.full((2, 2), np.inf), 0.5) == []


def _box(x: float) -> Array:
    return np.array([[x, 0.0, x + 20, 20.0]])


def _numbers(tracker: Tracker, x: float | None, now: float, label: int = 0) -> list[int]:
    boxes = np.zeros((0, 4)) if x is None else _box(x)
    found = tracker.update(boxes, np.full(len(boxes), 0.9), [label] * len(boxes), now)
    return [track.number for track in found]


def test_a_track_lives_for_seconds_and_not_for_frames() -> None:
    tracker = Tracker(TrackerSettings(lost_seconds=2.0), 0.1)
    assert _numbers(tracker, 0, 0.0) == [1]
    assert _numbers(tracker, None, 1.0) == []
    assert _numbers(tracker, 0, 2.0) == [1]
    assert _numbers(tracker, None, 4.1) == []
    assert tracker.alive == set()
    assert _numbers(tracker, 0, 4.2) == []  # a new one has to be seen twice
    assert _numbers(tracker, 0, 4.3) == [2]


def test_a_slow_camera_does_not_lose_everything_between_two_frames() -> None:
    tracker = Tracker(TrackerSettings(lost_seconds=2.0), 10.0)
    assert [_numbers(tracker, 0, 10.0 * frame) for frame in range(3)] == [[1], [1], [1]]


def test_another_class_is_another_object() -> None:
    tracker = Tracker(TrackerSettings(), 1.0)
    assert _numbers(tracker, 0, 0.0, label=0) == [1]
    assert _numbers(tracker, 0, 1.0, label=1) == []
    assert _numbers(tracker, 0, 2.0, label=1) == [2]


def test_a_doubtful_box_keeps_a_track_and_begins_none() -> None:
    tracker = Tracker(TrackerSettings(), 1.0)
    tracker.update(_box(0), np.array([0.9]), [0], 0.0)
    assert [one.number for one in tracker.update(_box(2), np.array([0.3]), [0], 1.0)] == [1]
    assert tracker.update(np.array([[200.0, 0, 220, 20]]), np.array([0.55]), [0], 2.0) == []
    assert tracker.alive == {1}
