"""The path /v1/realtime: events of JSON over a WebSocket."""

from __future__ import annotations

import json

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from openrknn.serve.client_secrets import REALTIME, bearer_of
from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.realtime.config import SessionConfig
from openrknn.serve.realtime.session import RealtimeSession
from openrknn.serve.timeouts import timeout

__all__ = ["MESSAGE_BYTES", "realtime_route"]

MESSAGE_BYTES = 4 << 20
"""Of one event: a minute of sound at 24 kHz."""
_PROTOCOL = "realtime"
_REST_SECONDS = 30.0
"""Without an event; then the voice's stream is released."""
_MOST_RESTS = 20
"""Then a silent client is sent away."""


def realtime_route(plane: Plane) -> WebSocketRoute:
    """For the router."""

    async def realtime(socket: WebSocket) -> None:
        await _serve(plane, socket)

    return WebSocketRoute(REALTIME, realtime)


async def _serve(plane: Plane, socket: WebSocket) -> None:
    query = socket.query_params
    intent, model = query.get("intent", ""), query.get("model", "")
    if intent not in {"", "transcription"}:
        raise BadRequestError("'intent' is 'transcription': this server writes down what is said").about("intent")
    if "call_id" in query:
        raise BadRequestError("there are no calls here that could be joined").about("call_id")
    # Before the connection is accepted: a 404 is the best answer.
    made: SessionConfig | None = plane.client_secrets.find(bearer_of(socket.scope))
    config = made or SessionConfig(plane.voices.find(model, "transcriber"), model)
    seconds = plane.settings.limits.send_seconds
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(_PROTOCOL if _PROTOCOL in offered else None)

    async def send(words: dict[str, object]) -> None:
        async with timeout(seconds):
            await socket.send_text(json.dumps(words, ensure_ascii=False))

    is_old = "realtime=v1" in socket.headers.get("openai-beta", "") or "openai-beta.realtime-v1" in offered
    session = RealtimeSession(plane, config, send, is_old=is_old)
    plane.under_way += 1
    try:
        await session.begin()
        await _converse(socket, session)
    except (WebSocketDisconnect, TimeoutError, OSError):  # gone, or it takes nothing
        pass
    finally:
        plane.under_way -= 1
        await session.close()


async def _converse(socket: WebSocket, session: RealtimeSession) -> None:
    rests = 0
    while rests < _MOST_RESTS:
        try:
            async with timeout(_REST_SECONDS):
                text = await socket.receive_text()
        except TimeoutError:
            rests += 1
            await session.rest()
            continue
        except KeyError:  # bytes
            text = ""
        rests = 0
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            words = None
        await session.on(words)
    await socket.close(1000, "nothing was said for a long time")
