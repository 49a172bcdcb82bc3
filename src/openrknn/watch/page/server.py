"""The page, and what it and other programs ask for.

/                           the page; everything else wants the token, where there is one
/state                      cameras, models and receivers, as JSON
/cameras/NAME.jpg?after=N   the first image newer than number N, as soon as there is one
/cameras/NAME.mjpg          all of them as a motion JPEG, for players
/events?before=N            the newest events, as JSON;   /events/N.jpg: the snapshot of one
/metrics                    for Prometheus
POST /models/NAME           load a model's file again
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from importlib import resources
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from openrknn.serve.tokens import Tokens
from openrknn.vision.live.server import LiveHandler, LiveServer
from openrknn.watch.engine import Watch
from openrknn.watch.errors import WatchError
from openrknn.watch.page.metrics import Metrics

__all__ = ["serve_page"]

_MOST_EVENTS = 100
_ASSETS = {"page.js": "text/javascript; charset=utf-8", "page.css": "text/css; charset=utf-8"}


@contextmanager
def serve_page(watch: Watch) -> Iterator[str]:
    """Answer browsers in threads of their own; gives the address."""
    page = watch.settings.page
    try:
        server = _Server(page.host, page.port, watch)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WatchError(f"{page.host}:{page.port}: {reason}; choose another port or host under [page]") from error
    thread = Thread(target=server.serve_forever, args=(0.05,), name="openrknn-watch-page", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        for view in watch.cameras.values():
            view.broadcast.close()
        server.shutdown()
        server.end_connections()
        server.server_close()
        thread.join()


class _Server(LiveServer):
    def __init__(self, host: str, port: int, watch: Watch) -> None:
        super().__init__(host, port, _Handler)
        self.watch = watch
        self.tokens = Tokens(watch.settings.page.token, watch.settings.page.token_file)
        self.metrics = Metrics(watch)


class _Handler(LiveHandler):
    server: _Server

    def _is_allowed(self) -> bool:
        if not self.is_for_us():
            return False
        self.server.tokens.refresh()
        if self.server.tokens.is_right(self.headers.get("Authorization")):
            return True
        more = {"WWW-Authenticate": "Bearer"}
        self._say({"error": "this page wants a token: Authorization: Bearer TOKEN"}, HTTPStatus.UNAUTHORIZED, more)
        return False

    def _say(self, words: Any, status: HTTPStatus = HTTPStatus.OK, more: dict[str, str] | None = None) -> None:
        self.answer(json.dumps(words, allow_nan=False).encode(), "application/json", status, more)

    def _not_here(self, what: str) -> None:
        self._say({"error": f"{what[:100]}: not here"}, HTTPStatus.NOT_FOUND)

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server gives it
        address = urlsplit(self.path)
        parts = [unquote(part) for part in address.path.strip("/").split("/")]
        match parts:
            case [""] if self.is_for_us():
                self._asset("page.html", "text/html; charset=utf-8")
            case [name] if name in _ASSETS and self.is_for_us():
                self._asset(name, _ASSETS[name])
            case [""] | ["page.js"] | ["page.css"]:
                pass  # not for us, and told so
            case _ if self._is_allowed():
                self._data(parts, parse_qs(address.query))

    def _asset(self, name: str, kind: str) -> None:
        self.answer(resources.files("openrknn.watch.page").joinpath(name).read_bytes(), kind)

    def _data(self, parts: list[str], query: dict[str, list[str]]) -> None:
        watch = self.server.watch
        match parts:
            case ["state"]:
                self._say(_state(watch))
            case ["metrics"]:
                body, kind = self.server.metrics.render(self.headers.get("Accept", ""))
                self.answer(body, kind)
            case ["events"]:
                before = _whole(query.get("before", [""])[0])
                rows = watch.spool.latest(_MOST_EVENTS, before)
                self._say({"events": [{"number": one.number, **one.body} for one in rows]})
            case ["events", name] if name.endswith(".jpg"):
                number = _whole(name.removesuffix(".jpg"))
                jpeg = watch.spool.snapshot(number) if number is not None else None
                self._not_here(name) if jpeg is None else self.answer(jpeg, "image/jpeg")
            case ["cameras", name] if name.rpartition(".")[0] in watch.cameras:
                view, kind = watch.cameras[name.rpartition(".")[0]], name.rpartition(".")[2]
                if kind == "jpg":
                    self.send_picture(view.broadcast, query.get("after", ["0"])[0])
                elif kind == "mjpg":
                    self.send_pictures(view.broadcast)
                else:
                    self._not_here(name)
            case _:
                self._not_here("/".join(parts))

    def do_POST(self) -> None:  # noqa: N802 - likewise
        self.close_connection = True  # a body, if there is one, is not read
        if not self._is_allowed():
            return
        parts = urlsplit(self.path).path.strip("/").split("/")
        # A form of a foreign page cannot send this header; without a token it is what keeps such pages out.
        if self.server.tokens.current is None and self.headers.get("X-OpenRKNN") is None:
            self._say({"error": "send the header X-OpenRKNN: 1"}, HTTPStatus.FORBIDDEN)
        elif len(parts) == 2 and parts[0] == "models" and parts[1] in self.server.watch.models:
            is_new = self.server.watch.reload(parts[1])[parts[1]]
            words = {"model": parts[1], "reloaded": is_new}
            self._say(words if is_new else {**words, "error": "the new file cannot be used; the log says why"},
                      HTTPStatus.OK if is_new else HTTPStatus.CONFLICT)  # fmt: skip
        else:
            self._not_here("/".join(parts))


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _state(watch: Watch) -> dict[str, Any]:
    waiting, given_up = watch.spool.waiting(), watch.spool.given_up()
    return {
        "schema_version": 1,
        "started": watch.started,
        "cameras": [view.state() for view in watch.cameras.values()],
        "models": [
            {
                "name": name, "about": model.about, "device": model.device, "problem": model.problem,
                "reloads": model.reloads, "restarts": model.restarts, "failures": model.failures,
                "file": model.settings.path.name,
            }
            for name, model in watch.models.items()
        ],
        "sinks": [
            {
                "name": one.sink.name, "delivered": one.delivered, "waiting": waiting.get(one.sink.name, 0),
                "given_up": given_up.get(one.sink.name, 0), "refused": one.refused, "problem": one.problem,
            }
            for one in watch.deliveries
        ],
        "newest_event": watch.spool.newest(),
    }  # fmt: skip
