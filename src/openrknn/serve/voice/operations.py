"""What the protocols ask of voices."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError
from openrknn.serve.settings import Limits
from openrknn.serve.voice.channel import PIECE_BYTES
from openrknn.serve.voice.rows import TokenLog, detections_of, number_of, segments_of, token_logs_of
from openrknn.serve.voice.voice import Conversation, Voice
from openrknn.voice.listener import ListenOptions
from openrknn.voice.results import Detection, Segment, Transcript
from openrknn.voice.segments import Rules

__all__ = ["USUAL", "Asked", "Ears", "Listened", "Step", "speak", "transcribe", "transcribe_in_steps"]

_PARTIAL_SECONDS = 0.25
_FEED_SAMPLES = 48_000
_MOST_NAME = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client wants of a voice that listens."""

    options: ListenOptions = field(default_factory=ListenOptions)
    logs: bool = False
    """How sure the voice is of each token."""
    rules: Rules | None = None
    """How speech is split; None: as the voice does it."""
    speakers: bool = False
    """Who says each segment."""
    known: tuple[tuple[str, bytes], ...] = ()
    """Speakers whose voice is known: name and recording."""

    def words(self) -> dict[str, Any]:
        """For the voice's process: what is not as usual."""
        usual, mine = asdict(ListenOptions()), asdict(self.options)
        changed = {name: value for name, value in mine.items() if value != usual[name]}
        if self.logs:
            changed["logs"] = True
        if self.speakers:
            changed["speakers"] = True
        if self.rules is not None:
            changed["rules"] = {name: getattr(self.rules, name) for name in ("threshold", "silence", "pad")}
        return changed


@dataclass(frozen=True, slots=True)
class Step:
    """What a piece of a recording brought."""

    segments: tuple[Segment, ...]
    logs: tuple[TokenLog, ...]
    language: str
    warnings: tuple[str, ...]
    speakers: tuple[str, ...] = ()
    """Of all segments with text, known when the recording is over."""


@dataclass(frozen=True, slots=True)
class Listened:
    """A recording, heard."""

    transcript: Transcript
    logs: tuple[TokenLog, ...]


USUAL = Asked()


async def transcribe(voice: Voice, body: bytes, limits: Limits, asked: Asked = USUAL) -> Listened:
    """A whole recording. It is transcribed in steps, which stop when the client has gone."""
    seconds, found, logs, last = 0.0, list[Segment](), list[TokenLog](), Step((), (), "", ())
    async with aclosing(transcribe_in_steps(voice, body, limits, asked)) as steps:
        async for step in steps:
            if isinstance(step, float):
                seconds = step
                continue
            found += [one for one in step.segments if one.text.strip()]
            logs += step.logs
            last = step
    names = last.speakers if len(last.speakers) == len(found) else ("",) * len(found)
    segments = tuple(
        replace(one, index=number, speaker=name) for number, (one, name) in enumerate(zip(found, names, strict=True))
    )
    language = last.language or voice.language
    made = Transcript(segments, seconds, language, task=asked.options.task, warnings=last.warnings)
    return Listened(made, tuple(logs))


async def transcribe_in_steps(
    voice: Voice, body: bytes, limits: Limits, asked: Asked = USUAL
) -> AsyncGenerator[float | Step]:  # fmt: skip
    """First how many seconds there are, then what was said, as it is found."""
    async with voice.conversation() as talk:
        for name, sound in asked.known:
            await _put(talk, sound)
            await talk.ask("known", name=name)
        seconds = await _decode(talk, body, limits)
        yield seconds
        is_done, words = False, asked.words()
        while not is_done:
            answer, _ = await talk.ask("step", options=words)
            is_done = bool(answer.get("done", True))
            found = segments_of(answer)
            logs = token_logs_of(answer) if asked.logs else [[] for _ in found]
            pairs = [(one, some) for one, some in zip(found, logs, strict=True) if one.final]
            yield Step(
                tuple(one for one, _ in pairs), tuple(log for one, some in pairs if one.text.strip() for log in some),
                str(answer.get("language", ""))[:40], tuple(map(str, answer.get("warnings", ()))),
                tuple(str(name)[:_MOST_NAME] for name in answer.get("speakers", ())),
            )  # fmt: skip
        voice.stats.audio_seconds += seconds


