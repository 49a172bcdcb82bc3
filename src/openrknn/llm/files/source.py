"""Canonical weights out of the tensors of a file: renamed, cut out of fused tensors, put in order, when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from openrknn.errors import BadTensorError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.errors import MissingTensorError, UnsupportedArchitectureError
from openrknn.llm.files.types import Indices, StoredTensor
from openrknn.llm.weights import Floats

MOST_LAYERS = 1024


@dataclass(frozen=True)
class Piece:
    """Rows of a tensor in the file that are one canonical weight."""

    tensor: StoredTensor
    first: int
    count: int
    paired: int = 0
    """Rows of a head that are stored in pairs of the two rotary halves; 0: they are in order."""
    added: float = 0.0

    def rows(self, first: int, count: int) -> Floats:
        where: Indices = slice(self.first + first, self.first + first + count)
        if self.paired:
            head, row = np.divmod(np.arange(first, first + count), self.paired)
            half, pair = np.divmod(row, self.paired // 2)
            where = self.first + head * self.paired + 2 * pair + half
        found = self.tensor.floats(where)
        return found + np.float32(self.added) if self.added else found


class FileSource:
    """A `WeightSource` on mapped files."""

    def __init__(self, path: Path, config: LanguageConfig, pieces: Mapping[str, Piece]) -> None:
        self.path = path
        self._config = config
        self._pieces = dict(pieces)

    @property
    def config(self) -> LanguageConfig:
        return self._config

    def names(self) -> Iterable[str]:
        return tuple(self._pieces)

    def formats(self) -> Mapping[str, str]:
        """Canonical name -> the number format in the file (F16, Q4_K, ...)."""
        return {name: piece.tensor.form.name for name, piece in self._pieces.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Of `get(name)`, without reading it."""
        piece = self._pieces[name]
        return (piece.count, *piece.tensor.shape[1:])

    def get(self, name: str) -> Floats:
        return self.rows(name, 0, self._pieces[name].count)

    def rows(self, name: str, first: int, count: int) -> Floats:
        piece = self._pieces[name]
        if min(first, count) < 0 or first + count > piece.count:
            raise IndexError(f"{name} has {piece.count} rows, not rows {first} to {first + count}")
        return piece.rows(first, count)


@dataclass
class Gatherer:
    """Takes tensors from a file's table by name, checks their shapes, and lists those that were not used."""

    tensors: Mapping[str, StoredTensor]
    pieces: dict[str, Piece] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        return name in self.tensors

    def take(self, canonical: str, name: str, shape: tuple[int, ...], *, added: float = 0.0) -> None:
        """The whole tensor `name` is the weight `canonical` of this shape."""
        self.cut(name, [(canonical, shape[0], 0)], shape[1:], added=added)

    def cut(
        self,
        name: str,
        parts: list[tuple[str, int, int]],
        rest: tuple[int, ...],
        *,
        added: float = 0.0,
        optional: bool = False,
    ) -> None:
        """The tensor `name` has several weights one below the other: (canonical name, rows, rows of a paired head)."""
        tensor = self.tensors.get(name)
        if tensor is None:
            if optional:
                return
            raise MissingTensorError(f"the tensor {name!r} ({', '.join(part[0] for part in parts)}) is not in the file")
        shape = (sum(rows for _, rows, _ in parts), *rest)
        if tensor.shape != shape:
            raise BadTensorError(
                f"it has the shape {list(tensor.shape)}, and the model's sizes need {list(shape)}",
                section=f"tensor {name!r}",
            )
        first = 0
        for canonical, rows, paired in parts:
            self.pieces[canonical] = Piece(tensor, first, rows, paired, added)
            first += rows
        self.taken.add(name)

    def finish(self, architecture: str, ignored: tuple[str, ...]) -> dict[str, Piece]:
        """All pieces, if nothing is left in the file but names that begin or end with one of `ignored`."""
        left = [n for n in self.tensors if n not in self.taken and not (n.startswith(ignored) or n.endswith(ignored))]
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            raise UnsupportedArchitectureError(
                f"the file has tensors that a {architecture} model does not have: {', '.join(left[:3])}{more}; "
                "the model would be computed without them"
            )
        return self.pieces
