"""`HeaderTimeout`: a connection has so long and no longer for its headers."""

from __future__ import annotations

import contextlib
import socket
import threading

__all__ = ["HeaderTimeout"]


class HeaderTimeout:
    """Ends a connection whose headers do not come to an end, byte by byte within the time for each."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._strike)
        self._timer.daemon = True
        self._twin: socket.socket | None = None
        self.has_struck = False

    def connect(self, address: tuple[str, int], timeout: float, source: tuple[str, int] | None = None) -> socket.socket:
        """Instead of `socket.create_connection`."""
        made = socket.create_connection(address, timeout, source)
        self._twin = made.dup()  # TLS takes the first one over
        return made

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def close(self) -> None:
        """Give the socket back."""
        self._timer.cancel()
        if self._twin is not None:
            self._twin.close()

    def _strike(self) -> None:
        self.has_struck = True
        if self._twin is not None:
            with contextlib.suppress(OSError):
                self._twin.shutdown(socket.SHUT_RDWR)
