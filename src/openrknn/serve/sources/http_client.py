"""`HttpClient`: GET over HTTP and HTTPS with bounds: connecting, headers, slowness, size, redirects, tries."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import netrc
import os
import ssl
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from openrknn.serve.sources.errors import (
    AnswerError,
    CredentialsError,
    GoneError,
    MissingError,
    PartialError,
    RedirectError,
    SourceError,
    TooMuchError,
    UnreachableError,
)
from openrknn.serve.sources.header_timeout import HeaderTimeout

__all__ = ["Answer", "Bounds", "HttpClient", "Refusal", "refusal"]

_CHUNK = 1 << 18
_REDIRECTS = 5
_MOVED = frozenset((301, 302, 303, 307, 308))
_ERROR_BYTES = 64 * 1024
_T = TypeVar("_T")
Refusal = Callable[[str, int, Mapping[str, str], bytes], SourceError]
"""Makes an error of an answer that is neither 200 nor 304: address, status, headers, the first bytes of the body."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no source may exceed."""

    file_bytes: int = 4 << 30
    total_bytes: int = 64 << 30
    """Of one source."""
    files: int = 10_000
    stall_seconds: float = 20.0
    """Without a byte; also for connecting."""
    head_seconds: float = 60.0
    """From the connection to the end of the headers."""
    slowest: int = 16 * 1024
    """Bytes a second that a body must have on average, after the first minute."""
    tries: int = 3


@dataclass(slots=True)
class Answer:
    """An answer with its body still to come."""

    status: int
    headers: Mapping[str, str]
    """By names in small letters."""
    length: int | None
    """None: the server does not say."""
    is_framed: bool
    """Whether a body that was cut off can be told from a whole one."""
    _response: http.client.HTTPResponse
    _bounds: Bounds
    _text: str

    def chunks(self, most_bytes: int) -> Iterator[bytes]:
        """The body in pieces; it raises for one that is too long, too slow, or cut off."""
        if self.length is not None and self.length > most_bytes:
            raise TooMuchError(f"{self._text} has {self.length} bytes; {most_bytes} are allowed")
        started, total = time.monotonic(), 0
        try:
            while data := self._response.read1(_CHUNK):
                total += len(data)
                if total > most_bytes:
                    raise TooMuchError(f"{self._text} has more than the {most_bytes} bytes that are allowed")
                late = time.monotonic() - started - 60.0
                if late > 0 and total < late * self._bounds.slowest:
                    raise UnreachableError(f"{self._text}: the server is too slow: {total} bytes in {late + 60:.0f} s")
                yield data
        except TimeoutError:
            raise UnreachableError(
                f"{self._text}: nothing came for {self._bounds.stall_seconds:g} s, after {total} bytes"
            ) from None
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise PartialError(
                f"{self._text} ended after {total} bytes: {str(error) or type(error).__name__}"
            ) from None
        if self.length is not None and total != self.length:
            raise PartialError(f"{self._text} ended after {total} of {self.length} bytes")


