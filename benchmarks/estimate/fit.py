"""The two free constants of a board, fitted to published figures: bytes per second, and the start of a task.

Least squares on the relative error. For one bandwidth the rest is linear in the start, which cannot be negative; so
bandwidths are tried one by one, first coarsely, then finely, and the best is taken. `leave_one_out` says what the
constants are worth for a network that they have not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.estimate.features import Features
from openrknn.cost import Board, Spent, spent_by

__all__ = ["Case", "Fitted", "fit", "leave_one_out", "predict"]

_COARSE = np.geomspace(1e9, 40e9, 60)
_FINE_STEPS, _FINE_ROUNDS = 21, 4
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A network with what a board took for it."""

    features: Features
    published_ms: float


@dataclass(frozen=True)
class Fitted:
    """The constants that fit best, and what is left."""

    board: Board
    ratios: Mapping[str, float]
    """Network -> predicted / published, by the constants that all cases gave."""
    left_out: Mapping[str, float]
    """The same, by the constants that the other cases gave."""

    @property
    def mean_error(self) -> float:
        return float(np.mean([abs(ratio - 1) for ratio in self.left_out.values()]))

    @property
    def largest_error(self) -> float:
        return max(abs(ratio - 1) for ratio in self.left_out.values())


def predict(features: Features, board: Board) -> float:
    """Milliseconds."""
    return spent(features, board).seconds * 1e3


def spent(features: Features, board: Board) -> Spent:
    """By what bounds the tasks."""
    result = Spent(start=features.submits * board.submit_seconds)
    for work, count in features.works.items():
        result = result.plus(Spent(*(count * part for part in spent_by(work, board))))
    return result


class _Sums:
    """A case in arrays, for speed: the same sum as `predict` makes."""

    def __init__(self, case: Case, board: Board) -> None:
        works, counts = list(case.features.works), list(case.features.works.values())
        rates = (1, board.table_rate, board.dpu_rate, 1)
        inside = np.array([work[5:9] for work in works], float) / rates / board.hertz
        self._inside: Numbers = inside.max(axis=1)
        streamed = np.array([work.streamed_bytes for work in works], float)
        rate = board.stream_bytes_per_second
        self._streamed: Numbers | float = streamed / rate if rate is not None else 0.0
        self._bytes = np.array([work.moved_bytes for work in works], float) - (streamed if rate is not None else 0)
        self._counts = np.array(counts, float)
        self._jobs = case.features.submits * board.submit_seconds
        self.tasks = float(sum(counts))
        self.published = case.published_ms / 1e3

    def busy(self, bandwidth: float) -> float:
        """Seconds without the starts of tasks."""
        memory = self._bytes / bandwidth + self._streamed
        return float((np.maximum(self._inside, memory) * self._counts).sum()) + self._jobs


def fit(cases: Sequence[Case], board: Board) -> Board:
    """The rates that are not fitted are the board's."""
    return _fit([_Sums(case, board) for case in cases], board)


def _fit(sums: Sequence[_Sums], board: Board) -> Board:
    tried = _COARSE
    for _ in range(_FINE_ROUNDS):
        errors = [_start(sums, bandwidth)[0] for bandwidth in tried]
        best = int(np.argmin(errors))
        low, high = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
        tried = np.linspace(low, high, _FINE_STEPS)
    bandwidth = tried[int(np.argmin([_start(sums, value)[0] for value in tried]))]
    return replace(board, bytes_per_second=float(bandwidth), task_seconds=_start(sums, bandwidth)[1])


def _start(sums: Sequence[_Sums], bandwidth: float) -> tuple[float, float]:
    """(sum of squared relative errors, seconds per task)."""
    tasks = np.array([one.tasks / one.published for one in sums])
    wanted = np.array([1 - one.busy(bandwidth) / one.published for one in sums])
    start = max(float(tasks @ wanted / (tasks @ tasks)), 0.0)
    return float(((tasks * start - wanted) ** 2).sum()), start


def leave_one_out(cases: Sequence[Case], board: Board) -> Fitted:
    """Fit to all, and to all but each."""
    everything = fit(cases, board)
    ratios = {case.features.network: predict(case.features, everything) / case.published_ms for case in cases}
    left_out = {}
    for number, case in enumerate(cases):
        others = fit([*cases[:number], *cases[number + 1 :]], board)
        left_out[case.features.network] = predict(case.features, others) / case.published_ms
    return Fitted(everything, ratios, left_out)
