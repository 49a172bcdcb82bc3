"""A web server and an S3-compatible storage for tests, which can be as unkind as real ones."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit


@dataclass
class Storage:
    """What it has and how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Path -> content; the paths of S3 objects begin with /BUCKET/."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Path -> what is answered instead."""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    """Path -> how many bytes are left out at the end."""
    code: str = ""
    """S3: every request is refused with this code."""
    page: int = 2
    """S3: objects in a page of a list."""
    list_body: bytes | None = None
    unframed: bool = False
    """Bodies end with the connection, as in HTTP/1.0."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths with queries, and headers."""
    url: str = ""

    def paths(self) -> list[str]:
        return [path.partition("?")[0] for path, _ in self.asked]


@contextmanager
def storage(**options: object) -> Iterator[Storage]:
    made = Storage(**options)  # type: ignore[arg-type]

    class Handler(_Handler):
        known = made

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.01))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    known: Storage

    def do_GET(self) -> None:
        storage = self.known
        parts = urlsplit(self.path)
        path, words = unquote(parts.path), parse_qs(parts.query)
        storage.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if storage.code:
            self._send(403, f"<Error><Code>{storage.code}</Code></Error>".encode())
        elif "list-type" in words:
            self._list(path.strip("/"), words)
        elif path in storage.statuses:
            self._send(storage.statuses[path], b"no", storage.headers.get(path))
        elif path not in storage.files:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._file(path, storage.files[path])

    def _file(self, path: str, data: bytes) -> None:
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        headers = {"ETag": tag, **self.known.headers.get(path, {})}
        if self.headers.get("If-None-Match") == tag:
            self._send(304, b"", headers)
        elif self.headers.get("If-Match", tag) != tag:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._send(200, data, headers, cut=self.known.cut.get(path, 0))

    def _list(self, bucket: str, words: dict[str, list[str]]) -> None:
        if self.known.list_body is not None:
            self._send(200, self.known.list_body)
            return
        prefix, after = words.get("prefix", [""])[0], words.get("continuation-token", [""])[0]
        start = f"/{bucket}/"
        keys = sorted(path.removeprefix(start) for path in self.known.files if path.startswith(start + prefix))
        if not any(path.startswith(start) for path in self.known.files):
            self._send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        rest = [key for key in keys if key > after]
        page, more = rest[: self.known.page], len(rest) > self.known.page
        listed = "".join(
            f"<Contents><Key>{quote(key)}</Key><ETag>&quot;{hashlib.md5(data).hexdigest()}&quot;</ETag>"
            f"<Size>{len(data)}</Size></Contents>"
            for key in page
            for data in [self.known.files[start + key]]
        )
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}{listed}"
            "</ListBucketResult>"
        )
        self._send(200, text.encode())

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: int = 0) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if not self.known.unframed:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body[: len(body) - cut])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the class above
        pass
