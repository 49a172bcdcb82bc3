"""A message with named fields, each of them a list: what both of Caffe's files become."""

from __future__ import annotations

import math
from typing import TypeAlias

from openrknn.compiler.errors import ModelError

Scalar: TypeAlias = str
"""As it is written; what is asked for says what it has to be."""

_LARGEST = 1 << 31
_YES, _NO = {"true", "1", "t", "True"}, {"false", "0", "f", "False"}


class Message:
    """Fields by name; asking for one that is not there gives what Caffe takes then."""

    def __init__(self) -> None:
        self._fields: dict[str, list[Message | Scalar]] = {}
        self.where = ""
        """For messages of errors: the layer."""

    def append(self, name: str, value: Message | Scalar) -> None:
        """One more value of a field."""
        self._fields.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def inner(self, name: str) -> Message:
        """The message in a field; an empty one if there is none."""
        found = self._fields.get(name, [])
        made = found[-1] if found and isinstance(found[-1], Message) else Message()
        made.where = self.where
        return made

    def inners(self, name: str) -> list[Message]:
        """All messages of a field."""
        return [entry for entry in self._fields.get(name, []) if isinstance(entry, Message)]

    def words(self, name: str) -> list[str]:
        """All values of a field, as they are written."""
        return [entry for entry in self._fields.get(name, []) if isinstance(entry, str)]

    def word(self, name: str, default: str = "") -> str:
        """The last of them: a later one replaces the one before it."""
        found = self.words(name)
        return found[-1] if found else default

    def whole(self, name: str, default: int, least: int | None = None) -> int:
        """A whole number."""
        found = self.words(name)
        return self._whole(name, found[-1], least) if found else default

    def wholes(self, name: str) -> list[int]:
        """Whole numbers."""
        return [self._whole(name, text, None) for text in self.words(name)]

    def number(self, name: str, default: float) -> float:
        """Any number."""
        found = self.numbers(name)
        return found[-1] if found else default

    def numbers(self, name: str) -> list[float]:
        """Any numbers."""
        return [self._number(name, text) for text in self.words(name)]

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        text = self.word(name)
        if text in _YES or text in _NO:
            return text in _YES
        if text:
            raise self.wrong(f"{name}: {text} is neither true nor false")
        return default

    def wrong(self, text: str) -> ModelError:
        """An error that names the layer."""
        return ModelError(f"{self.where}: {text}" if self.where else text)

    def _whole(self, name: str, text: str, least: int | None) -> int:
        try:
            value = int(text, 0) if not text.lstrip("+-").startswith("0") or "x" in text else int(text)
        except ValueError:
            raise self.wrong(f"{name}: {text[:40]} is not a whole number") from None
        if abs(value) >= _LARGEST:
            raise self.wrong(f"{name}: {text[:40]} is too large")
        if least is not None and value < least:
            raise self.wrong(f"{name}: {value} is less than {least}")
        return value

    def _number(self, name: str, text: str) -> float:
        try:
            value = float(text.rstrip("fF")) if "x" not in text and text[-1:] in {"f", "F"} else float(text)
        except ValueError:
            raise self.wrong(f"{name}: {text[:40]} is not a number") from None
        if not math.isfinite(value):
            raise self.wrong(f"{name}: {text[:40]} is not a number that a network can have")
        return value
