"""What the protocols ask of voices."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, ModelFailedError
from openrknn.serve.settings import Limits
from openrknn.serve.voice.channel import PIECE_BYTES
from openrknn.serve.voice.voice import Conversation, Voice
from openrknn.voice.results import Detection, Segment, Transcript

__all__ = ["Ears", "speak", "transcribe", "transcribe_in_steps"]

_PARTIAL_SECONDS = 0.25
_FEED_SAMPLES = 48_000


async def transcribe(voice: Voice, body: bytes, limits: Limits) -> Transcript:
    """A whole recording. It is heard in steps, so that nobody's recording is heard on when he has gone."""
    seconds, found = 0.0, []
    async with aclosing(transcribe_in_steps(voice, body, limits)) as steps:
        async for step in steps:
            if isinstance(step, float):
                seconds = step
            else:
                found += [one for one in step if one.text.strip()]
    return Transcript(
        tuple(replace(one, index=number) for number, one in enumerate(found)), seconds, voice.language
    )  # fmt: skip


async def transcribe_in_steps(voice: Voice, body: bytes, limits: Limits) -> AsyncGenerator[float | list[Segment]]:
    """First how many seconds there are, then what was said, as it is found."""
    async with voice.conversation() as talk:
        seconds = await _decode(talk, body, limits)
        yield seconds
        is_done = False
        while not is_done:
            answer, _ = await talk.ask("step")
            is_done = bool(answer.get("done", True))
            found = [one for one in _segments(answer) if one.final]
            if found:
                yield found
        voice.stats.audio_seconds += seconds


async def _decode(talk: Conversation, body: bytes, limits: Limits) -> float:
    for at in range(0, max(len(body), 1), PIECE_BYTES):
        await talk.ask("put", np.frombuffer(body[at : at + PIECE_BYTES], np.uint8))
    answer, _ = await talk.ask("decode", most_seconds=limits.audio_seconds)
    return _number(answer.get("audio_seconds"))


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

    `partial`: text that may still change is told, too; it costs work.
    """

    def __init__(self, voice: Voice, limits: Limits, rate: int = 16000, *, partial: bool = True) -> None:
        self.voice, self.rate, self._partial = voice, rate, _PARTIAL_SECONDS if partial else 0.0
        self._most_seconds = limits.audio_seconds
        self._stack = contextlib.AsyncExitStack()
        self._talk: Conversation | None = None
        self.seconds = 0.0

    async def __aenter__(self) -> Ears:
        self._talk = await self._stack.enter_async_context(self.voice.conversation())
        try:
            await self._talk.ask("open", rate=self.rate, partial=self._partial)
        except BaseException as error:
            await self._stack.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(self, *what: Any) -> None:
        await self._stack.__aexit__(*what)

    async def feed(self, samples: Array) -> list[Segment]:
        """16-bit samples of one channel; what is heard by now, partial text included."""
        return [one for answer in [row async for row in self._fed(samples)] for one in _segments(answer)]

    async def hear(self, samples: Array) -> list[Detection]:
        """`feed` for wake words."""
        return [one for answer in [row async for row in self._fed(samples)] for one in _detections(answer)]

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
        return _segments((await self._talk.ask("finish"))[0])


def _segments(answer: dict[str, Any]) -> list[Segment]:
    """Checked: they come from a process that reads other people's files."""
    rows = answer.get("segments")
    if not isinstance(rows, list):
        raise ModelFailedError("the voice gave no text")
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 6 or not isinstance(row[3], str) or type(row[0]) is not int:
            raise ModelFailedError("the voice gave text in a form that cannot be")
        index, start, end, text, final, confidence = row
        found.append(Segment(index, _number(start), _number(end), text, bool(final), _number(confidence)))
    return found


def _detections(answer: dict[str, Any]) -> list[Detection]:
    rows = answer.get("detections")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ModelFailedError("the voice gave no detections")
    return [Detection(str(word)[:200], _number(time), _number(score)) for word, time, score in rows]


def _number(value: object) -> float:
    if isinstance(value, int | float) and abs(value) < 1e12:
        return float(value)
    raise ModelFailedError("the voice gave a number that cannot be")
