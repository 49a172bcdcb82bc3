"""A threading HTTP server that leaves nothing behind, and that no number of connections can overwhelm."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

_MOST_CONNECTIONS = 64
_GOODBYE_SECONDS = 2.0
"""Time limit for answers in progress at shutdown."""


class TidyServer(HTTPServer):
    """One thread per connection; `end_connections` waits for all of them."""

    allow_reuse_address = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._leaving: set[threading.Thread] = set()
        """Threads whose connection is no longer counted, and that may need another moment to end."""
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """As usual, without asking the network for this machine's name."""
        socket_server_bind = super(HTTPServer, self).server_bind
        socket_server_bind()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, unless there are too many."""
        with self._lock:
            self._leaving = {thread for thread in self._leaving if thread.is_alive()}
            if len(self._open) < _MOST_CONNECTIONS:
                thread = threading.Thread(
                    target=self._serve, args=(request, client_address), name="openrknn-stream-viewer", daemon=True
                )
                self._open[request] = thread
                thread.start()
                return
        self.shutdown_request(request)

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # the browser went away, or stopped reading
        finally:
            with self._lock:
                self._leaving.add(self._open.pop(request))
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Of accepting a connection: a broken one is not our error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def end_connections(self) -> None:
        """Let answers in progress finish, then close everything."""
        deadline = time.monotonic() + _GOODBYE_SECONDS
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            with self._lock:
                remaining = dict(self._open)
                threads = [*remaining.values(), *self._leaving]
            for request in remaining:
                with contextlib.suppress(OSError):
                    request.shutdown(how)
            for thread in threads:
                thread.join(max(deadline - time.monotonic(), 0.1))
