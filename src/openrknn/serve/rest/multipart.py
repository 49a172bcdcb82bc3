"""Forms with files (RFC 7578), from bodies that are in memory and have a bound already."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openrknn.serve.errors import BadRequestError, MediaError

__all__ = ["Part", "parse_form"]

_MOST_PARTS = 64
_MOST_HEAD = 4096
_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME = re.compile(r'(?<![\w*])name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_FILE = re.compile(r'(?<![\w*])filename="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One field: its name, the name of its file if it is one, and its bytes."""

    name: str
    content: memoryview
    file: str | None = None

    @property
    def text(self) -> str:
        try:
            return bytes(self.content).decode("utf-8")
        except UnicodeDecodeError:
            raise BadRequestError(f"the field {self.name[:80]!r} is not UTF-8") from None


def parse_form(body: bytes, content_type: str) -> list[Part]:
    """The fields, in their order. No field is copied."""
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        raise MediaError("send multipart/form-data: a recording as 'file', and 'model'")
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise BadRequestError("the Content-Type of the form has no boundary")
    mark = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    if not body.startswith(mark):
        raise BadRequestError("the form does not begin with its boundary")
    parts: list[Part] = []
    view, at = memoryview(body), len(mark)
    while not body.startswith(b"--", at):
        if not body.startswith(b"\r\n", at):
            raise BadRequestError("there is something behind a boundary of the form")
        if len(parts) >= _MOST_PARTS:
            raise BadRequestError(f"the form has more than {_MOST_PARTS} fields")
        head_end = body.find(b"\r\n\r\n", at, at + _MOST_HEAD)
        if head_end < 0:
            raise BadRequestError("a field of the form has no head, or a very long one")
        end = body.find(b"\r\n" + mark, head_end + 2)
        if end < 0:
            raise BadRequestError("the form ends too early")
        name, file = _names(body[at + 2 : head_end])
        parts.append(Part(name, view[min(head_end + 4, end) : end], file))
        at = end + 2 + len(mark)
    return parts


def _names(head: bytes) -> tuple[str, str | None]:
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            name, file = _NAME.search(value), _FILE.search(value)
            if name is not None:
                return name[1], file[1] if file is not None else None
    raise BadRequestError("a field of the form has no name")
