"""A window's text: which tokens may come next, and the search for the likeliest ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from openrknn.runtime.decoder.decoder import Fed
from openrknn.voice.results import compression_ratio
from openrknn.voice.whisper.vocabulary import STEP_SECONDS, Vocabulary

Array = npt.NDArray[np.float32]
_FIRST_SECONDS = 1.0
"""A text begins within the first second of its window."""
REPETITIVE = 2.4
"""A text that zlib makes so much shorter repeats itself."""
IMPROBABLE = -1.0
"""Mean logarithm of the tokens' probabilities."""
SILENT = 0.6
"""A probability of no speech, above which improbable text is discarded."""


class Steps(Protocol):
    """The decoder: `openrknn.Decoder`, or another one for comparison."""

    length: int

    def rewind(self, length: int) -> None: ...
    def fork(self, beams: int) -> None: ...
    def step(self, token: int | Sequence[int]) -> Array: ...
    def feed(self, tokens: Sequence[int], outputs: Sequence[str] = ()) -> Iterator[Fed]: ...
    def reorder(self, order: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Result:
    """The text of a window, as tokens with times between them."""

    tokens: tuple[int, ...]
    text: str
    avg_logprob: float
    no_speech_prob: float
    temperature: float
    language: str = ""
    logs: tuple[float, ...] = ()
    """Logarithm of each token's probability; none of a beam search."""

    @property
    def compression_ratio(self) -> float:
        return compression_ratio(self.text)

    @property
    def is_silence(self) -> bool:
        """Improbable text where there is probably no speech."""
        return self.no_speech_prob > SILENT and self.avg_logprob <= IMPROBABLE

    @property
    def is_doubtful(self) -> bool:
        """Worth another try."""
        if self.no_speech_prob > SILENT and self.avg_logprob < IMPROBABLE:
            return False
        return self.compression_ratio > REPETITIVE or self.avg_logprob < IMPROBABLE


class Rules:
    """Which tokens may follow those of a text."""

    def __init__(self, vocabulary: Vocabulary, *, times: bool) -> None:
        self._words, self._times = vocabulary, times
        self._never = np.array(vocabulary.suppressed, np.intp)
        self._never_first = np.array(vocabulary.blank, np.intp)

    def apply(self, row: Array, text: Sequence[int]) -> None:
        """Make what may not follow impossible, in place."""
        if not text:
            row[self._never_first] = -np.inf
        row[self._never] = -np.inf
        if self._times:
            self._apply_times(row, text)

    def _apply_times(self, row: Array, text: Sequence[int]) -> None:
        """Times come in pairs, the end of one part and the beginning of the next, and never go back."""
        words, first = self._words, self._words.first_time
        row[words.no_times] = -np.inf
        was_time = bool(text) and text[-1] >= first
        was_before = len(text) < 2 or text[-2] >= first
        if was_time and was_before:
            row[first:] = -np.inf
        elif was_time:
            row[: words.end] = -np.inf
        last = next((token for token in reversed(text) if token >= first), None)
        if last is not None:
            row[first : last if was_time and not was_before else last + 1] = -np.inf
        if not text:
            row[:first] = -np.inf
            row[first + round(_FIRST_SECONDS / STEP_SECONDS) + 1 :] = -np.inf
        # A time it is if all times together are likelier than any word.
        times, best = row[first:], row[:first].max()
        top = times.max()
        if np.isfinite(top) and top + math.log(float(np.exp(times - top, dtype=np.float64).sum())) > best:
            row[:first] = -np.inf


def log_softmax(row: Array) -> npt.NDArray[np.float64]:
    """In double precision; -inf stays."""
    wide = row.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))


