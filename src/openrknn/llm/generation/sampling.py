"""Which token comes next.

A sampled token is the argument of the maximum of log-probability plus Gumbel noise, and the noise is a hash of seed,
position and token. So a seed gives the same text whatever else runs beside it, whether tokens were computed one at a
time or verified several at a time, and a draft that samples with the same noise often proposes the very token.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openrknn.llm.weights import Floats

__all__ = ["Choice", "Sampler", "Sampling"]

Doubles = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_FEW = 1024
"""Candidates that are sorted first; they nearly always hold the mass that top-p asks for."""
_SEED_BITS = 63
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Temperature is applied first, then top-k, top-p and min-p cut what is left."""

    temperature: float = 1.0
    """0: always the most probable token."""
    top_k: int = 0
    """Only the k most probable; 0: all."""
    top_p: float = 1.0
    """Only the most probable that have this share of the probability together."""
    min_p: float = 0.0
    """Only those that are at least so probable, relative to the most probable one."""
    repetition_penalty: float = 1.0
    """Divides the logits of tokens in the context (multiplies negative ones)."""
    repetition_window: int = 0
    """How many of the last tokens that looks at; 0: all."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that were generated."""
    frequency_penalty: float = 0.0
    """The same, for each time that they were."""
    bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of these tokens."""
    seed: int | None = None
    """None: another one each time."""

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0.0, 100.0)
        _check("top_p", self.top_p, 0.0, 1.0)
        _check("min_p", self.min_p, 0.0, 1.0)
        _check("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _check("presence_penalty", self.presence_penalty, -100.0, 100.0)
        _check("frequency_penalty", self.frequency_penalty, -100.0, 100.0)
        if self.top_k < 0 or self.repetition_window < 0:
            raise ValueError("top_k and repetition_window are 0 or more")
        if any(not math.isfinite(value) for value in self.bias.values()):
            raise ValueError("a bias is a finite number")


@dataclass(frozen=True, slots=True)
class Choice:
    """A token and, if asked for, log-probabilities of the model itself, before penalties and temperature."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Chooses for one sequence. It remembers nothing between calls but its seed."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        seed = secrets.randbits(_SEED_BITS) if sampling.seed is None else sampling.seed
        self._key = _mixed(np.array([seed & (2**64 - 1)], np.uint64))

    def choose(
        self,
        logits: Floats,
        position: int,
        *,
        context: Sequence[int] = (),
        generated: Counter[int] | None = None,
        mask: Mask | None = None,
        logprobs: int | None = None,
    ) -> Choice:
        """The token at `position` of what is generated, after the logits [vocabulary].

        `context` is what the repetition penalty looks at, `generated` counts what presence and frequency look at,
        `mask` is False for tokens that must not come, `logprobs` is how many alternatives to tell.
        """
        scores = self._penalised(logits.astype(np.float64), context, generated)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        best = int(np.argmax(scores))
        if not math.isfinite(scores[best]):
            if np.isfinite(logits).all():
                raise ValueError("no token can come next: all of them are masked")
            raise ValueError(
                "the logits are not finite: numbers of this text are larger than the compiled file holds in fp16"
            )
        token = best if self.sampling.temperature == 0 else self._sample(scores, position)
        if logprobs is None:
            return Choice(token)
        return Choice(token, *_log_probabilities(logits.astype(np.float64), token, logprobs))

    def _penalised(self, scores: Doubles, context: Sequence[int], generated: Counter[int] | None) -> Doubles:
        chosen = self.sampling
        if chosen.repetition_penalty != 1.0 and context:
            seen = np.unique(np.asarray(context[-chosen.repetition_window :], np.int64))
            old = scores[seen]
            scores[seen] = np.where(old > 0, old / chosen.repetition_penalty, old * chosen.repetition_penalty)
        if generated and (chosen.presence_penalty or chosen.frequency_penalty):
            ids = np.fromiter(generated, np.int64, len(generated))
            counts = np.fromiter(generated.values(), np.float64, len(generated))
            scores[ids] -= chosen.presence_penalty + chosen.frequency_penalty * counts
        for token, value in chosen.bias.items():
            if 0 <= token < len(scores):
                scores[token] += value
        return scores

    def _sample(self, scores: Doubles, position: int) -> int:
        ids, values = _kept(scores / self.sampling.temperature, self.sampling)
        noise = -np.log(-np.log(self._uniform(position, ids)))
        return int(ids[np.argmax(values + noise)])

    def _uniform(self, position: int, ids: Ids) -> Doubles:
        """Numbers in (0, 1), one for each token."""
        with np.errstate(over="ignore"):
            key = _mixed(self._key + np.uint64(position) * _GOLDEN)
            bits = _mixed(key + ids.astype(np.uint64) * _GOLDEN)
        return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _kept(scaled: Doubles, chosen: Sampling) -> tuple[Ids, Doubles]:
    """What top-k, top-p and min-p leave; equal values are cut from the end of the vocabulary."""
    ids = np.flatnonzero(scaled > -np.inf)
    values = scaled[ids]
    if 0 < chosen.top_k < len(ids):
        ids, values = _highest(ids, values, chosen.top_k)
    if chosen.top_p < 1.0:
        highest = values.max()
        total = float(np.exp(values - highest).sum())
        some_ids, some = _highest(ids, values, min(_FEW, len(ids)))
        shares = np.cumsum(np.exp(some - highest)) / total
        if shares[-1] < chosen.top_p and len(some) < len(ids):
            some_ids, some = _highest(ids, values, len(ids))
            shares = np.cumsum(np.exp(some - highest)) / total
        count = min(int(np.searchsorted(shares, chosen.top_p)) + 1, len(some))
        ids, values = some_ids[:count], some[:count]
    if chosen.min_p > 0.0:
        enough = values >= values.max() + math.log(chosen.min_p)
        ids, values = ids[enough], values[enough]
    return ids, values


def _highest(ids: Ids, values: Doubles, count: int) -> tuple[Ids, Doubles]:
    if count < len(ids):
        least = np.partition(values, len(values) - count)[len(values) - count]
        enough = np.flatnonzero(values >= least)
        ids, values = ids[enough], values[enough]
    order = np.argsort(-values, kind="stable")[:count]
    return ids[order], values[order]


def _log_probabilities(logits: Doubles, token: int, count: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    highest = logits.max()
    total = float(highest + np.log(np.exp(logits - highest).sum()))
    if count <= 0:
        return float(logits[token]) - total, ()
    ids, values = _highest(np.arange(len(logits), dtype=np.int64), logits, min(count, len(logits)))
    top = tuple((int(one), float(value) - total) for one, value in zip(ids, values, strict=True))
    return float(logits[token]) - total, top


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX_1
        numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX_2
    return numbers ^ (numbers >> np.uint64(31))


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # NaN as well
        raise ValueError(f"{name} is a number from {least:g} to {most:g}, not {value!r:.40}")
