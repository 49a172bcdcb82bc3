"""Protobuf's text format, without a schema: what a `.prototxt` is written in.

A reader without a schema takes networks of every fork of Caffe: fields that it does not know are there, and harm none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.caffe.message import Message, Scalar

_DEEPEST = 32
_MOST_FIELDS = 1_000_000
_TOKEN = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)
      | (?P<open>[{<]) | (?P<close>[}>]) | (?P<colon>:) | (?P<list>\[) | (?P<end>\])
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>[-+]?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)
      | (?P<wrong>.)""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse(data: bytes, file: str) -> Message:
    """The message of a whole file."""
    reader = _Reader(data.decode("utf-8", "replace"), file)
    return reader.message(0, is_inner=False)


class _Reader:
    """Tokens with the place of the last one, for messages."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file, self._at = text, file, 0
        self._tokens = self._scan()
        self._next = next(self._tokens)
        self._count = 0

    def _scan(self) -> Iterator[tuple[str, str]]:
        for match in _TOKEN.finditer(self._text):
            self._at = match.start()
            kind = match.lastgroup or "wrong"
            if kind == "wrong":
                raise self._wrong(f"{match[0]!r} is not expected here")
            if kind != "space":
                yield kind, match[0]
        yield "nothing", ""

    def _wrong(self, text: str) -> ModelError:
        line = self._text.count("\n", 0, self._at) + 1
        return ModelError(f"{self._file}, line {line}: {text}; a .prototxt is text like name: value, name {{ ... }}")

    def _take(self) -> tuple[str, str]:
        taken = self._next
        self._next = next(self._tokens, ("nothing", ""))
        return taken

    def message(self, depth: int, *, is_inner: bool) -> Message:
        """Fields up to the closing brace, or to the end of the file."""
        if depth > _DEEPEST:
            raise self._wrong(f"more than {_DEEPEST} messages inside each other")
        made = Message()
        while True:
            kind, word = self._take()
            if kind == ("close" if is_inner else "nothing"):
                return made
            if kind != "word":
                raise self._wrong(f"a name is expected, not {word or 'the end of the file'!r}")
            self._count += 1
            if self._count > _MOST_FIELDS:
                raise self._wrong(f"more than {_MOST_FIELDS} fields")
            self._field(made, word, depth)

    def _field(self, made: Message, name: str, depth: int) -> None:
        if self._next[0] == "open":
            self._take()
            made.append(name, self.message(depth + 1, is_inner=True))
            return
        kind, word = self._take()
        if kind != "colon":
            raise self._wrong(f"a colon is expected after {name}, not {word!r}")
        if self._next[0] == "open":
            self._take()
            made.append(name, self.message(depth + 1, is_inner=True))
        elif self._next[0] == "list":
            self._take()
            while self._next[0] != "end":
                made.append(name, self._scalar(name))
            self._take()
        else:
            made.append(name, self._scalar(name))

    def _scalar(self, name: str) -> Scalar:
        kind, word = self._take()
        if kind == "text":
            text = _unquoted(word)
            while self._next[0] == "text":  # strings side by side are one
                text += _unquoted(self._take()[1])
            return text
        if kind != "word":
            raise self._wrong(f"a value is expected after {name}:, not {word or 'the end of the file'!r}")
        return word


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), word[1:-1])
