"""`Fields`: a JSON object from the network, read with types and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from openrknn.serve.errors import BadRequestError

__all__ = ["Fields"]

T = TypeVar("T")


class Fields:
    """What is missing or null is the default; what is there has to be right."""

    def __init__(self, words: Mapping[str, Any], where: str = "") -> None:
        self.words, self._where = words, where

    def raw(self, name: str) -> Any:
        """As it came."""
        return self.words.get(name)

    @overload
    def number(self, name: str, default: float, least: float, most: float) -> float: ...
    @overload
    def number(self, name: str, default: None, least: float, most: float) -> float | None: ...
    def number(self, name: str, default: float | None, least: float, most: float) -> float | None:
        """A number within bounds."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    @overload
    def integer(self, name: str, default: int, least: int, most: int) -> int: ...
    @overload
    def integer(self, name: str, default: None, least: int, most: int) -> int | None: ...
    def integer(self, name: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number within bounds."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A text or a list of some; none of them empty."""
        value = self.raw(name)
        some = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(some, list) or len(some) > most or not all(isinstance(one, str) and one for one in some):
            raise self.wrong(name, f"a text, or a list of up to {most}, none of them empty")
        return tuple(some)

    def inside(self, name: str) -> Fields:
        """An object; empty where there is none."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value or {}, f"{self._where}{name}.")

    def wrong(self, name: str, wanted: str) -> BadRequestError:
        """What to say about a field that is something else."""
        return BadRequestError(f"{self._where + name!r} has to be {wanted}, not {self.raw(name)!r:.80}")
