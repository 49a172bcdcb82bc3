"""How far a quantised model is from float: perplexity of a text, and the divergence of the distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openrknn.llm.engine import Engine
from openrknn.llm.weights import Floats

Doubles = npt.NDArray[np.float64]
WINDOW = 512
"""Tokens that are computed at once, the first of them the prefix."""
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one model against another one, over all tokens of a text but the first of each window."""

    tokens: int
    perplexity: float
    reference: float
    """The perplexity of the model that it is compared with."""
    kl: float
    """Mean divergence of the two distributions, in nats."""
    kl_99: float
    """One token in a hundred has more."""
    same: float
    """Share of tokens whose most likely successor is the same."""

    @property
    def change(self) -> float:
        """Of the perplexity: 0.02 is 2 % more."""
        return self.perplexity / self.reference - 1


def windows(tokens: Sequence[int], prefix: int | None, size: int = WINDOW) -> Iterator[list[int]]:
    """A text in parts, each behind the prefix; what is shorter than two tokens is left out."""
    front = [] if prefix is None else [prefix]
    step = size - len(front)
    for first in range(0, len(tokens), step):
        part = [*front, *tokens[first : first + step]]
        if len(part) > 2:
            yield part


def compare(
    reference: Engine, engines: Mapping[str, Engine], parts: Sequence[Sequence[int]],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Measured]:  # fmt: skip
    """Run all of them over the windows of a text; the results have the names of the engines."""
    sums = {name: _Sum() for name in engines}
    for number, part in enumerate(parts):
        wanted: Floats | None = None
        for at, (name, engine) in enumerate(engines.items()):
            if progress is not None:
                progress(number * len(engines) + at, len(parts) * len(engines))
            wanted = _forward(reference, part) if wanted is None else wanted
            sums[name].add(wanted, _forward(engine, part), part)
    return {name: entry.result() for name, entry in sums.items()}


def _forward(engine: Engine, tokens: Sequence[int]) -> Floats:
    cache = engine.new_cache()
    try:
        return engine.forward(cache, tokens, all_logits=True)[1:]
    finally:
        cache.close()


class _Sum:
    def __init__(self) -> None:
        self._divergences: list[Doubles] = []
        self._losses: list[Doubles] = []
        self._wanted: list[Doubles] = []
        self._same = 0

    def add(self, wanted: Floats, found: Floats, tokens: Sequence[int]) -> None:
        following = np.array([*tokens[2:], -1])
        for first in range(0, len(wanted), _ROWS):  # a vocabulary in float64 is large
            left, right = (log_softmax(one[first : first + _ROWS]) for one in (wanted, found))
            self._divergences.append((np.exp(left) * (left - right)).sum(axis=1))
            self._same += int((left.argmax(axis=1) == right.argmax(axis=1)).sum())
            successors = following[first : first + _ROWS]
            rows = np.flatnonzero(successors >= 0)
            self._losses.append(-right[rows, successors[rows]])
            self._wanted.append(-left[rows, successors[rows]])

    def result(self) -> Measured:
        divergences = np.concatenate(self._divergences)
        return Measured(
            len(divergences), _perplexity(self._losses), _perplexity(self._wanted), float(divergences.mean()),
            float(np.quantile(divergences, 0.99)), self._same / len(divergences),
        )  # fmt: skip


def _perplexity(losses: list[Doubles]) -> float:
    joined = np.concatenate(losses)
    return float(np.exp(joined.mean())) if joined.size else float("nan")


def log_softmax(logits: Floats) -> Doubles:
    """Over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Doubles = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
