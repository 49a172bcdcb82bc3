"""SenseVoice: one pass of an encoder and CTC. It says language, emotion and event before the text."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

import numpy as np

from openrknn.closing import Closing
from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.listener import AUTO, Heard, ListenOptions
from openrknn.voice.pieces import is_tag, joined, log_softmax, timed_words
from openrknn.voice.sanm.frontend import Array
from openrknn.voice.sanm.tables import Buckets, Tables
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net

_BLANK = 0
_QUERIES = 4
"""Rows before the sound: language, event, emotion, style of writing. The answers are in the same rows."""
_EVENT, _EMOTION = 1, 2
"""Rows of the table that stand for two of the questions."""


class SenseVoice(Closing):
    """A set of the family, opened."""

    has_words = True

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.rate = voice.rate
        self._tables = Tables(voice)
        self._languages = _languages(voice)
        self.languages = tuple(code for code in self._languages if code != AUTO)
        self._style = _style(voice)
        self._rows = self._tables.arrays.get("queries", np.zeros((0, 0), np.float32))
        width = len(self._tables.frontend.mean)
        most = max(*self._languages.values(), self._style, _EMOTION)
        if self._rows.ndim != 2 or self._rows.shape[1] != width or most >= len(self._rows):
            raise VoiceSetError(f"{voice.folder}: its questions are {self._rows.shape}; make the set again")
        self._lock = threading.Lock()
        session = open_net(voice, "encoder", device)
        try:
            self._buckets = Buckets(voice, session, width)
        except BaseException:
            session.close()
            raise
        self.longest = (self._buckets.sizes[-1] - _QUERIES) * self._tables.frontend.seconds

    def logits(self, samples: Samples, language: str = AUTO) -> Array:
        """[4 + vectors, tokens]."""
        asked = [self._languages.get(language, self._languages[AUTO]), _EVENT, _EMOTION, self._style]
        vectors = np.concatenate([self._rows[asked], self._tables.frontend(samples)])
        found, _ = self._buckets.run(vectors)
        return found["logits"].reshape(-1, found["logits"].shape[-1])[: len(vectors)]

    def hear(self, samples: Samples, options: ListenOptions) -> Heard:
        """The text of one piece of sound."""
        with self._lock:
            rows = self.logits(samples, options.language or AUTO)
        logs = log_softmax(rows)
        best = rows.argmax(axis=1)
        pieces = self._tables.tokens
        told = [pieces[one] for one in best[:_QUERIES] if one < len(pieces)]
        tags = tuple(one[2:-2] for one in told if is_tag(one))
        code = next((one for one in tags if one in self._languages), "")
        kept: list[tuple[int, int]] = []
        before = _BLANK
        for at, token in enumerate(best.tolist()[_QUERIES:]):
            if token not in (before, _BLANK) and token < len(pieces):
                kept.append((at, token))
            before = token
        sure = [float(logs[at + _QUERIES, token]) for at, token in kept]
        seconds = self._tables.frontend.seconds
        words = timed_words(
            (pieces[token], at * seconds, (at + 1) * seconds, math.exp(log))
            for (at, token), log in zip(kept, sure, strict=True)
            if not is_tag(pieces[token])
        )
        text = joined(pieces[token] for _, token in kept if not is_tag(pieces[token]))
        return Heard(
            text, tuple(token for _, token in kept), math.exp(sum(sure) / len(sure)) if sure else 0.0,
            words=words, language=code, logs=tuple(sure), tags=tags,
        )  # fmt: skip

    def close(self) -> None:
        """Give the net back."""
        self._buckets.session.close()


def _languages(voice: VoiceSet) -> dict[str, int]:
    value = voice.options.get("languages")
    if not isinstance(value, Mapping) or AUTO not in value or not all(type(one) is int for one in value.values()):
        raise VoiceSetError(f"{voice.folder}: its 'languages' should be codes and numbers, not {value!r:.60}")
    return {str(code): int(row) for code, row in value.items()}


def _style(voice: VoiceSet) -> int:
    value = voice.options.get("style")
    if type(value) is not int or value < 0:
        raise VoiceSetError(f"{voice.folder}: its 'style' should be a number, not {value!r:.60}")
    return value
