"""Paraformer: an encoder, integrate-and-fire that says how many tokens there are, and all of them in one pass."""

from __future__ import annotations

import math
import threading

import numpy as np

from openrknn.closing import Closing
from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.listener import Heard, ListenOptions
from openrknn.voice.pieces import joined, log_softmax, spaced, timed_words
from openrknn.voice.sanm.cif import integrate
from openrknn.voice.sanm.frontend import Array
from openrknn.voice.sanm.tables import Buckets, Tables, masks, run_in
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net

_END = "</s>"


class Paraformer(Closing):
    """A set of the family, opened."""

    has_words = True

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.rate = voice.rate
        self._tables = Tables(voice)
        self._end = next((at for at, piece in enumerate(self._tables.tokens) if piece == _END), -1)
        tail = voice.options.get("tail")
        if not isinstance(tail, float) or not 0 <= tail < 1:
            raise VoiceSetError(f"{voice.folder}: its 'tail' should be a number from 0 to 1, not {tail!r:.60}")
        self._tail = tail
        self._lock = threading.Lock()
        encoder = open_net(voice, "encoder", device)
        try:
            self._decoder = open_net(voice, "decoder", device)
        except BaseException:
            encoder.close()
            raise
        try:
            self._buckets = Buckets(voice, encoder, len(self._tables.frontend.mean))
        except BaseException:
            encoder.close()
            self._decoder.close()
            raise
        self.longest = self._buckets.sizes[-1] * self._tables.frontend.seconds

    def logits(self, samples: Samples) -> tuple[Array, list[int]]:
        """[tokens, vocabulary], and the vector in which each token was complete."""
        vectors = self._tables.frontend(samples)
        count = len(vectors)
        found, size = self._buckets.run(vectors)
        states = found["states"].reshape(size, -1)
        rows, frames = integrate(states[:count], found["weights"].reshape(-1)[:count], self._tail)
        rows, frames = rows[:size], frames[:size]
        if not frames:
            return np.zeros((0, len(self._tables.tokens)), np.float32), []
        tokens = np.zeros((1, size, rows.shape[1]), np.float32)
        tokens[0, : len(rows)] = rows
        tokens[0, len(rows) :] = rows[-1]  # masked; a row of zeros has no norm
        given = {"tokens": tokens, "states": states[None], **masks(count, size), **masks(len(rows), size, "token_")}
        del given["keep"], given["token_mask"]
        made = run_in(self._decoder, given)["logits"]
        return made.reshape(-1, made.shape[-1])[: len(rows)], frames

    def hear(self, samples: Samples, options: ListenOptions) -> Heard:
        """The text of one piece of sound."""
        with self._lock:
            rows, frames = self.logits(samples)
        logs = log_softmax(rows) if len(rows) else rows
        best = [int(row.argmax()) for row in rows]
        if self._end in best:
            best = best[: best.index(self._end)]
        known = self._tables.tokens
        best = [one if one < len(known) else 0 for one in best]
        sure = [float(logs[at, token]) for at, token in enumerate(best)]
        pieces = spaced([known[token] for token in best])
        seconds = self._tables.frontend.seconds
        starts = [0, *frames]
        words = timed_words(
            (piece, starts[at] * seconds, (frames[at] + 1) * seconds, math.exp(log))
            for at, (piece, log) in enumerate(zip(pieces, sure, strict=True))
        )
        confidence = math.exp(sum(sure) / len(sure)) if sure else 0.0
        return Heard(joined(pieces), tuple(best), confidence, words=words, logs=tuple(sure))

    def close(self) -> None:
        """Give the nets back."""
        self._buckets.session.close()
        self._decoder.close()
