"""From states to words: greedy and beam search over a decoder that gives one row of logits a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from openrknn.voice.tokens import BEGIN, END

Array = npt.NDArray[np.float32]
_RATE = 6.5
"""Tokens a second: no speech is faster; longer output is a model that repeats itself (Moonshine's own rule)."""
_SPARE = 4
"""Tokens on top: short words at the beginning, full stops, the end."""
_REPEATED = 12
"""Tokens that repeat one another before it counts as going in circles."""


class Stepper(Protocol):
    """A decoder that stands between two tokens, several beams side by side."""

    def begin(self, beams: int) -> None:
        """At the beginning of a text, this many beams wide."""

    def step(self, tokens: Sequence[int]) -> Array:
        """One token for every beam in, logits [beams, words] out."""

    def reorder(self, order: Sequence[int]) -> None:
        """Beam n goes on where beam `order[n]` was."""


@dataclass(frozen=True, slots=True)
class Found:
    """The tokens of a text without its begin and end, and how sure each was (natural logarithm)."""

    tokens: tuple[int, ...]
    logs: tuple[float, ...]

    @property
    def confidence(self) -> float:
        """The geometric mean of the tokens' probabilities."""
        return math.exp(sum(self.logs) / len(self.logs)) if self.logs else 0.0


def most_tokens(seconds: float) -> int:
    """How many tokens so much sound may have."""
    return math.ceil(_RATE * seconds) + _SPARE


def search(stepper: Stepper, most: int, beam: int = 1) -> Found:
    """The likeliest text of at most `most` tokens: the best token each time, or the best `beam` texts side by side."""
    return _greedy(stepper, most) if beam <= 1 else _beams(stepper, most, beam)


def _greedy(stepper: Stepper, most: int) -> Found:
    stepper.begin(1)
    tokens: list[int] = []
    logs: list[float] = []
    last = BEGIN
    for _ in range(most):
        row = stepper.step([last])[0]
        last = int(row.argmax())
        logs.append(float(_log_softmax(row)[last]))
        if last == END:
            break
        tokens.append(last)
        if keep := _circle(tokens):
            return Found(tuple(tokens[:keep]), tuple(logs[:keep]))
    return Found(tuple(tokens), tuple(logs))


@dataclass(frozen=True, slots=True)
class _Text:
    tokens: tuple[int, ...] = ()
    logs: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        """Mean logarithm a token: long texts are not worse for being long."""
        return sum(self.logs) / max(1, len(self.logs))


def _beams(stepper: Stepper, most: int, beam: int) -> Found:
    stepper.begin(beam)
    going, done = [_Text()], list[_Text]()
    for _ in range(most):
        lasts = [text.tokens[-1] if text.tokens else BEGIN for text in going]
        # All beams step together; those that do not exist yet repeat the first.
        rows = stepper.step(lasts + lasts[:1] * (beam - len(lasts)))[: len(going)]
        logs = np.stack([_log_softmax(row) for row in rows])
        sums = logs + np.array([[sum(text.logs)] for text in going])
        best = np.argsort(sums, axis=None)[::-1][: 2 * beam]
        order: list[int] = []
        coming: list[_Text] = []
        for place in best:
            which, token = divmod(int(place), logs.shape[1])
            text = _Text((*going[which].tokens, token), (*going[which].logs, float(logs[which, token])))
            if token == END:
                done.append(_Text(text.tokens[:-1], text.logs))
            elif keep := _circle(text.tokens):
                done.append(_Text(text.tokens[:keep], text.logs[:keep]))
            elif len(coming) < beam:
                coming.append(text)
                order.append(which)
        if not coming or (len(done) >= beam and max(text.score for text in done) >= coming[0].score):
            break
        stepper.reorder(order + order[:1] * (beam - len(order)))
        going = coming
    winner = max(done or going, key=lambda text: text.score)
    return Found(winner.tokens, winner.logs)


def _log_softmax(row: Array) -> npt.NDArray[np.float64]:
    wide = row.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))


def _circle(tokens: Sequence[int]) -> int:
    """How many tokens to keep if the text goes in circles: what repeats stays once; 0 if it does not."""
    for size in range(1, len(tokens) // 3 + 1):
        times = max(4, -(-_REPEATED // size))
        if len(tokens) >= size * times and all(
            tokens[-1 - at] == tokens[-1 - at - size] for at in range(size * (times - 1))
        ):
            return len(tokens) - size * (times - 1)
    return 0
