"""/v1/audio/live: text while somebody speaks, over plain HTTP.

    POST   /v1/audio/live?model=NAME&rate=16000   a session: {"id": ...}; &language=de, &task=translate
    POST   /v1/audio/live/ID                      16-bit little-endian samples of one channel; what is heard by now
    POST   /v1/audio/live/ID?end=1                the same for the last ones; the session ends
    DELETE /v1/audio/live/ID                      cancel the stream

Requests of a session follow each other. It works wherever HTTP does: through proxies, and from a browser without
websockets. A session takes one of the voice's streams with its first sound, not before; one that hears nothing for some
seconds is ended.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openrknn.serve.errors import BadRequestError, ConflictError, NotFoundError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.body import read_body
from openrknn.serve.voice.names import code_of_language
from openrknn.serve.voice.operations import Asked, Ears
from openrknn.serve.voice.voice import Voice
from openrknn.voice.listener import AUTO, ListenOptions
from openrknn.voice.results import Segment

__all__ = ["Live"]

_IDLE_SECONDS = 15.0
_MOST_SILENT = 64
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Session:
    ears: Ears
    has_stream: bool = False
    """Whether it has heard anything yet."""
    clock: asyncio.TimerHandle | None = None
    is_busy: bool = False
    finals: dict[int, Segment] = field(default_factory=dict)


class Live:
    """The sessions. Those that have heard anything hold a stream of their voice; of the others there are a few."""

    def __init__(self, plane: Plane) -> None:
        self._plane, self._limits = plane, plane.settings.limits
        self._sessions: dict[str, _Session] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def open(self, request: Request) -> Response:
        """A new session."""
        await read_body(request, self._limits, 1024)
        rate = request.query_params.get("rate", "16000")
        if not rate.isascii() or not rate.isdigit() or len(rate) > 6:
            raise BadRequestError("'rate' is the number of samples a second")
        voice = self._plane.voices.find(request.query_params.get("model", ""), "transcriber")
        asked = _asked(request, voice)
        silent = [name for name, one in self._sessions.items() if not one.has_stream and not one.is_busy]
        for name in silent[: max(len(silent) - _MOST_SILENT + 1, 0)]:  # the oldest ones
            await self._end(name)
        session = _Session(Ears(voice, self._limits, int(rate), asked=asked))
        identity = secrets.token_urlsafe(16)
        self._sessions[identity] = session
        self._wind(identity, session)
        return JSONResponse({"id": identity, "model": voice.name, "rate": int(rate)})

    async def feed(self, request: Request) -> Response:
        """What is heard by now."""
        end = request.query_params.get("end", "")
        if end not in {"", "0", "1", "true", "false"}:
            raise BadRequestError("'end' is true or false").about("end")
        is_end = end in {"1", "true"}
        identity, session = self._find(request)
        session.is_busy = True
        self._stop(session)
        try:
            body = await read_body(request, self._limits, _MOST_BYTES)
            if len(body) % 2:
                raise BadRequestError("the sound is 16-bit samples: an even number of bytes")
            found: list[Segment] = []
            if body and not session.has_stream:
                await session.ears.__aenter__()
                session.has_stream = True
            if session.has_stream:
                found += await session.ears.feed(np.frombuffer(body, "<i2"))
                if is_end:
                    found += await session.ears.finish()
        except BaseException as error:
            await self._end(identity, error)
            raise
        finally:
            session.is_busy = False
        for one in found:
            session.finals[one.index] = one
        text = " ".join(one.text.strip() for _, one in sorted(session.finals.items()) if one.text.strip())
        words = {
            "text": text,
            "seconds": round(session.ears.seconds, 3),
            "segments": [one.as_json() for one in found],
            "done": is_end,
        }
        if is_end:
            await self._end(identity)
        else:
            self._wind(identity, session)
        return JSONResponse(words)

    async def close(self, request: Request) -> Response:
        """Forget it."""
        identity, _ = self._find(request)
        await self._end(identity)
        return JSONResponse({"done": True})

    def _find(self, request: Request) -> tuple[str, _Session]:
        identity = request.path_params["session"]
        session = self._sessions.get(identity)
        if session is None:
            raise NotFoundError("there is no such session; it has ended, or heard nothing for too long")
        if session.is_busy:
            raise ConflictError("the last request of this session is not answered yet")
        return identity, session

    def _wind(self, identity: str, session: _Session) -> None:
        self._stop(session)
        session.clock = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._late, identity)

    @staticmethod
    def _stop(session: _Session) -> None:
        if session.clock is not None:
            session.clock.cancel()
            session.clock = None

    def _late(self, identity: str) -> None:
        task = asyncio.ensure_future(self._end(identity))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, identity: str, error: BaseException | None = None) -> None:
        session = self._sessions.pop(identity, None)
        if session is None:
            return
        self._stop(session)
        if not session.has_stream:
            return
        try:
            await session.ears.__aexit__(type(error) if error else None, error, None)
        except ServeError:
            if error is None:
                raise


def _asked(request: Request, voice: Voice) -> Asked:
    task, given = request.query_params.get("task") or "transcribe", request.query_params.get("language", "")
    code = code_of_language(given)
    if task != "transcribe" and task not in voice.tasks:
        raise BadRequestError(f"{voice.name!r} can transcribe, not {task[:40]!r}").about("task")
    if code not in {"", AUTO} and not voice.understands(code):
        raise BadRequestError(f"{voice.name!r} understands {voice.language_names()}, not {given[:40]!r}").about(
            "language"
        )
    return Asked(ListenOptions(language=(code or AUTO) if len(voice.languages) > 1 else "", task=task))
