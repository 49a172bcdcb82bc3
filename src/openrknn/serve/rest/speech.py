"""/v1/audio/speech: text in, sound out."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, NotFoundError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import infer as infer_format
from openrknn.serve.rest.body import SHARE, read_body
from openrknn.serve.rest.openai import NO_BUFFERING, event, failed_event
from openrknn.serve.voice import encode
from openrknn.serve.voice.operations import speak
from openrknn.serve.voice.voice import Voice
from openrknn.voice.audio import Resampler

__all__ = ["Speech"]

_JSON_BYTES = 256 * 1024
_BYTES_PER_CHARACTER = 2 * 48_000
"""The slowest speech takes less than a second for a letter."""
_OTHERS = frozenset({
    "default", "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "juniper", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
})  # fmt: skip
"""Names of OpenAI's voices: programs that know no others get the first speaker."""


@dataclass(frozen=True, slots=True)
class _Wish:
    voice: Voice
    speaker: str | None
    text: str
    speed: float
    form: str
    is_events: bool


class Speech:
    """The route."""

    def __init__(self, plane: Plane) -> None:
        self._plane, self._limits = plane, plane.settings.limits

    async def speech(self, request: Request) -> Response:
        body = await read_body(request, self._limits, _JSON_BYTES)
        wish = self._wish(infer_format.load_json(body))
        request.scope[SHARE].grow(_BYTES_PER_CHARACTER * len(wish.text))
        pieces = speak(wish.voice, wish.text, self._limits, speaker=wish.speaker, speed=wish.speed)
        # The first piece is made before the answer begins: what is wrong with the text is an answer with its status.
        first = await anext(pieces, None)
        if first is None:
            raise BadRequestError("there is nothing in this text that could be said")
        sound = _encoded(_joined(first, pieces), wish)
        if wish.is_events:
            return StreamingResponse(_events(sound), media_type="text/event-stream", headers=NO_BUFFERING)
        return StreamingResponse(sound, media_type=encode.FORMATS[wish.form], headers=NO_BUFFERING)

    def _wish(self, words: dict[str, Any]) -> _Wish:
        text = words.get("input")
        if not isinstance(text, str):
            raise BadRequestError("'input' is the text to say")
        speed = words.get("speed", 1.0)
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 4.0:
            raise BadRequestError("'speed' is a number from 0.25 to 4")
        if words.get("instructions"):
            raise BadRequestError(
                "'instructions' cannot be followed: the voices here speak in one manner; leave the field out"
            ).about("instructions")
        form = words.get("stream_format", "audio")
        if form not in ("audio", "sse"):
            raise BadRequestError("'stream_format' is 'audio' or 'sse'")
        voice, speaker = self._who(words.get("model", ""), words.get("voice"))
        return _Wish(voice, speaker, text, float(speed), encode.check(words.get("response_format")), form == "sse")

    def _who(self, model: object, voice: object) -> tuple[Voice, str | None]:
        """The model is a voice set, and the voice is one of its speakers, or the set itself."""
        if isinstance(voice, dict):
            voice = voice.get("id")
        if not isinstance(model, str) or not (voice is None or isinstance(voice, str)):
            raise BadRequestError("'model' and 'voice' are names; /v1/models lists what there is")
        voices = self._plane.voices
        try:
            found = voices.find(model, "speaker")
        except NotFoundError:
            names = [one.name for one in voices.all("speaker")]
            if voice not in names:
                raise
            found = voices.find(str(voice), "speaker")
        else:
            named = [one for one in voices.all("speaker") if one.name == voice]
            if named and voice not in found.speakers:
                found = named[0]
        if not voice or voice == found.name or voice in found.speakers:
            return found, voice if voice in found.speakers else None
        if voice in _OTHERS:
            return found, None
        if voice.isascii() and voice.isdigit() and len(voice) < 5:  # a speaker without a name
            return found, voice
        there = ", ".join(map(repr, [found.name, *found.speakers[:20]]))
        raise BadRequestError(f"there is no voice {voice[:80]!r}; {found.name!r} has {there}")


async def _joined(first: Array, rest: AsyncGenerator[Array]) -> AsyncIterator[Array]:
    async with aclosing(rest):  # a client that goes away gives the voice back at once
        yield first
        async for piece in rest:
            yield piece


async def _encoded(pieces: AsyncIterator[Array], wish: _Wish) -> AsyncIterator[bytes]:
    """WAV and PCM as they are made; other formats when all of it is there."""
    rate = wish.voice.rate
    if wish.form == "wav":
        yield encode.wav_head(rate)
        async for piece in pieces:
            yield piece.astype("<i2").tobytes()
    elif wish.form == "pcm":
        change = Resampler(rate, encode.PCM_RATE) if rate != encode.PCM_RATE else None
        async for piece in pieces:
            yield _bytes(piece if change is None else change.feed(piece.astype(np.float32) / 32768))
        if change is not None:
            yield _bytes(change.finish())
    else:
        whole = np.concatenate([piece async for piece in pieces])
        yield await asyncio.to_thread(encode.encode, whole, rate, wish.form)


def _bytes(samples: Array) -> bytes:
    if samples.dtype.kind == "f":
        samples = np.round(np.clip(samples, -1, 1) * 32767)
    return samples.astype("<i2").tobytes()


async def _events(sound: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for piece in sound:
            yield event({"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()})
    except ServeError as error:
        yield failed_event(error)
        return
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    yield event({"type": "speech.audio.done", "usage": usage})
    yield b"data: [DONE]\n\n"
