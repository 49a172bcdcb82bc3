"""The few calls to the API server that a DRA driver needs, with the standard library alone.

Every answer is bounded, in bytes and in time: the server may be far away, overloaded, or not the one that it should be.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openrknn.errors import RknnError

__all__ = ["ApiError", "ApiServer", "Lines"]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS = 10.0
_MOST_BYTES = 4 * 1024 * 1024
_MOST_LINE_BYTES = 1024 * 1024
"""One event of a watch; a slice of this driver has at most about 50 kB."""
_MOST_WAIT_SECONDS = 60.0


class ApiError(RknnError):
    """The API server said no; `status` is the HTTP status, 0 without an answer."""

    def __init__(self, text: str, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after
        """Seconds that the server asks us to wait."""


class Lines:
    """An answer without an end: line by line, until it breaks or `close` is called (by any thread)."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, what: str) -> None:
        self._connection, self._answer, self._what = connection, answer, what

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                line = self._answer.readline(_MOST_LINE_BYTES + 1)
            except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
                # ValueError and AttributeError: closed by another thread.
                raise ApiError(f"{self._what}: {error}") from None
            if not line:
                return
            if len(line) > _MOST_LINE_BYTES:
                raise ApiError(f"{self._what}: a line is larger than {_MOST_LINE_BYTES >> 20} MiB")
            yield line

    def close(self) -> None:
        """Wakes the reader."""
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._connection.close()


class ApiServer:
    """Kubernetes' API, as a pod's service account or by address and token file."""

    def __init__(
        self, url: str, token_file: Path | None = None, ca_file: Path | None = None, seconds: float = _SECONDS
    ) -> None:
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ApiError(f"{url!r} is not the address of an API server, such as https://10.0.0.1:6443")
        self._host, self._port, self._base = place.hostname, place.port, place.path.rstrip("/")
        self._token_file, self._ca_file, self._seconds = token_file, ca_file, seconds
        self._is_secure = place.scheme == "https"
        self._context: ssl.SSLContext | None = None
        self._context_of: float | None = None

    @classmethod
    def from_pod(cls) -> ApiServer:
        """As the account of the pod that this runs in."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (_ACCOUNT / "token").exists():
            raise ApiError("this is not a pod with a service account; name the API server with --api-server")
        place = f"[{host}]" if ":" in host else host
        return cls(f"https://{place}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")

    def get(self, path: str) -> Any:
        """One object."""
        return self.call("GET", path)

    def call(self, method: str, path: str, value: object = None) -> Any:
        """One request and its answer."""
        content = None if value is None else json.dumps(value).encode()
        connection, answer = self._ask(method, path, content, self._seconds)
        try:
            text = self._read(answer, f"{method} {path}")
        finally:
            connection.close()
        try:
            return json.loads(text or b"null")
        except ValueError:
            raise ApiError(f"{method} {path}: the answer is not JSON") from None

    def stream(self, path: str, seconds: float) -> Lines:
        """A watch; it breaks if nothing comes for so many seconds."""
        connection, answer = self._ask("GET", path, None, self._seconds)
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return Lines(connection, answer, f"watch {path}")

    # ------------------------------------------------------------ inside

    def _ask(
        self, method: str, path: str, content: bytes | None, seconds: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """An answer with a good status. The kubelet replaces tokens: one that was refused is read once more."""
        token = self._token()
        try:
            return self._ask_once(method, path, content, seconds, token)
        except ApiError as error:
            newer = self._token()
            if error.status != 401 or newer == token:
                raise
        return self._ask_once(method, path, content, seconds, newer)

    def _ask_once(
        self, method: str, path: str, content: bytes | None, seconds: float, token: str
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        what = f"{method} {path}"
        headers = {"Accept": "application/json", "User-Agent": "openrknn-device-plugin"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = self._connection(seconds)
        try:
            connection.request(method, self._base + path, content, headers)
            answer = connection.getresponse()
            if answer.status < 300:
                return connection, answer
            text = self._read(answer, what).decode("utf-8", "replace")
            raise ApiError(
                f"{what}: {answer.status} {_message(text)}{self._advice(answer.status)}",
                answer.status,
                _seconds(answer.headers.get("Retry-After")),
            )
        except (http.client.HTTPException, OSError, ValueError) as error:
            connection.close()
            raise ApiError(f"{what}: {str(error) or type(error).__name__}") from None
        except BaseException:
            connection.close()
            raise

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        """Certificate authorities are replaced as tokens are: the file is read again when it changed."""
        try:
            changed = self._ca_file.stat().st_mtime if self._ca_file else None
            if self._context is None or changed != self._context_of:
                self._context = ssl.create_default_context(cafile=str(self._ca_file) if self._ca_file else None)
                # Python 3.13 refuses authorities without key usage or key identifiers, which clusters have (EKS,
                # MicroK8s). Chain, dates and name are checked as before.
                self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
                self._context_of = changed
        except (OSError, ssl.SSLError) as error:
            raise ApiError(f"{self._ca_file}: not a certificate authority that can be read ({error})") from None
        return self._context

    def _token(self) -> str:
        if self._token_file is None:
            return ""
        try:
            return self._token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"{self._token_file}: no token there ({error})") from None

    def _read(self, answer: http.client.HTTPResponse, what: str) -> bytes:
        """All of it, if that is not too much and does not take too long."""
        parts: list[bytes] = []
        size, end = 0, time.monotonic() + self._seconds
        try:
            while part := answer.read1(65536):
                parts.append(part)
                size += len(part)
                if size > _MOST_BYTES:
                    raise ApiError(f"{what}: the answer is larger than {_MOST_BYTES >> 20} MiB")
                if time.monotonic() > end:
                    raise ApiError(f"{what}: the answer takes longer than {self._seconds:g} s")
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise ApiError(f"{what}: {str(error) or type(error).__name__}") from None
        return b"".join(parts)

    def _advice(self, status: int) -> str:
        if status == 401:
            return f" (the token in {self._token_file} is not valid, or not any more)"
        if status == 403:
            return " (the service account lacks a rule: see ClusterRole openrknn-dra in deploy/kubernetes)"
        return ""


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", ""))[:500]
    except (ValueError, AttributeError):
        return text[:200]


def _seconds(text: str | None) -> float:
    return min(float(text), _MOST_WAIT_SECONDS) if text and text.isdigit() else 0.0
