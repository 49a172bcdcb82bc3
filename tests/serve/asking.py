"""Plain HTTP, without a library that hides things."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from openrknn.serve.server import Server
from tests.serve.parts import Array

PATIENCE = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


def ask(
    server: Server, method: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """One request on a connection of its own."""
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()


def infer(server: Server, name: str, inputs: dict[str, Array], **words: Any) -> Answer:
    """A request with numbers in JSON."""
    return ask(server, "POST", f"/v2/models/{name}/infer", request_body(inputs, **words))


def request_body(inputs: dict[str, Array], **words: Any) -> str:
    types = {"uint8": "UINT8", "float32": "FP32"}
    entries = [
        {"name": name, "shape": list(array.shape), "datatype": types[array.dtype.name], "data": array.ravel().tolist()}
        for name, array in inputs.items()
    ]
    return json.dumps({"inputs": entries, **words})


@contextmanager
def helpers(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that ask at the same time."""
    with ThreadPoolExecutor(count) as threads:
        yield threads


__all__ = ["PATIENCE", "Answer", "Future", "ask", "helpers", "infer", "request_body"]
