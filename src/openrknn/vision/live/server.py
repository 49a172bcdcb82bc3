"""The newest picture for every browser that looks. Nothing of the page comes from elsewhere.

/                   the page
/picture?after=N    the first picture newer than number N, as soon as there is one; the header X-State describes it
/stream.mjpg        all of them as a motion JPEG, for players and home automation
/state              what the page shows, as JSON
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from ipaddress import ip_address
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from openrknn.vision.errors import SourceError
from openrknn.vision.live.broadcast import Broadcast
from openrknn.vision.live.sockets import TidyServer

_BOUNDARY = b"--picture\r\n"
_POLICY = "default-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; frame-ancestors 'none'"
"""Nothing from elsewhere, and no other page may show this one inside itself."""


@contextmanager
def serve(host: str, port: int) -> Iterator[tuple[Broadcast, str]]:
    """Answer browsers in threads of their own; port 0 takes a free one. Gives where to publish, and the address."""
    broadcast = Broadcast()
    try:
        server = _Server(host, port, broadcast)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{host}:{port}: {reason}; choose another --port or --host") from error
    thread = Thread(target=server.serve_forever, args=(0.05,), name="openrknn-stream", daemon=True)
    thread.start()
    try:
        yield broadcast, server.address
    finally:
        broadcast.close()
        server.shutdown()
        server.end_connections()
        server.server_close()
        thread.join()


class LiveServer(TidyServer):
    """A server of pages that may be for this machine only."""

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(host, port, handler)
        bound = str(self.server_address[0])
        self.is_private = ip_address(bound).is_loopback
        shown = "127.0.0.1" if bound == "0.0.0.0" else "[::1]" if bound == "::" else bound
        shown = f"[{shown}]" if ":" in shown and "[" not in shown else shown
        self.address = f"http://{shown}:{self.server_address[1]}/"

    def knows(self, host: str) -> bool:
        """Whether a browser means us. A page from elsewhere whose name was made to point to this machine does not."""
        name = urlsplit(f"//{host}").hostname or ""
        return not self.is_private or name == "localhost" or _is_loopback(name)


class _Server(LiveServer):
    def __init__(self, host: str, port: int, broadcast: Broadcast) -> None:
        super().__init__(host, port, _Handler)
        self.broadcast = broadcast


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class LiveHandler(BaseHTTPRequestHandler):
    """Answers with pages and pictures; nothing is kept by browsers."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "openrknn", ""
    timeout = 30
    """Seconds for one read or write: a browser that fell asleep holds nothing."""
    server: LiveServer

    def is_for_us(self) -> bool:
        """Whether the browser means this server; where not, it has been told."""
        if self.server.knows(self.headers.get("Host", "")):
            return True
        self.answer(b"this page is for this machine only; --host opens it\n", "text/plain", HTTPStatus.FORBIDDEN)
        return False

    def send_picture(self, broadcast: Broadcast, after: str) -> None:
        """One that is newer than number `after`."""
        than = int(after) if after.isascii() and after.isdigit() and len(after) < 12 else 0
        picture, state = broadcast.newer(than)
        status = HTTPStatus.OK if picture else HTTPStatus.NO_CONTENT
        self.answer(picture, "image/jpeg", status, {"X-State": encoded(state).decode()})

    def send_pictures(self, broadcast: Broadcast) -> None:
        """Until the source or the listener ends. Each boundary comes at once: browsers show a picture only after it."""
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=picture")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(_BOUNDARY)
        number, state = 0, broadcast.state
        while not state["ended"]:
            picture, state = broadcast.newer(number)
            if picture:
                number = state["picture"]
                head = f"Content-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n".encode()
                self.wfile.write(head + picture + b"\r\n" + _BOUNDARY)

    def answer(
        self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, more: dict[str, str] | None = None
    ) -> None:
        """A whole answer."""
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": _POLICY,
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        """Requests are not worth a line each."""


class _Handler(LiveHandler):
    server: _Server

    def do_GET(self) -> None:
        if not self.is_for_us():
            return
        address = urlsplit(self.path)
        match address.path:
            case "/":
                page = resources.files("openrknn.vision.live").joinpath("page.html").read_bytes()
                self.answer(page, "text/html; charset=utf-8")
            case "/state":
                self.answer(encoded(self.server.broadcast.state), "application/json")
            case "/picture":
                self.send_picture(self.server.broadcast, parse_qs(address.query).get("after", ["0"])[0])
            case "/stream.mjpg":
                self.send_pictures(self.server.broadcast)
            case _:
                self.answer(b"not here\n", "text/plain", HTTPStatus.NOT_FOUND)


def encoded(state: Any) -> bytes:
    """JSON that a header can hold."""
    return json.dumps(state, allow_nan=False).encode("ascii")
