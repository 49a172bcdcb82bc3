"""In front of all routes: who may ask, what every answer carries, and one line in the log per request."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import time
import uuid
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openrknn.serve.client_secrets import REALTIME, bearer_of
from openrknn.serve.errors import ForbiddenError, ServeError, UnauthorizedError
from openrknn.serve.logs import one_line
from openrknn.serve.plane.clients import client_key
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import openai
from openrknn.serve.rest.body import PLANE, SHARE, ClientGoneError
from openrknn.serve.rest.protocol import ABORT, DRAIN, KNOWN, MARK
from openrknn.serve.rest.tickets import is_right_ticket
from openrknn.serve.timeouts import timeout

__all__ = ["Middleware", "error_body"]

_LOG = logging.getLogger("openrknn.serve.access")
_OPEN_PATHS = frozenset({"/", "/v2/health/live", "/v2/health/ready"})
"""What needs no token: probes of a cluster have none, and the page asks for it."""
_OPEN_FOLDER = "/page/"
_BAD = frozenset({400, 401, 403, 408, 413, 415, 499})
"""Sent only to faulty or malicious clients; 499: it was gone before its answer."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_MAX_REQUEST_ID = 128
_QUIET_PATHS = frozenset({"/", "/v2/health/live", "/v2/health/ready", "/metrics", "/status", "/doctor", "/ticket"})
"""Probes, Prometheus and the page ask every few seconds: they are logged at DEBUG unless something is wrong."""


def error_body(message: str, path: str = "", status: int = 500, error: ServeError | None = None) -> bytes:
    """What clients of the protocol expect; those of OpenAI's interface expect something else."""
    about = (error.param, error.reason) if error is not None else (None, None)
    words = openai.error_words(status, message, *about) if path.startswith(openai.PREFIX) else {"error": message}
    return json.dumps(words).encode()


