"""A small HTTP server for /metrics and /healthz."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

__all__ = ["Exporter"]

_SECONDS = 10


class Exporter:
    """Answers GET /metrics with what `metrics` returns, and /healthz with 200 while `is_well`, else 503."""

    def __init__(self, host: str, port: int, metrics: Callable[[], str], is_well: Callable[[], bool]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _SECONDS

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, metrics(), "text/plain; version=0.0.4; charset=utf-8")
                elif self.path == "/healthz":
                    well = is_well()
                    self._answer(200 if well else 503, "ok\n" if well else "not registered\n", "text/plain")
                else:
                    self._answer(404, "there are /metrics and /healthz\n", "text/plain")

            def _answer(self, status: int, text: str, kind: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Scrapes are not worth a line."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="openrknn-exporter", daemon=True)

    def __enter__(self) -> Exporter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
