"""Packed weights that the programs of one device share: in memory, and in the cache of programs.

Graphs of a model for one token and for many use the same weights. They are packed once, and stored once: what a program
found here when it was built is, in its file, a place in the file of the program that packed it. Nothing is kept alive
here; an array lives as long as a program has it.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from openrknn.records import dataclass

Packed = npt.NDArray[np.uint8]


Places = Mapping[str, Sequence[int]]
"""Name -> start and size in the section of a file."""


@dataclass(frozen=True)
class Home:
    """Where a file of the cache has packed weights."""

    key: str
    start: int


@dataclass(frozen=True)
class _Pack:
    owner: weakref.ref[Packed]
    start: int
    size: int
    home: Home | None


class Packs:
    """By name: of the constants, of where the weights are in them, and of how they are packed."""

    def __init__(self) -> None:
        self._packs: dict[str, _Pack] = {}

    def find(self, name: str) -> Packed | None:
        """The array, if a program has it."""
        pack = self._packs.get(name)
        owner = pack.owner() if pack is not None else None
        if pack is None or owner is None:
            return None
        return owner if pack.size == owner.nbytes else owner[pack.start : pack.start + pack.size]

    def add(self, name: str, packed: Packed) -> None:
        """What was packed just now."""
        self._packs[name] = _Pack(weakref.ref(packed), 0, packed.nbytes, None)

    def found(self, key: str, data: Packed, places: Places) -> None:
        """A file of the cache is in memory, and `data` is what it has."""
        for start, size in places.values():
            if not 0 <= start <= data.nbytes - size or size < 0:
                raise ValueError("packed weights that are not within their file")
        for name, (start, size) in places.items():
            if self.find(name) is None:
                self._packs[name] = _Pack(weakref.ref(data), start, size, Home(key, start))

    def written(self, key: str, places: Places) -> None:
        """What was packed here is in a file now."""
        for name, (start, _) in places.items():
            if name in self._packs:
                self._packs[name] = replace(self._packs[name], home=Home(key, start))

    def by_address(self) -> dict[int, tuple[str, Home | None]]:
        """Names and files of what is alive, by where it begins in memory."""
        alive = {name: packed for name in self._packs if (packed := self.find(name)) is not None}
        self._packs = {name: self._packs[name] for name in alive}
        return {int(packed.ctypes.data): (name, self._packs[name].home) for name, packed in alive.items()}


def pack_name(constants: bytes, how: object) -> str:
    """`constants`: a digest of all constants; `how`: everything else that packed weights depend on."""
    return hashlib.sha256(constants + repr(how).encode()).hexdigest()
