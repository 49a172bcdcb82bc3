"""`Items`: what a job is about, in an order that stays, each with a key of its own."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.pictures import SUFFIXES as PICTURES
from openrknn.ray.errors import ItemsError

__all__ = ["AUDIO", "Array", "Items", "Work", "items_of"]

Array = npt.NDArray[Any]
AUDIO = (".wav", ".flac", ".ogg", ".mp3", ".m4a", ".opus")
_ENDINGS = {"picture": PICTURES, "audio": AUDIO}


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker gets: one part of the items."""

    part: int
    kind: str
    """picture, audio or array."""
    keys: Sequence[str]
    content: Sequence[bytes] | None = None
    """Of files that workers cannot read themselves."""
    arrays: Mapping[str, Array] | None = None
    """Rows of the arrays, by the names of inputs; one without a name is the first input."""
    base: str = ""
    """The folder that relative paths begin in."""

    def path(self, at: int) -> str:
        """The file of an item."""
        return os.path.join(self.base, self.keys[at])

    def one(self, at: int) -> Work:
        """A part of one item."""
        arrays = None if self.arrays is None else {name: rows[at : at + 1] for name, rows in self.arrays.items()}
        content = None if self.content is None else [self.content[at]]
        return Work(self.part, self.kind, [self.keys[at]], content, arrays, self.base)


@dataclass(frozen=True, slots=True)
class Items:
    """All of them."""

    kind: str
    keys: Sequence[str]
    marks: Sequence[str]
    """What tells that an item is another one than before: size and time of a file; empty for arrays."""
    arrays: Mapping[str, Array] | None = field(default=None, repr=False)
    repeated: int = 0
    """Paths that were given more than once; they count once."""

    def __len__(self) -> int:
        return len(self.keys)

    def digest(self) -> str:
        """One word for all of them, with the order."""
        whole = hashlib.sha256(self.kind.encode())
        for key, mark in zip(self.keys, self.marks, strict=True):
            whole.update(f"\0{key}\0{mark}".encode("utf-8", "surrogateescape"))
        for name, rows in (self.arrays or {}).items():
            whole.update(f"\0{name}\0{rows.dtype.str}\0{rows.shape}".encode())
            for row in rows:
                whole.update(np.ascontiguousarray(row).tobytes())
        return whole.hexdigest()

    def work(self, part: int, size: int, *, ship: bool = False) -> Work:
        """The part of this number; `ship`: with the bytes of its files."""
        rows = slice(part * size, (part + 1) * size)
        keys = self.keys[rows]
        if self.arrays is not None:
            return Work(part, self.kind, keys, arrays={name: values[rows] for name, values in self.arrays.items()})
        return Work(part, self.kind, keys, content=[_bytes(key) for key in keys] if ship else None, base=os.getcwd())


def items_of(source: object, kind: str = "picture") -> Items:
    """A folder, a pattern, a file, a list of them; an array or a dict of arrays (rows are items); a Ray dataset.

    Of a Ray dataset the column `path` counts.
    """
    if isinstance(source, np.ndarray):
        source = {"": source}
    if isinstance(source, Mapping):
        return _arrays({str(name): np.asarray(rows) for name, rows in source.items()})
    if hasattr(source, "select_columns") and hasattr(source, "iter_rows"):
        source = [row["path"] for row in source.select_columns(["path"]).iter_rows()]
    words = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(words, Iterable):
        raise TypeError(f"a {type(source).__name__} names no items; give paths, arrays or a Ray dataset")
    if kind not in _ENDINGS:
        raise ItemsError(f"there are no items of kind {kind!r}; there are picture and audio, and arrays")
    if isinstance(source, str | os.PathLike) and not os.path.exists(source) and not glob.has_magic(os.fspath(source)):
        raise ItemsError(f"{os.fspath(source)}: there is no such file or folder")
    found = [path for word in words for path in _paths(os.fspath(word), _ENDINGS[kind])]
    unique = list(dict.fromkeys(found))
    if not unique:
        raise ItemsError("there is nothing to do: no items were given")
    return Items(kind, unique, [_mark(path) for path in unique], repeated=len(found) - len(unique))


def _arrays(arrays: dict[str, Array]) -> Items:
    counts = {name: len(rows) if rows.ndim else 0 for name, rows in arrays.items()}
    if not counts or min(counts.values()) == 0:
        raise ItemsError("there is nothing to do: an array without rows")
    if len(set(counts.values())) > 1:
        raise ItemsError(f"the arrays have different numbers of rows: {counts}")
    count = next(iter(counts.values()))
    return Items("array", [str(number) for number in range(count)], [""] * count, arrays)


def _paths(word: str, endings: Sequence[str]) -> list[str]:
    if os.path.isdir(word):
        # A folder of millions is walked once, in an order that does not depend on the disk.
        inside = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(word)
            for name in names
            if name.lower().endswith(tuple(endings)) and not name.startswith(".")
        )
        if not inside:
            raise ItemsError(f"{word}: there is no file in this folder with an ending of {' '.join(endings)}")
        return inside
    if not os.path.exists(word) and glob.has_magic(word):
        matching = sorted(path for path in glob.glob(word, recursive=True) if os.path.isfile(path))
        if not matching:
            raise ItemsError(f"{word}: no file has a name like this")
        return matching
    return [word]  # one that is not there becomes a row with the reason


def _mark(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return "missing"
    return f"{found.st_size} {found.st_mtime_ns}"


def _bytes(path: str) -> bytes:
    """Empty where it cannot be read: the worker then reports it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
