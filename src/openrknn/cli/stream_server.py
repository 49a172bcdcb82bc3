"""The newest picture for every browser that looks: three addresses, nothing from the network.

    /               the page
    /picture?after=N    the first picture that is newer than number N, as soon as there is one
    /state          speed, latency and load as JSON
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from openrknn.cli.output import CommandError

__all__ = ["Broadcast", "serve"]

_PATIENCE_SECONDS = 10.0
"""How long a browser waits for the next picture before it is told to ask again."""


class Broadcast:
    """The newest picture; readers wait for one that they have not seen."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._picture = b""
        self._number = 0
        self._state: dict[str, Any] = {"ended": False}

    def publish(self, picture: bytes, state: dict[str, Any]) -> None:
        with self._changed:
            self._picture, self._state = picture, {**state, "ended": False}
            self._number += 1
            self._changed.notify_all()

    def close(self) -> None:
        """There will be no other picture."""
        with self._changed:
            self._state = {**self._state, "ended": True}
            self._changed.notify_all()

    @property
    def state(self) -> dict[str, Any]:
        with self._changed:
            return dict(self._state)

    def newer(self, than: int) -> tuple[int, bytes]:
        """Number and picture, or (than, b"") if none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > than or self._state["ended"], _PATIENCE_SECONDS)
            return (self._number, self._picture) if self._number > than else (than, b"")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    broadcast: Broadcast


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        match address.path:
            case "/":
                page = resources.files("openrknn.cli").joinpath("stream_page.html").read_bytes()
                self._answer(page, "text/html; charset=utf-8")
            case "/state":
                self._answer(json.dumps(self.server.broadcast.state).encode(), "application/json")
            case "/picture":
                self._picture(parse_qs(address.query).get("after", ["0"])[0])
            case _:
                self._answer(b"not here\n", "text/plain", HTTPStatus.NOT_FOUND)

    def _picture(self, after: str) -> None:
        than = int(after) if after.isascii() and after.isdigit() and len(after) < 12 else 0
        number, picture = self.server.broadcast.newer(than)
        if picture:
            self._answer(picture, "image/jpeg", number=number)
        else:
            self._answer(b"", "text/plain", HTTPStatus.NO_CONTENT, number=number)

    def _answer(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, number: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if number is not None:
            self.send_header("X-Number", str(number))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        """Requests are not worth a line each."""


@contextmanager
def serve(host: str, port: int) -> Iterator[tuple[Broadcast, str]]:
    """Answer browsers in threads of their own; port 0 takes a free one."""
    try:
        server = _Server((host, port), _Handler)
    except OSError as error:
        raise CommandError(f"{host}:{port}: {error.strerror or error}; choose another --port or --host") from error
    server.broadcast = Broadcast()
    thread = threading.Thread(target=server.serve_forever, name="openrknn-stream", daemon=True)
    thread.start()
    try:
        shown = "127.0.0.1" if host in ("", "0.0.0.0") else host
        yield server.broadcast, f"http://{shown}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
