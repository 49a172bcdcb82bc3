"""/v1/audio as OpenAI's clients speak it: transcriptions of recordings."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.body import SHARE, read_body
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.live import Live
from openrknn.serve.rest.multipart import Part, parse_form
from openrknn.serve.rest.openai import event, failed_event
from openrknn.serve.rest.speech import Speech
from openrknn.serve.voice.operations import transcribe, transcribe_in_steps
from openrknn.serve.voice.voice import Voice
from openrknn.voice.results import Transcript

__all__ = ["routes"]

_FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
_LANGUAGES = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese",
    "nl": "dutch", "pl": "polish", "ru": "russian", "uk": "ukrainian", "zh": "chinese", "ja": "japanese",
    "ko": "korean", "ar": "arabic", "tr": "turkish", "vi": "vietnamese",
}  # fmt: skip


def routes(plane: Plane) -> list[Route]:
    """Everything under /v1/audio."""
    mine, speech, live = _Audio(plane), Speech(plane), Live(plane)
    return [
        Route("/v1/audio/transcriptions", mine.transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", mine.translations, methods=["POST"]),
        Route("/v1/audio/speech", speech.speech, methods=["POST"]),
        Route("/v1/audio/live", live.open, methods=["POST"]),
        Route("/v1/audio/live/{session}", live.feed, methods=["POST"]),
        Route("/v1/audio/live/{session}", live.close, methods=["DELETE"]),
    ]


class _Audio:
    def __init__(self, plane: Plane) -> None:
        self._plane, self._limits = plane, plane.settings.limits

    async def translations(self, request: Request) -> Response:
        """No family of voices translates yet; that is said before anybody waits for a wrong text."""
        form = _Form(parse_form(await self._body(request), request.headers.get("content-type", "")))
        voice = self._plane.voices.find(form.text("model"), "transcriber")
        raise BadRequestError(
            f"{voice.name!r} writes down what is said and does not translate; use /v1/audio/transcriptions"
        )

    async def transcriptions(self, request: Request) -> Response:
        form = _Form(parse_form(await self._body(request), request.headers.get("content-type", "")))
        recording = form.file()
        voice = self._plane.voices.find(form.text("model"), "transcriber")
        form.check_for(voice)
        wanted = form.text("response_format") or "json"
        if wanted not in _FORMATS:
            raise BadRequestError(f"response_format is one of {', '.join(_FORMATS)}, not {wanted[:40]!r}")
        request.scope[SHARE].grow(len(recording))
        content = bytes(recording)
        self._plane.under_way += 1
        try:
            if form.flag("stream"):
                return await self._streamed(voice, content)
            found = await unless_gone(request, transcribe(voice, content, self._limits))
        finally:
            self._plane.under_way -= 1
        if wanted == "json":
            return JSONResponse({"text": found.text, "usage": _usage(found.seconds)})
        if wanted == "verbose_json":
            return JSONResponse(_verbose(found))
        text = {"text": lambda: found.text + "\n", "srt": found.srt, "vtt": found.vtt}[wanted]()
        kind = "text/vtt" if wanted == "vtt" else "text/plain"
        return PlainTextResponse(text, media_type=kind)

    async def _body(self, request: Request) -> bytes:
        return await read_body(request, self._limits)

    async def _streamed(self, voice: Voice, content: bytes) -> Response:
        """The events begin when the recording is known to be good: what is wrong with it is an answer of its own."""
        steps = transcribe_in_steps(voice, content, self._limits)
        seconds = await anext(steps)
        assert isinstance(seconds, float)
        return StreamingResponse(_events(steps, seconds), media_type="text/event-stream", headers=NO_BUFFERING)


NO_BUFFERING = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Proxies that collect an answer would make a stream of it useless."""


async def _events(steps: AsyncGenerator[Any], seconds: float) -> AsyncIterator[bytes]:
    whole = ""
    try:
        async with aclosing(steps):  # a client that goes away gives the voice back at once
            async for segments in steps:
                for one in segments:
                    text = one.text.strip()
                    if text:
                        delta = f" {text}" if whole else text
                        whole += delta
                        yield event({"type": "transcript.text.delta", "delta": delta})
    except ServeError as error:
        yield failed_event(error)
        return
    yield event({"type": "transcript.text.done", "text": whole, "usage": _usage(seconds)})
    yield b"data: [DONE]\n\n"


def _usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def _verbose(found: Transcript) -> dict[str, Any]:
    rows = [
        {
            "id": number, "seek": round(100 * one.start), "start": round(one.start, 3), "end": round(one.end, 3),
            "text": one.text, "tokens": list(one.tokens), "temperature": 0.0, "avg_logprob": _log(one.confidence),
            "compression_ratio": 1.0, "no_speech_prob": 0.0,
        }
        for number, one in enumerate(found.segments)
    ]  # fmt: skip
    return {
        "task": "transcribe",
        "language": _LANGUAGES.get(found.language.lower()[:2], found.language),
        "duration": round(found.seconds, 3),
        "text": found.text,
        "segments": rows,
        "usage": _usage(found.seconds),
    }


def _log(confidence: float) -> float:
    return round(math.log(max(min(confidence, 1.0), 1e-9)), 4)


class _Form:
    """The fields that clients send; what we do not know is left alone, as OpenAI's server does."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    def file(self) -> memoryview:
        found = [part for part in self._parts if part.name == "file"]
        if not found:
            raise BadRequestError("the form has no 'file'")
        if not found[0].content:
            raise BadRequestError("the 'file' of the form is empty; a recording was expected")
        return found[0].content

    def text(self, name: str) -> str:
        found = [part for part in self._parts if part.name == name]
        return found[-1].text.strip() if found else ""

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in {"", "true", "false", "1", "0"}:
            raise BadRequestError(f"{name!r} is true or false")
        return value in {"true", "1"}

    def check_for(self, voice: Voice) -> None:
        """What was asked for, the voice can do."""
        language = self.text("language").lower()
        if language and language[:2] != voice.language.lower()[:2] and _LANGUAGES.get(voice.language[:2]) != language:
            raise BadRequestError(f"{voice.name!r} understands {voice.language!r}, not {language[:40]!r}")
        temperature = self.text("temperature")
        try:
            is_right = not temperature or 0.0 <= float(temperature) <= 1.0
        except ValueError:
            is_right = False
        if not is_right:
            raise BadRequestError("'temperature' is a number from 0 to 1")
        wanted = {part.text for part in self._parts if part.name.removesuffix("[]") == "timestamp_granularities"}
        if wanted - {"segment"}:
            raise BadRequestError(f"{voice.name!r} knows the times of segments; timestamp_granularities is 'segment'")
        if any(part.name.removesuffix("[]") == "include" for part in self._parts):
            raise BadRequestError("'include' is not known here: there are no log probabilities of tokens")
