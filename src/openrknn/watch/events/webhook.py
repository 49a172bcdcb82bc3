"""Events as HTTP POST requests.

The body is the event as JSON. `X-OpenRKNN-Event` is its id: a receiver that answers and is not heard gets it again.
With a secret, `X-OpenRKNN-Signature: sha256=HEX` is the HMAC-SHA256 of the body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
from urllib.parse import urlsplit

from openrknn.watch.errors import SinkError
from openrknn.watch.events.spool import Event

__all__ = ["Webhook", "signature"]

_NEVER = (400, 405, 409, 410, 411, 413, 414, 415, 422, 431)
"""Answers after which the same event will not be taken later either."""


def signature(body: bytes, secret: str) -> str:
    """What the header says."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Webhook:
    """One address. Redirects are not followed: the signature is for this receiver."""

    def __init__(self, url: str, secret: str | None = None, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        self.name = f"webhook:{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
        self._parts, self._secret, self._timeout = parts, secret, timeout

    def deliver(self, event: Event, snapshot: bytes | None) -> None:
        """Send it, and wait for the answer."""
        words = {**event.body}
        if snapshot is not None:
            words["snapshot_jpeg"] = base64.b64encode(snapshot).decode()
        body = json.dumps(words, separators=(",", ":"), allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "openrknn", "X-OpenRKNN-Event": event.id}
        if self._secret is not None:
            headers["X-OpenRKNN-Signature"] = signature(body, self._secret)
        if self._parts.username is not None:
            pair = f"{self._parts.username}:{self._parts.password or ''}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        host, port = self._parts.hostname or "", self._parts.port
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(host, port, timeout=self._timeout)
        target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            connection.request("POST", target, body, headers)
            answer = connection.getresponse()
            status = answer.status
            answer.read(65536)
        except (OSError, http.client.HTTPException) as error:
            raise SinkError(f"{type(error).__name__}: {error}") from None
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise SinkError(f"it answered {status}", is_refused=status in _NEVER)

    def close(self) -> None:
        """There is nothing to close: each event has a connection of its own."""
