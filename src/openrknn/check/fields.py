"""Reads the tables of `golden.toml`: types are checked, and an unknown key is an error with the nearest name.

A misspelt budget that is silently ignored would be a check that never fails.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.check.errors import GoldenError
from openrknn.names import meant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST = 4 << 20
"""Bytes of a golden.toml: numbers belong into other files."""
_MOST_KEYS = 100_000


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The tables of a file, and its text."""
    try:
        if path.stat().st_size > _LARGEST:
            raise GoldenError(f"larger than {_LARGEST >> 20} MiB; keep numbers in .npz files", path=str(path))
        text = path.read_text("utf-8")
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise GoldenError(f"not TOML: {error}", path=str(path), line=int(found[1]) if found else 0) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise GoldenError(f"not TOML: {error}", path=str(path)) from None
    except OSError as error:
        raise GoldenError(f"cannot be read: {error.strerror or error}", path=str(path)) from None


def near(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'budget'?", or which there are."""
    names = list(known)
    return meant(word, names) or f"; there are {', '.join(names)}"


def inside(folder: Path, name: str, path: str, line: int = 0) -> Path:
    """A file of the golden folder: a name from a stranger must not lead out of it."""
    word = Path(name)
    if not name or "\0" in name or word.is_absolute() or ".." in word.parts:
        raise GoldenError(f"{name!r:.80} is not a path inside the folder", path=path, line=line)
    return folder / word


class Fields:
    """One table; each key is asked for once, and `finish` refuses the rest."""

    def __init__(self, data: Any, path: str, text: str, name: str = "") -> None:
        if not isinstance(data, dict):
            raise GoldenError(f"[{name}] should be a table", path=path, line=_line(text, name))
        self._data: dict[str, Any] = data
        self._path, self._text, self.name = path, text, name
        self._known: list[str] = []

    def wrong(self, key: str, message: str) -> GoldenError:
        """An error at the line of a key."""
        where = f"[{self.name}] " if self.name else ""
        return GoldenError(f"{where}{message}", path=self._path, line=self.line(key))

    def line(self, key: str) -> int:
        """Where the key stands; 0 if that cannot be told."""
        return _line(self._text, self.name, key)

    def has(self, key: str) -> bool:
        return key in self._data

    def take(self, key: str) -> Any:
        """The value as it is, or None."""
        self._known.append(key)
        return self._data.get(key)

    def text(self, key: str, default: str = "", *, choices: Sequence[str] = ()) -> str:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, f"{key} should be a text, not {value!r:.60}")
        if choices and value not in choices:
            raise self.wrong(key, f"{key} = {value!r:.60} is not known{near(value, choices)}")
        return value

    def number(self, key: str, default: float | None = None, *, most: float = math.inf) -> float | None:
        """A number from 0 on."""
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            limit = "from 0 on" if most == math.inf else f"from 0 to {most:g}"
            raise self.wrong(key, f"{key} should be a number {limit}, not {value!r:.60}")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int | None:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, f"{key} should be a whole number from 0 on, not {value!r:.60}")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, f"{key} should be true or false, not {value!r:.60}")
        return value

    def table(self, key: str) -> Fields | None:
        value = self.take(key)
        return None if value is None else self._inner(value, key)

    def tables(self, key: str) -> list[Fields]:
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(key, f"{key} should be a list of tables ([[{key}]])")
        return [self._inner(entry, key) for entry in value]

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.wrong(key, f"{key} should be a list of texts, not {value!r:.60}")
        return tuple(value)

    def numbers(self, key: str) -> Mapping[str, float] | None:
        """A table of numbers from 0 on."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(key, f"{key} should be a table of numbers, not {value!r:.60}")
        inner = self._inner(value, key)
        found = {name: inner.number(name) for name in value}
        return {name: number for name, number in found.items() if number is not None}

    def finish(self) -> None:
        """Reject unknown keys."""
        for key in self._data:
            if key not in self._known:
                raise self.wrong(key, f"{key!r:.60} is not known here{near(key, self._known)}")

    def _inner(self, value: Any, key: str) -> Fields:
        return Fields(value, self._path, self._text, f"{self.name}.{key}" if self.name else key)


def _line(text: str, table: str, key: str = "") -> int:
    """The line of a key below the heading of its table, as far as that can be told from the text; for messages."""
    lines = text.splitlines()
    start = 0
    parts = table.split(".") if table else []
    while parts:  # an inline table stands on the line of its own key
        heading = re.compile(rf"\s*\[\[?\s*{re.escape('.'.join(parts))}\s*\]\]?")
        found = next((number for number, line in enumerate(lines) if heading.match(line)), None)
        if found is not None:
            start = found
            break
        key = key or parts[-1]
        parts.pop()
    if key:
        entry = re.compile(rf"""(?:^|[\s{{,."']){re.escape(key)}["']?\s*=""")
        for number in range(start, len(lines)):
            if entry.search(lines[number]):
                return number + 1
    return start + 1 if table and lines else 0
