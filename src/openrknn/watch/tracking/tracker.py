"""ByteTrack (Zhang et al., ECCV 2022): confident boxes are matched first, doubtful ones keep tracks alive.

Times are seconds, not frames: cameras drop frames under load, and a track must not live longer because of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.watch.tracking.assignment import assign
from openrknn.watch.tracking.kalman import BoxFilter

__all__ = ["Track", "Tracker", "TrackerSettings", "overlaps"]

_Array = np.ndarray[Any, np.dtype[np.float64]]
_SECOND_LIMIT, _UNCONFIRMED_LIMIT, _SAME = 0.5, 0.7, 0.15
_LEAST_FRAMES = 2.5
"""A camera of one frame in ten seconds would lose everything between two frames."""
_REGULAR = (0.6, 1.5)
"""Frame intervals between two frames of a camera that is in time."""
_ROUNDING = 1e-9
"""Of times: a track is lost for exactly as long as it may be, give or take the rounding of a sum of intervals."""


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """The defaults are those of the paper."""

    high: float = 0.5
    """Boxes with a higher score are matched first."""
    low: float = 0.1
    """Boxes below this are ignored."""
    new: float = 0.6
    """A box needs this score to begin a track."""
    match: float = 0.8
    """Largest distance (1 - IoU x score) of a match."""
    lost_seconds: float = 2.0
    """How long an object may be out of sight."""


@dataclass(slots=True)
class Track:
    """One object over time."""

    number: int
    """Unique in its tracker, from 1; 0 until it was seen twice."""
    label: int
    filter: BoxFilter = field(repr=False)
    box: _Array
    """Where it was last seen: left, top, right, bottom."""
    score: float
    begun: float
    seen: float
    """When it was last seen."""
    is_confirmed: bool = False
    is_lost: bool = False
    best: float = 0.0


class Tracker:
    """Follows the objects of one camera. `interval`: seconds between frames, where none is dropped."""

    def __init__(self, settings: TrackerSettings | None = None, interval: float = 1 / 30) -> None:
        self.settings = settings or TrackerSettings()
        self.interval = interval
        self._tracks: list[Track] = []
        self._count = 0
        self._last: float | None = None

    @property
    def alive(self) -> set[int]:
        """Numbers of the objects that are in sight or may come back."""
        return {track.number for track in self._tracks if track.is_confirmed}

    def expire(self, now: float) -> list[Track]:
        """Take out the tracks that were out of sight for too long; confirmed ones are given."""
        limit = max(self.settings.lost_seconds, _LEAST_FRAMES * self.interval) + _ROUNDING
        gone = [track for track in self._tracks if now - track.seen > limit]
        if gone:
            self._tracks = [track for track in self._tracks if now - track.seen <= limit]
        return [track for track in gone if track.is_confirmed]

    def update(self, boxes: _Array, scores: _Array, labels: Sequence[int], now: float) -> list[Track]:
        """One frame: the confirmed tracks that are in it. `now` is its time, later than that of the frame before."""
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        scores = np.asarray(scores, np.float64)
        steps = self._predict(now)
        high = [row for row in range(len(scores)) if scores[row] > self.settings.high]
        low = [row for row in range(len(scores)) if self.settings.low < scores[row] <= self.settings.high]
        frame = _Frame(boxes, scores, labels, now)

        confirmed = [track for track in self._tracks if track.is_confirmed]
        rest, left = self._match(confirmed, high, frame, self.settings.match, is_fused=True)
        if not _REGULAR[0] <= steps <= _REGULAR[1]:
            # Frames that were held up on their way show less movement than their times say: where was it last seen?
            rest, left = self._match(rest, left, frame, self.settings.match, is_fused=True, is_last=True)
        again, _ = self._match([one for one in rest if not one.is_lost], low, frame, _SECOND_LIMIT, is_fused=False)
        for track in again:
            track.is_lost = True
        unconfirmed = [track for track in self._tracks if not track.is_confirmed]
        never, left = self._match(unconfirmed, left, frame, _UNCONFIRMED_LIMIT, is_fused=True)
        self._tracks = [track for track in self._tracks if not any(track is one for one in never)]
        self._begin([row for row in left if scores[row] >= self.settings.new], frame)
        self._last = now
        self.expire(now)
        self._forget_doubles()
        return [track for track in self._tracks if track.is_confirmed and not track.is_lost]

    def _predict(self, now: float) -> float:
        """Where all should be by now; frame intervals since the last frame."""
        steps = 1.0 if self._last is None else max(now - self._last, 0.0) / self.interval
        self.expire(now)
        for track in self._tracks:
            if track.is_lost:
                track.filter.stop()
            track.filter.predict(steps)
        return steps

    def _match(
        self, tracks: list[Track], rows: list[int], frame: _Frame, limit: float, *, is_fused: bool,
        is_last: bool = False,
    ) -> tuple[list[Track], list[int]]:  # fmt: skip
        """Tracks and boxes without a match.

        `is_fused`: a box of low score is farther away. `is_last`: by where tracks were last seen, not where they should
        be.
        """
        if not tracks or not rows:
            return tracks, rows
        places = [track.box if is_last else track.filter.box for track in tracks]
        near = overlaps(np.array(places), frame.boxes[rows])
        costs = 1 - near * frame.scores[rows] if is_fused else 1 - near
        others = np.array([[track.label != frame.labels[row] for row in rows] for track in tracks])
        costs[others] = np.inf
        pairs = assign(costs, limit)
        for at, column in pairs:
            track, row = tracks[at], rows[column]
            track.filter.update(frame.boxes[row])
            track.box, track.score, track.seen = frame.boxes[row].copy(), float(frame.scores[row]), frame.now
            track.best = max(track.best, track.score)
            track.is_lost = False
            if not track.is_confirmed:
                track.is_confirmed = True
                track.number = self._next()
        matched, taken = {at for at, _ in pairs}, {column for _, column in pairs}
        return (
            [track for at, track in enumerate(tracks) if at not in matched],
            [row for column, row in enumerate(rows) if column not in taken],
        )

    def _begin(self, rows: list[int], frame: _Frame) -> None:
        """New tracks. What is there in the first frame counts at once; later a second sight is needed."""
        is_first = self._last is None
        for row in rows:
            box, score = frame.boxes[row].copy(), float(frame.scores[row])
            track = Track(0, int(frame.labels[row]), BoxFilter(box), box, score, frame.now, frame.now, best=score)
            if is_first:
                track.is_confirmed, track.number = True, self._next()
            self._tracks.append(track)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _forget_doubles(self) -> None:
        """Of a lost track and one that is seen at the same place, the older stays."""
        seen = [track for track in self._tracks if track.is_confirmed and not track.is_lost]
        lost = [track for track in self._tracks if track.is_lost]
        if not seen or not lost:
            return
        near = overlaps(np.array([one.filter.box for one in seen]), np.array([one.filter.box for one in lost]))
        gone: list[Track] = []
        for row, column in np.argwhere(near > 1 - _SAME):
            first, second = seen[row], lost[column]
            if first.label == second.label:
                gone.append(second if first.seen - first.begun > second.seen - second.begun else first)
        self._tracks = [track for track in self._tracks if not any(track is one for one in gone)]


@dataclass(frozen=True, slots=True)
class _Frame:
    boxes: _Array
    scores: _Array
    labels: Sequence[int]
    now: float


def overlaps(first: _Array, second: _Array) -> _Array:
    """[n, 4] and [m, 4] -> [n, m] intersection over union."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None] - shared
    found: _Array = shared / np.maximum(union, 1e-9)
    return found