class Middleware:
    """ASGI around the application."""

    def __init__(self, app: ASGIApp, plane: Plane) -> None:
        settings = plane.settings
        self._plane = plane
        self._app = app
        self._send_seconds = settings.limits.send_seconds
        # Without a token, a page that a browser shows must not reach a server of this machine by another name for it.
        self._only_local_names = settings.token is None and settings.host in {"127.0.0.1", "::1", "localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        started = time.perf_counter()
        headers = Headers(scope=scope)
        identity = headers.get("x-request-id", "")
        if not identity or len(identity) > _MAX_REQUEST_ID or not identity.isascii() or not identity.isprintable():
            identity = uuid.uuid4().hex
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    found.setdefault(name, value)
                found["x-request-id"] = identity
                if self._plane.is_draining:
                    # A client that hears it sends nothing more on a connection that is about to end.
                    found["connection"] = "close"
            try:
                async with timeout(self._send_seconds):
                    await send(message)
            except TimeoutError:
                # The answer is large and nobody reads it: what it holds is worth more than the connection.
                scope[ABORT]()
                await asyncio.sleep(0.01)  # uvicorn hears of it in the next turn of the loop
                raise ClientGoneError from None

        share = self._plane.budget.open()
        try:
            await self._check(scope, headers)
            scope["app"] = self  # Starlette's routes raise instead of answering in words of their own
            scope[SHARE], scope[PLANE] = share, self._plane
            await self._app(scope, receive, answer)
            await self._sent(scope)
        except ClientGoneError:
            status = status or 499
        except ServeError as error:
            if not status:
                await _refuse(answer, error, scope["path"])
        except HTTPException as error:  # a path that knows other methods
            await _send_error(answer, error.status_code, str(error.detail), dict(error.headers or {}), scope["path"])
        except Exception:  # the client gets a clean answer, and the log the whole story
            _LOG.exception("request %s failed", identity)
            if status:
                raise
            await _refuse(answer, ServeError("internal error; see the server's log"), scope["path"])
        finally:
            share.close()
            self._judge(scope, status)
            _log(scope, identity, status, time.perf_counter() - started)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket. Until it is accepted it can be refused as any request."""
        started, status = time.perf_counter(), 101
        client = client_key((scope.get("client") or ("",))[0])
        try:
            await self._plane.pacer.turn(client)
            self._check_socket(scope, Headers(scope=scope), client)
            scope["app"] = self
            await self._app(scope, receive, send)
        except ServeError as error:
            status = error.status
            if status in _BAD:
                self._plane.pacer.refused(client)
            await _refuse_socket(send, error, scope["path"])
        except Exception:  # noqa: BLE001 - the log has the whole story, and the server closes the connection
            status = 500
            _LOG.exception("the WebSocket %s failed", one_line(scope["path"][:256]))
            with contextlib.suppress(RuntimeError, OSError):
                await send({"type": "websocket.close", "code": 1011, "reason": "internal error"})
        finally:
            _log({**scope, "method": "WEBSOCKET"}, "", status, time.perf_counter() - started)

    def _check_socket(self, scope: Scope, headers: Headers, client: str) -> None:
        given = bearer_of(scope)
        has_secret = scope["path"] == REALTIME and self._plane.client_secrets.find(given) is not None
        if not has_secret and not self._plane.tokens.is_right(given):
            raise UnauthorizedError("this server requires a token: send the header `Authorization: Bearer TOKEN`")
        host = headers.get("host", "")
        if self._only_local_names and not _is_local_name(host):
            raise ForbiddenError("this server listens on this machine only; address it as localhost")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise ForbiddenError("pages of other servers may not use this one")
        self._plane.rates.check(client)

    def _judge(self, scope: Scope, status: int) -> None:
        """Throttle a client whose request was rejected."""
        if _is_open(scope["path"]) or MARK not in scope:
            return
        scope[MARK](is_known=0 < status < 400)
        if status in _BAD:
            self._plane.pacer.refused(client_key((scope.get("client") or ("",))[0]))

    async def _sent(self, scope: Scope) -> None:
        """Wait until the client has taken the answer: until then it is in our memory."""
        drain = scope.get(DRAIN)
        if drain is None:
            return
        try:
            async with timeout(self._send_seconds):
                await drain()
        except TimeoutError:
            scope[ABORT]()

    async def _check(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        is_open = _is_open(path)
        client = client_key((scope.get("client") or ("",))[0])
        if not is_open and not scope.get(KNOWN, True):  # probes never wait
            await self._plane.pacer.turn(client)
        tokens = self._plane.tokens
        if tokens.current is not None and path.endswith("/inspect"):
            is_open = any(is_right_ticket(scope["query_string"], token) for token in tokens.valid)
        if not is_open and not tokens.is_right(headers.get("authorization")):
            raise UnauthorizedError("this server requires a token: send the header `Authorization: Bearer TOKEN`")
        host = headers.get("host", "")
        if self._only_local_names and not _is_local_name(host):
            raise ForbiddenError("this server listens on this machine only; address it as localhost")
        origin = headers.get("origin")
        if origin is not None and scope["method"] != "GET" and urlsplit(origin).netloc != host:
            raise ForbiddenError("pages of other servers may not use this one")
        if not is_open:
            self._plane.rates.check(client)


def _log(scope: Scope, identity: str, status: int, seconds: float) -> None:
    fields = {
        "request_id": identity,
        "method": scope["method"],
        "path": one_line(scope["path"][:256]),
        "status": status,
        "ms": round(1000 * seconds, 3),
        "client": (scope.get("client") or ("",))[0],
        "model": scope.get("path_params", {}).get("name", ""),
    }
    _LOG.log(
        _level(scope["path"], status), "%(method)s %(path)s %(status)s %(ms)s ms", fields, extra={"fields": fields}
    )


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)


def _level(path: str, status: int) -> int:
    is_quiet = path in _QUIET_PATHS or path.startswith(_OPEN_FOLDER) or path.endswith("/ready")
    return logging.DEBUG if is_quiet and status < 400 else logging.INFO


def _is_local_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in {"localhost", ""}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, error: ServeError, path: str) -> None:
    headers = {}
    if isinstance(error, UnauthorizedError):
        headers["www-authenticate"] = "Bearer"
    retry = getattr(error, "retry_seconds", None)
    if retry is not None:
        headers["retry-after"] = str(max(1, round(retry)))
    await _send_error(send, error.status, str(error), headers, path, error=error)


async def _refuse_socket(send: Send, error: ServeError, path: str) -> None:
    body = error_body(str(error), path, error.status, error)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _send_error(
    send: Send, status: int, message: str, more: dict[str, str], path: str, *, error: ServeError | None = None
) -> None:
    body = error_body(message, path, status, error)
    headers = {"content-type": "application/json", "content-length": str(len(body)), **more}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