class Search:
    """Decodes one window after `begin`; a second try starts from the same prompt without computing it again."""

    def __init__(self, steps: Steps, vocabulary: Vocabulary, most: int) -> None:
        self._steps, self._words, self._most = steps, vocabulary, most
        self._first: Array = np.zeros(0, np.float32)
        self._length = 0
        self.no_speech_prob = 0.0
        self._rules = {times: Rules(vocabulary, times=times) for times in (True, False)}
        self._times = True

    def languages(self) -> dict[str, float]:
        """Probability of each language in the window; leaves the first token in the decoder's cache."""
        self._steps.rewind(0)
        row = self._steps.step(self._words.begin)
        codes = list(self._words.languages)
        logs = log_softmax(row[[self._words.languages[code] for code in codes]])
        return dict(zip(codes, np.exp(logs).tolist(), strict=True))

    def begin(self, previous: Sequence[int], start: Sequence[int], *, times: bool = True) -> None:
        """Take the text before and the beginning of the text: computed once for all tries."""
        self._steps.rewind(0)
        self._times = times
        before = [self._words.previous, *previous] if previous else []
        tokens = [*before, *start, *(() if times else (self._words.no_times,))]
        begun = len(before)
        for part in self._steps.feed(tokens):
            row = part.logits[-1]
            if part.first <= begun < part.first + len(part.logits) and self._words.no_speech is not None:
                chances = log_softmax(part.logits[begun - part.first])
                self.no_speech_prob = float(np.exp(chances[self._words.no_speech]))
        self._first, self._length = np.array(row, np.float32), self._steps.length

    def decode(
        self, temperature: float, beam: int, random: np.random.Generator
    ) -> tuple[tuple[int, ...], tuple[float, ...], float]:
        """Tokens, the logarithms of their probabilities (none of a beam search), and the mean of these."""
        self._steps.rewind(self._length)
        logs: tuple[float, ...] = ()
        if beam > 1 and temperature == 0:
            tokens, total = self._beams(beam)
        else:
            tokens, logs, total = self._one(temperature, random)
        return tokens, logs, total / (len(tokens) + 1)

    @property
    def _is_full(self) -> bool:
        """Context, beginning and text can be a few tokens more than there are positions for: the text ends then."""
        return self._steps.length >= 2 * self._most

    def _one(self, temperature: float, random: np.random.Generator) -> tuple[tuple[int, ...], tuple[float, ...], float]:
        """The likeliest token each time, or one by chance."""
        tokens, found = list[int](), list[float]()
        total, row, rules = 0.0, self._first.copy(), self._rules[self._times]
        for _ in range(self._most):
            rules.apply(row, tokens)
            token = int(row.argmax())
            logs = log_softmax(row)
            if temperature > 0:
                chances = np.exp(log_softmax(np.asarray(row / np.float32(temperature))))
                token = int(random.choice(len(chances), p=chances / chances.sum()))
            total += float(logs[token])
            if token == self._words.end:
                break
            tokens.append(token)
            found.append(float(logs[token]))
            if len(tokens) == self._most or self._is_full:
                break
            row = np.array(self._steps.step(token), np.float32)
        return tuple(tokens), tuple(found), total

    def _beams(self, beam: int) -> tuple[tuple[int, ...], float]:
        """The best `beam` texts side by side, as OpenAI's search keeps them."""
        self._steps.fork(beam)
        rules, end = self._rules[self._times], self._words.end
        texts: list[tuple[int, ...]] = [()] * beam
        sums = [0.0] * beam
        rows = np.repeat(self._first[None], beam, axis=0)
        done: dict[tuple[int, ...], float] = {}
        for number in range(self._most):
            candidates: dict[tuple[int, ...], tuple[float, int]] = {}
            for which in range(beam):
                row = rows[which]
                rules.apply(row, texts[which])
                logs = log_softmax(row)
                for token in np.argpartition(logs, -beam - 1)[-beam - 1 :].tolist():
                    candidates[(*texts[which], token)] = (sums[which] + float(logs[token]), which)
            texts_next, order, sums_next = list[tuple[int, ...]](), list[int](), list[float]()
            fresh: list[tuple[tuple[int, ...], float]] = []
            for text, (score, which) in sorted(candidates.items(), key=lambda entry: entry[1][0], reverse=True):
                if text[-1] == end:
                    fresh.append((text[:-1], score))
                    continue
                texts_next.append(text)
                order.append(which)
                sums_next.append(score)
                if len(order) == beam:
                    break
            for text, score in fresh:
                if len(done) < beam:
                    done[text] = score
            texts, sums = texts_next, sums_next
            if len(done) >= beam or number == self._most - 1 or self._is_full:
                break
            self._steps.reorder(order)
            rows = np.array(self._steps.step([text[-1] for text in texts]), np.float32)
        for text, score in sorted(zip(texts, sums, strict=True), key=lambda entry: entry[1], reverse=True):
            if len(done) < beam:
                done.setdefault(text, score)
        return max(done.items(), key=lambda entry: entry[1] / max(1, len(entry[0])))
