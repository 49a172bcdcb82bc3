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
from openrknn.voice.listener import Heard, Listener, ListenOptions, StreamParts, TextStream, check, open_listener
from openrknn.voice.partials import SHARE
from openrknn.voice.results import Segment, Transcript
from openrknn.voice.segments import Activity, LoudnessActivity, Rules
from openrknn.voice.sets import VoiceSet, home, open_set
from openrknn.voice.stream import TranscriptStream

_BLOCK = 16_000
_FILE_SILENCE = 1.2
"""Seconds without speech that end a segment of a recording."""
LOUDNESS = "loudness"
"""Instead of the name of a set for voice activity."""
_USUAL = "silero-vad"


class Transcriber(Closing):
    """A speech model with what is around it: files and rates before, segments and words behind it.

    `activity` is a set that tells speech from silence (`openrknn voice get silero-vad`); "loudness" takes whatever is
    loud for speech, None looks for no pauses and cuts by the clock. `options` hold for every recording that brings none
    of its own; `beam` is one of them. Several threads may use one transcriber; the model hears one piece at a time.
    """

    def __init__(
        self,
        model: str | Path | VoiceSet | Listener = "moonshine-tiny",
        device: str = "auto",
        *,
        activity: str | Path | VoiceSet | None = _USUAL,
        beam: int = 1,
        rules: Rules | None = None,
        options: ListenOptions | None = None,
    ) -> None:
        self.options = options or ListenOptions(beam=beam)
        self.device = device
        self.language = "en"
        self._lock = threading.Lock()
        self._activity = _activity_set(activity)
        self._has_activity = activity is not None
        self._idle: list[Activity] = []
        if isinstance(model, str | Path | VoiceSet):
            voice = open_set(model, "transcriber")
            self.language = voice.language
            self._listener = open_listener(voice, device)
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

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that the model knows."""
        return tuple(getattr(self._listener, "languages", None) or (self.language[:2],))

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it can do: "transcribe", and "translate" into English where the model was trained for it."""
        return tuple(getattr(self._listener, "tasks", ("transcribe",)))

    @property
    def has_words(self) -> bool:
        """Whether it knows the times of words."""
        return bool(getattr(self._listener, "has_words", False))

    @property
    def has_logs(self) -> bool:
        """Whether it tells how sure it is of each token."""
        return hasattr(self._listener, "token_bytes")

    def token_bytes(self, token: int) -> bytes:
        """The text of a token; it may be a part of a character."""
        return cast(bytes, getattr(self._listener, "token_bytes", lambda _: b"")(token))

    def __call__(
        self, audio: str | Path | bytes | Audio | npt.NDArray[Any], rate: int | None = None, *,
        options: ListenOptions | None = None,
    ) -> Transcript:  # fmt: skip
        """The text of a recording: a file, the bytes of one, `Audio`, or an array with its `rate`."""
        started = time.perf_counter()
        stream = self.stream(partial=0, options=options)
        if hasattr(stream, "survey") and (not isinstance(audio, str | Path) or Path(audio).is_file()):
            self.survey(stream, self._blocks(audio, rate))
        found = [segment for segment in self._through(stream, self._blocks(audio, rate)) if segment.final]
        timing = {"seconds": round(time.perf_counter() - started, 3), "model": round(stream.hearing_seconds, 3)}
        return self.transcript(found, stream, timing, options)

    @staticmethod
    def survey(stream: TextStream, parts: Iterable[Samples]) -> None:
        """Show a stream all of a recording before it is fed, where its model wants to know how loud it gets."""
        look = getattr(stream, "survey", None)
        if look is not None:
            look(parts)

    def transcript(
        self, segments: Iterable[Segment], stream: TextStream, timing: dict[str, float],
        options: ListenOptions | None = None,
    ) -> Transcript:  # fmt: skip
        """What a stream told, as a whole."""
        task = (options or self.options).task
        told = Transcript(tuple(_numbered(segments)), stream.seconds, stream.language or self.language, timing)
        return replace(told, task=task if task in self.tasks else self.tasks[0], warnings=stream.warnings)

    def stream(
        self, *, partial: float = 0.25, options: ListenOptions | None = None, partial_share: float = SHARE,
        rules: Rules | None = None,
    ) -> TextStream:  # fmt: skip
        """For sound that is still coming; at least `partial` seconds between partial results, 0 for final ones only.

        `partial_share`: what they may cost, as a part of the cost of final ones; `math.inf`: one whenever it is time.
        `rules`: how this stream is split, instead of the transcriber's own.
        """
        self._check()
        chosen, warnings = check(self._listener, self.language, options or self.options)
        if rules is None:
            rules = self.rules if partial else self._file_rules
        else:
            rules = replace(rules, longest=min(rules.longest, self.rules.longest))
        activity = self._take_activity() if self._has_activity else None

        def give_back() -> None:
            if activity is not None:
                with self._lock:
                    self._idle.append(activity)

        least = getattr(self._listener, "least_confidence", 0.0) if chosen.filters else 0.0
        parts = StreamParts(
            self._hear, activity, rules, chosen, partial, give_back, warnings, partial_share, least, self.languages
        )
        own = getattr(self._listener, "stream", None)
        return (own(parts) if own is not None else None) or TranscriptStream(parts, rate=self.rate)

    def warm_up(self) -> None:
        """Let the model itself hear a second of silence: weights are packed before the first person waits for it."""
        self._hear(np.zeros(self.rate, np.float32), self.options)

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

    def _hear(self, samples: Samples, options: ListenOptions) -> Heard:
        with self._lock:
            self._check()
            return self._listener.hear(samples, options)

    @staticmethod
    def _through(stream: TextStream, parts: Iterable[Samples]) -> Iterator[Segment]:
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
        if self._activity == LOUDNESS:
            return LoudnessActivity()
        made = import_module("openrknn.voice.activity").VoiceActivity(self._activity, self.device)
        return cast(Activity, made)


def _numbered(segments: Iterable[Segment]) -> list[Segment]:
    """Clicks are removed, so indices are renumbered."""
    said = [segment for segment in segments if segment.final and segment.text]
    return [replace(one, index=number) for number, one in enumerate(said)]


def _activity_set(activity: str | Path | VoiceSet | None) -> VoiceSet | str | None:
    if activity is None or activity == LOUDNESS:
        return activity
    try:
        return open_set(activity, "activity")
    except VoiceSetError as error:
        if activity != _USUAL:
            raise
        raise VoiceSetError(
            f"the set {_USUAL!r}, which tells speech from silence, music and noise, is not in {home()}: get it with "
            f"`openrknn voice get {_USUAL}`. Without it: --vad {LOUDNESS} takes whatever is loud for speech, "
            f'--no-vad cuts by the clock (activity="{LOUDNESS}" or None); both hear words where there are none'
        ) from error