class HttpClient:
    """Connections of one source."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        *,
        ca_file: str = "",
        pause: Callable[[float], object] = time.sleep,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.bounds = bounds or Bounds()
        self._pause, self._environment = pause, environment
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    def trying(self, action: Callable[[], _T]) -> _T:
        """Again, after a pause, where the network or the server has had trouble of its own."""
        for number in range(self.bounds.tries - 1):
            try:
                return action()
            except (UnreachableError, PartialError) as error:
                asked = error.retry_seconds if isinstance(error, UnreachableError) else None
                self._pause(min(10.0, 0.5 * 2**number if asked is None else asked))
        return action()

    @contextlib.contextmanager
    def open(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        follow: bool = True,
        refuse: Refusal | None = None,
    ) -> Iterator[Answer]:
        """One GET; redirects are followed to HTTPS, or from HTTP to HTTP. Else than 200 and 304 raises.

        A redirect stays with the host and port of the address that was given, or leads to a public address: what a
        model server says must not make us ask services of this machine or of the network that it is in.
        """
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        given = urlsplit(url)
        for _ in range(_REDIRECTS + 1):
            with self._ask(url, sent, is_foreign=not _is_same_place(given, urlsplit(url))) as answer:
                if answer.status in _MOVED and follow:
                    url, sent = _next(url, answer, sent)
                    continue
                if answer.status not in {200, 304}:
                    raise _refused(url, answer, refuse)
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise AnswerError(
                        f"{_plain(url)} comes packed ({answer.headers['content-encoding'][:20]}), unasked"
                    )
                yield answer
                return
        raise RedirectError(f"{_plain(url)}: more than {_REDIRECTS} redirects")

    def read(self, url: str, headers: Mapping[str, str], most_bytes: int, **options: object) -> tuple[bytes, Answer]:
        """The whole of a small answer."""
        with self.open(url, headers, **options) as answer:  # type: ignore[arg-type]
            return b"".join(answer.chunks(most_bytes)), answer

    @contextlib.contextmanager
    def _ask(self, url: str, headers: Mapping[str, str], *, is_foreign: bool = False) -> Iterator[Answer]:
        parts = urlsplit(url)
        guard = HeaderTimeout(self.bounds.head_seconds)
        connection = self._connection(parts, guard)
        if is_foreign:
            _stay_public(connection, parts, is_proxied=bool(self._proxy(parts)))
        sent = {"accept-encoding": "identity", "user-agent": "openrknn", **self._netrc(parts), **headers}
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        if self._proxy(parts) and parts.scheme == "http":
            target = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", parts.query, ""))
        try:
            with self._spoken(connection, guard, target, sent, _plain(url)) as response:
                yield _answer(response, self.bounds, _plain(url))
        finally:
            connection.close()
            guard.close()

    def _spoken(
        self,
        connection: http.client.HTTPConnection,
        guard: HeaderTimeout,
        target: str,
        headers: Mapping[str, str],
        text: str,
    ) -> http.client.HTTPResponse:
        """The answer up to its headers."""
        try:
            with guard:
                connection.putrequest("GET", target, skip_host="host" in headers, skip_accept_encoding=True)
                for name, value in headers.items():
                    connection.putheader(name, value)
                connection.endheaders()
                response = connection.getresponse()
            if guard.has_struck:  # headers that are cut off look like headers that end
                response.close()
                raise TimeoutError
            return response
        except ssl.SSLError as error:
            raise UnreachableError(f"{text}: TLS failed: {error.reason or error}") from None
        except TimeoutError:
            raise UnreachableError(f"{text}: no answer within {self.bounds.stall_seconds:g} s") from None
        except (http.client.HTTPException, OSError, ValueError) as error:
            if guard.has_struck:
                raise UnreachableError(f"{text}: no whole headers within {self.bounds.head_seconds:g} s") from None
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnreachableError(f"{text} cannot be reached: {why}") from None

    def _connection(self, parts: SplitResult, guard: HeaderTimeout) -> http.client.HTTPConnection:
        assert parts.hostname is not None
        at = urlsplit(self._proxy(parts) or urlunsplit((parts.scheme, parts.netloc, "", "", "")))
        seconds, host = self.bounds.stall_seconds, at.hostname or parts.hostname
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, at.port, timeout=seconds, context=self._tls())
        else:
            connection = http.client.HTTPConnection(host, at.port, timeout=seconds)
        if at.hostname != parts.hostname and parts.scheme == "https":
            connection.set_tunnel(parts.hostname, parts.port or 443)
        # The guard has to know the socket before TLS and headers are spoken over it; there is no other way in.
        vars(connection)["_create_connection"] = guard.connect
        return connection

    def _tls(self) -> ssl.SSLContext:
        """Made when it is needed: reading the certificates of all authorities takes a tenth of a second."""
        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=self._ca_file or None)
            except (OSError, ssl.SSLError) as error:
                raise CredentialsError(f"AWS_CA_BUNDLE={self._ca_file}: {error}") from None
        return self._context

    def _proxy(self, parts: SplitResult) -> str:
        if parts.hostname in {"127.0.0.1", "::1", "localhost"} or urllib.request.proxy_bypass(parts.netloc):
            return ""
        found = urllib.request.getproxies().get(parts.scheme, "")
        return found if found.startswith("http://") else ""

    def _netrc(self, parts: SplitResult) -> dict[str, str]:
        """What ~/.netrc has for this host; over HTTPS only."""
        home = self._environment.get("HOME")
        file = self._environment.get("NETRC") or (os.path.join(home, ".netrc") if home else "")
        if parts.scheme != "https" or not file or not os.path.exists(file):
            return {}
        try:
            found = netrc.netrc(file).hosts.get(parts.hostname or "")
        except (OSError, netrc.NetrcParseError) as error:
            raise CredentialsError(f"{file} cannot be used: {error}") from None
        if found is None:
            return {}
        return {"authorization": "Basic " + b64encode(f"{found[0]}:{found[2]}".encode()).decode()}


def refusal(text: str, status: int, headers: Mapping[str, str], body: bytes) -> SourceError:
    """What a status means, where the server says nothing better."""
    if status in {401, 403}:
        return CredentialsError(f"{text}: not allowed ({status}); ~/.netrc may hold a name and a password for the host")
    if status == 404:
        return MissingError(f"{text}: there is no such file (404)")
    if status == 410:
        return GoneError(f"{text}: it is gone (410)")
    if status == 429 or status >= 500:
        asked = headers.get("retry-after", "")
        seconds = float(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else None
        return UnreachableError(f"{text}: the server has trouble of its own ({status})", retry_seconds=seconds)
    return AnswerError(f"{text}: the server answers {status}")


def _refused(url: str, answer: Answer, refuse: Refusal | None) -> SourceError:
    body = b""
    with contextlib.suppress(SourceError):
        for data in answer.chunks(1 << 62):
            body += data
            if len(body) > _ERROR_BYTES:
                break
    return (refuse or refusal)(_plain(url), answer.status, answer.headers, body[:_ERROR_BYTES])


def _next(url: str, answer: Answer, sent: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    try:
        there = urljoin(url, answer.headers.get("location", ""))
        old, new = urlsplit(url), urlsplit(there)
        is_good = bool(new.hostname) and new.username is None and (new.port or 1) > 0 and there.isascii()
    except ValueError:
        is_good = False
    if not is_good:
        raise RedirectError(f"{_plain(url)}: a redirect to nowhere")
    if new.scheme not in {"http", "https"} or (old.scheme == "https" and new.scheme != "https"):
        raise RedirectError(f"{_plain(url)}: a redirect from {old.scheme} to {new.scheme or 'nothing'} is not followed")
    # Who we are is nobody else's business.
    is_same = (old.scheme, old.netloc) == (new.scheme, new.netloc)
    return urlunsplit(new._replace(fragment="")), {
        name: value for name, value in sent.items() if is_same or name != "authorization"
    }


def _is_same_place(given: SplitResult, other: SplitResult) -> bool:
    """Whether host and port are equal; HTTP may become HTTPS, each at its usual port."""
    ports = {"http": 80, "https": 443}
    here, there = ((parts.hostname, parts.port or ports.get(parts.scheme)) for parts in (given, other))
    return here == there or (here[0] == there[0] and (here[1], there[1]) == (80, 443))


def _stay_public(connection: http.client.HTTPConnection, parts: SplitResult, *, is_proxied: bool) -> None:
    """Nothing is sent to an address that is not public. A proxy looks names up itself: it decides where they lead."""
    refusal = RedirectError(
        f"{_plain(urlunsplit(parts))}: a redirect to another host or port leads to an address that is not public; give "
        "this address as the source if the model is there"
    )
    if is_proxied:
        with contextlib.suppress(ValueError):
            if not ipaddress.ip_address(parts.hostname or "").is_global:
                raise refusal
        return
    connect = vars(connection)["_create_connection"]

    def checked(*arguments: Any, **options: Any) -> Any:
        made = connect(*arguments, **options)
        if not _is_public(str(made.getpeername()[0])):
            made.close()
            raise refusal
        return made

    vars(connection)["_create_connection"] = checked


def _is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_global and not found.is_multicast


def _answer(response: http.client.HTTPResponse, bounds: Bounds, text: str) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    length = response.length if "content-length" in headers and not response.chunked else None
    return Answer(
        response.status, headers, length, length is not None or bool(response.chunked), response, bounds, text
    )


def _plain(url: str) -> str:
    """Without the query, which may hold a signature."""
    return urlunsplit(urlsplit(url)._replace(query="", fragment=""))
