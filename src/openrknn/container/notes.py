"""The converter's notes: a Python dict in text form that the toolkit leaves in every model.

They hold what the user told the converter (mean, std, channel order) and where tensors came from. `ast.literal_eval`
would build a syntax tree a hundred times the size of the text; this reader builds the values alone, so that a
hostile file cannot make it large.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from openrknn.errors import BadTextError

Note: TypeAlias = "bool | int | float | str | list[Note] | tuple[Note, ...] | dict[str | int | float, Note] | None"

_MAX_DEPTH = 32
_MAX_CHARACTERS = 4 * 1024 * 1024
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<mark>[][(){},:])
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<word>[A-Za-z_][A-Za-z_0-9.]*|[-+](?:inf|nan))
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: dict[str, Note] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "\0"}
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def parse(text: str, *, offset: int | None = None) -> dict[str | int | float, Note]:
    """The notes as a dict; an empty text has none."""
    if not text.strip():
        return {}
    if len(text) > _MAX_CHARACTERS:
        raise BadTextError(f"notes of {len(text)} characters", offset=offset, section="converter notes")
    reader = _Reader(text)
    try:
        value = reader.value(0)
        if text[reader.at :].strip():
            raise ValueError("more text after the end")
        if not isinstance(value, dict):
            raise ValueError("the notes are not a dict")
    except ValueError as error:
        raise BadTextError(
            f"the converter's notes cannot be read: {error} at character {reader.at}",
            offset=offset,
            section="converter notes",
        ) from None
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            raise ValueError("something else than a value")
        self.at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def value(self, depth: int) -> Note:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        kind, token = self._next()
        match kind:
            case "text":
                return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), token[1:-1], flags=re.DOTALL)
            case "number":
                return int(token) if token.lstrip("+-").isdigit() and len(token) < 400 else float(token)
            case "word" if token in _WORDS:
                return _WORDS[token]
            case "mark" if token in _CLOSING:
                return self._collection(token, depth)
            case _:
                raise ValueError(f"{token[:20]!r} is not a value")

    def _collection(self, opening: str, depth: int) -> Note:
        items: list[Note] = []
        pairs: dict[str | int | float, Note] = {}
        while not self._closes(_CLOSING[opening]):
            item = self.value(depth + 1)
            if opening == "{":
                if not isinstance(item, str | int | float) or self._next()[1] != ":":
                    raise ValueError("a key without a value")
                pairs[item] = self.value(depth + 1)
            else:
                items.append(item)
            if not self._closes(",") and not self._peeks(_CLOSING[opening]):
                raise ValueError("a comma is missing")
        if opening == "{":
            return pairs
        return tuple(items) if opening == "(" else items

    def _peeks(self, mark: str) -> bool:
        match = _TOKEN.match(self.text, self.at)
        return match is not None and match["mark"] == mark

    def _closes(self, mark: str) -> bool:
        if not self._peeks(mark):
            return False
        self._next()
        return True
