"""`Transcriber`: sound in, text with times out.

with Transcriber("moonshine-tiny") as listen:
    print(listen("talk.wav").text)
    stream = listen.stream()
    for block in blocks("mic"):
        for segment in stream.feed(block): ...
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.audio import Audio, Samples, blocks
from openrknn.voice.errors import AudioError, VoiceSetError
from openrknn.voice.input_audio import audio_of
from openrknn.voice.results import Segment, Transcript
from openrknn.voice.segments import Activity, LoudnessActivity, Rules
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.stream import Heard, Listener, TranscriptStream

FAMILIES = {"moonshine": "openrknn.voice.moonshine:Moonshine"}
"""Family of a set -> the class that listens, made with (set, device)."""
_BLOCK = 16_000
_FILE_SILENCE = 1.2
"""Seconds without speech that end a segment of a recording."""


class Transcriber(Closing):
    """A speech model with what is around it: files and rates before, segments and words behind it.

    `activity` is a set that tells speech from silence; None looks for no pauses and cuts by the clock. The default is
    used if it is installed, else loudness decides. `beam` texts are followed side by side. Several threads may use one
    transcriber; the model hears one piece at a time.
    """

    def __init__(
        self,
        model: str | Path | VoiceSet | Listener = "moonshine-tiny",
        device: str = "auto",
        *,
        activity: str | Path | VoiceSet | None = "silero-vad",
        beam: int = 1,
        rules: Rules | None = None,
    ) -> None:
        if not 1 <= beam <= 16:
            raise VoiceSetError(f"a beam of {beam} texts makes no sense; 1 (greedy) to 16 are allowed")
        self.beam, self.device = beam, device
        self.language = "en"
        self._lock = threading.Lock()
        self._activity = _activity_set(activity)
        self._has_activity = activity is not None
        self._idle: list[Activity] = []
        if isinstance(model, str | Path | VoiceSet):
            voice = open_set(model, "transcriber")
            self.language = voice.language
            self._listener = _listener(voice, device)
        else:
            self._listener = model
        self.rate = self._listener.rate
        longest = min((rules or Rules()).longest, self._listener.longest)
        if not self._has_activity:
            longest = self._listener.longest
        base = rules or Rules()
        self.rules = replace(base, longest=longest)
        # A sentence that is torn at every breath is understood less well; a recording can wait for a longer pause.
        self._file_rules = self.rules if rules else replace(self.rules, silence=_FILE_SILENCE)
        self._is_open = True

    def __call__(self, audio: str | Path | bytes | Audio | npt.NDArray[Any], rate: int | None = None) -> Transcript:
        """The text of a recording: a file, the bytes of one, `Audio`, or an array with its `rate`."""
        started = time.perf_counter()
        stream = self.stream(partial=0)
        found = [segment for segment in self._through(stream, self._blocks(audio, rate)) if segment.final]
        timing = {"seconds": round(time.perf_counter() - started, 3), "model": round(stream.hearing_seconds, 3)}
        return Transcript(tuple(_numbered(found)), stream.seconds, self.language, timing)

    def stream(self, *, partial: float = 0.25) -> TranscriptStream:
        """For sound that is still coming; `partial` seconds of it between partial results, 0 for final ones only."""
        self._check()
        rules = self.rules if partial else self._file_rules
        activity = self._take_activity() if self._has_activity else None

        def give_back() -> None:
            if activity is not None:
                with self._lock:
                    self._idle.append(activity)

        return TranscriptStream(self._hear, activity, rules, partial=partial, rate=self.rate, on_close=give_back)

    def warm_up(self) -> None:
        """Let the model itself hear a second of silence: weights are packed before the first person waits for it."""
        self._hear(np.zeros(self.rate, np.float32))

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._listener.close()
                for activity in self._idle:
                    if isinstance(activity, Closing):
                        activity.close()
                self._idle.clear()

    # -- inside --------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self._is_open:
            raise VoiceSetError("this transcriber is closed; make another one")

    def _hear(self, samples: Samples) -> Heard:
        with self._lock:
            self._check()
            return self._listener.hear(samples, self.beam)

    @staticmethod
    def _through(stream: TranscriptStream, parts: Iterable[Samples]) -> Iterator[Segment]:
        for part in parts:
            yield from stream.feed(part)
        yield from stream.finish()

    def _blocks(self, audio: object, rate: int | None) -> Iterator[Samples]:
        if isinstance(audio, str | Path):
            return blocks(audio, rate=self.rate, size=_BLOCK)
        if not isinstance(audio, bytes | Audio | np.ndarray):
            raise AudioError(f"{type(audio).__name__} is no sound; give a path, bytes, Audio or an array with its rate")
        if isinstance(audio, np.ndarray) and rate is None:
            raise AudioError("an array needs its rate: transcribe(samples, rate=16000)")
        samples = audio_of(audio, rate, self.rate).samples
        return (samples[at : at + _BLOCK] for at in range(0, len(samples), _BLOCK))

    def _take_activity(self) -> Activity:
        with self._lock:
            if self._idle:
                taken = self._idle.pop()
                taken.reset()
                return taken
        if self._activity is None:
            return LoudnessActivity()
        made = import_module("openrknn.voice.activity").VoiceActivity(self._activity, self.device)
        return cast(Activity, made)


def _numbered(segments: list[Segment]) -> list[Segment]:
    """Clicks are gone, so indices are counted anew."""
    said = [segment for segment in segments if segment.text]
    return [
        Segment(number, one.start, one.end, one.text, True, one.confidence, one.tokens)
        for number, one in enumerate(said)
    ]


def _activity_set(activity: str | Path | VoiceSet | None) -> VoiceSet | None:
    if activity is None:
        return None
    try:
        return open_set(activity, "activity")
    except VoiceSetError:
        if activity == "silero-vad":  # nobody asked for it, and loudness does for clean recordings
            return None
        raise


def _listener(voice: VoiceSet, device: str) -> Listener:
    place = FAMILIES.get(voice.family)
    if place is None:
        raise VoiceSetError(
            f"{voice.folder}: the family {voice.family!r} is not known; there are {', '.join(FAMILIES)}"
        )
    module, _, name = place.partition(":")
    return cast(Listener, getattr(import_module(module), name)(voice, device))
