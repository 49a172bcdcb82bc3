"""Where somebody speaks: Silero's net, a probability for each 32 ms."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.audio import Samples
from openrknn.voice.input_audio import AnySound, audio_of, samples_of
from openrknn.voice.results import Span
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.spans import FRAME, RATE, SpeechRules, find_spans
from openrknn.voice.steps import Steps

_CONTEXT = 64
"""Samples of the frame before that the net sees again."""


class VoiceActivity(Closing):
    """Tells speech from everything else.

    with VoiceActivity() as activity:
        activity.spans("meeting.wav")     # [Span(start=0.32, end=2.1), ...]
        activity.feed(block)              # a stream: probabilities of the frames that are complete
    """

    rate = RATE
    frame = FRAME

    def __init__(self, model: str | Path | VoiceSet = "silero-vad", device: str = "auto") -> None:
        self.set = open_set(model, "activity")
        self._net = Steps(self.set, "net", device, _CONTEXT + FRAME, 1)
        self._lock = threading.Lock()
        self._seen: Samples = np.zeros(_CONTEXT, np.float32)

    def feed(self, samples: npt.ArrayLike) -> list[float]:
        """The next samples at 16 kHz, any number of them; a probability for each frame of 512 that is complete now."""
        block = samples_of(samples)
        with self._lock:
            return self._feed(block)

    def finish(self) -> list[float]:
        """The frame that is not complete, filled with silence, if there is one; and everything is as new."""
        with self._lock:
            rest = len(self._seen) - _CONTEXT
            found = self._feed(np.zeros(FRAME - rest, np.float32)) if rest else []
            self._reset()
            return found

    def reset(self) -> None:
        """For the next recording."""
        with self._lock:
            self._reset()

    def probabilities(self, audio: AnySound, rate: int | None = None) -> list[float]:
        """Of each frame of a whole recording, the last one filled with silence. A stream in progress is reset."""
        samples = audio_of(audio, rate, RATE).samples
        with self._lock:
            self._reset()
            found = self._feed(np.concatenate([samples, np.zeros(-len(samples) % FRAME, np.float32)]))
            self._reset()
            return found

    def spans(self, audio: AnySound, rate: int | None = None, rules: SpeechRules | None = None) -> list[Span]:
        """Where speech is in a whole recording, by the rules of silero-vad; see `openrknn.voice.spans`."""
        sound = audio_of(audio, rate, RATE)
        found = find_spans(self.probabilities(sound), len(sound.samples), rules)
        return [Span(start / RATE, end / RATE) for start, end in found]

    def close(self) -> None:
        """Give the net back."""
        with self._lock:
            self._net.close()

    def _reset(self) -> None:
        self._net.reset()
        self._seen = np.zeros(_CONTEXT, np.float32)

    def _feed(self, block: Samples) -> list[float]:
        seen = np.concatenate([self._seen, block])
        found = []
        while len(seen) >= _CONTEXT + FRAME:
            found.append(float(self._net.step(seen[: _CONTEXT + FRAME])[0]))
            seen = seen[FRAME:]
            self._seen = seen
        self._seen = seen.copy()
        return found