async def _put(talk: Conversation, body: bytes) -> None:
    for at in range(0, max(len(body), 1), PIECE_BYTES):
        await talk.ask("put", np.frombuffer(body[at : at + PIECE_BYTES], np.uint8))


async def _decode(talk: Conversation, body: bytes, limits: Limits) -> float:
    await _put(talk, body)
    answer, _ = await talk.ask("decode", most_seconds=limits.audio_seconds)
    return number_of(answer.get("audio_seconds"))


async def speak(
    voice: Voice, text: str, limits: Limits, *, speaker: str | None = None, speed: float = 1.0
) -> AsyncGenerator[Array]:
    """16-bit samples at the voice's rate, a piece at a time."""
    if not text.strip():
        raise BadRequestError("there is no text to say")
    if len(text) > limits.text_characters:
        raise BadRequestError(
            f"the text has {len(text)} characters; this server says {limits.text_characters} at a time"
        )
    async with voice.conversation() as talk:
        await talk.ask("speak", text=text, speaker=speaker, speed=speed)
        while True:
            answer, sound = await talk.ask("next")
            if sound is None or bool(answer.get("done", True)):
                return
            voice.stats.audio_seconds += len(sound) / voice.rate
            yield sound


class Ears:
    """Listens to a stream of sound, for text or for a wake word. Use it as a context.

    `partial`: text that may still change is sent, too, at a cost. `is_endless`: the whole text is not kept, so it
    may last for hours.
    """

    def __init__(
        self, voice: Voice, limits: Limits, rate: int = 16000, *, partial: bool = True, asked: Asked = USUAL,
        is_endless: bool = False,
    ) -> None:  # fmt: skip
        self.voice, self.rate, self._partial = voice, rate, _PARTIAL_SECONDS if partial else 0.0
        self._most_seconds = math.inf if is_endless else limits.audio_seconds
        self._stack = contextlib.AsyncExitStack()
        self._talk: Conversation | None = None
        self._asked = asked
        self.seconds = 0.0
        self.language = ""
        """Detected by now, or asked for."""
        self.logs: dict[int, list[TokenLog]] = {}
        """Of each segment, by its index, if they were asked for."""

    async def __aenter__(self) -> Ears:
        self._talk = await self._stack.enter_async_context(self.voice.conversation())
        try:
            await self._talk.ask("open", rate=self.rate, partial=self._partial, options=self._asked.words())
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(self, *what: Any) -> None:
        await self._stack.__aexit__(*what)

    async def feed(self, samples: Array) -> list[Segment]:
        """16-bit samples of one channel; what is heard by now, partial text included."""
        return [one for answer in [row async for row in self._fed(samples)] for one in self._segments(answer)]

    async def hear(self, samples: Array) -> list[Detection]:
        """`feed` for wake words."""
        return [one for answer in [row async for row in self._fed(samples)] for one in detections_of(answer)]

    async def _fed(self, samples: Array) -> AsyncIterator[dict[str, Any]]:
        assert self._talk is not None
        self.seconds += len(samples) / self.rate
        # Who waits for a wake word may wait for days; text has to end, for somebody keeps all of it.
        if self.voice.kind != "wake" and self.seconds > self._most_seconds:
            raise BadRequestError(f"this server listens to {self._most_seconds:g} s at a time")
        self.voice.stats.audio_seconds += len(samples) / self.rate
        for at in range(0, len(samples), _FEED_SAMPLES):
            yield (await self._talk.ask("feed", np.ascontiguousarray(samples[at : at + _FEED_SAMPLES])))[0]

    async def finish(self) -> list[Segment]:
        """The rest of the text."""
        assert self._talk is not None
        return self._segments((await self._talk.ask("finish"))[0])

    def _segments(self, answer: dict[str, Any]) -> list[Segment]:
        found = segments_of(answer)
        self.language = str(answer.get("language", ""))[:40] or self.language
        if self._asked.logs:
            self.logs.update(zip((one.index for one in found), token_logs_of(answer), strict=True))
        return found
