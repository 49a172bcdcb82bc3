"""/v1/audio as OpenAI's clients speak it: transcriptions and translations of recordings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import transcripts
from openrknn.serve.rest.body import SHARE, read_body
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.live import Live
from openrknn.serve.rest.multipart import parse_form
from openrknn.serve.rest.openai import NO_BUFFERING
from openrknn.serve.rest.speech import Speech
from openrknn.serve.rest.transcription_form import TranscriptionWish, read_wish
from openrknn.serve.voice.operations import Listened, transcribe, transcribe_in_steps

__all__ = ["routes"]


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
        """Into English, by a voice that can."""
        return await self._answer(request, "translate")

    async def transcriptions(self, request: Request) -> Response:
        """In the language that is spoken."""
        return await self._answer(request, "transcribe")

    async def _answer(self, request: Request, task: str) -> Response:
        body = await read_body(request, self._limits)
        wish = read_wish(parse_form(body, request.headers.get("content-type", "")), self._plane.voices, task)
        request.scope[SHARE].grow(len(wish.recording))
        content = bytes(wish.recording)
        self._plane.under_way += 1
        try:
            if wish.is_streamed:
                return await self._streamed(wish, content)
            found = await unless_gone(request, transcribe(wish.voice, content, self._limits, wish.asked))
        finally:
            self._plane.under_way -= 1
        return _response(wish, found)

    async def _streamed(self, wish: TranscriptionWish, content: bytes) -> Response:
        """The events begin when the recording is known to be good: what is wrong with it is an answer of its own."""
        steps = transcribe_in_steps(wish.voice, content, self._limits, wish.asked)
        seconds = await anext(steps)
        assert isinstance(seconds, float)
        events = transcripts.streamed(steps, seconds, has_logs=wish.asked.logs)
        return StreamingResponse(events, media_type="text/event-stream", headers=NO_BUFFERING)


def _response(wish: TranscriptionWish, found: Listened) -> Response:
    said = found.transcript
    if wish.form == "json":
        return JSONResponse(transcripts.plain(found, has_logs=wish.asked.logs))
    if wish.form == "verbose_json":
        return JSONResponse(transcripts.verbose(said, wish.granularities))
    if wish.form == "diarized_json":
        return JSONResponse(transcripts.diarized(said))
    text = {"text": lambda: said.text + "\n", "srt": said.srt, "vtt": said.vtt}[wish.form]()
    return PlainTextResponse(text, media_type="text/vtt" if wish.form == "vtt" else "text/plain")
