"""The classification extension: the highest values of an output as texts "value:index:label"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError

__all__ = ["LABEL_BYTES", "Labelled", "top_classes"]

_MOST_ELEMENTS = 1_000_000
"""Of one output: more is no list of classes."""
LABEL_BYTES = 512
"""What one text takes at most, on its way to the client included."""
_MOST_LABEL = 128


@dataclass(frozen=True, slots=True)
class Labelled:
    """An output of type BYTES."""

    texts: tuple[str, ...]
    shape: tuple[int, ...]

    def raw(self) -> bytes:
        """As bytes: each text behind its length."""
        parts = [text.encode() for text in self.texts]
        return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def top_classes(array: Array, count: int, labels: Sequence[str] | None, *, batch: int, name: str) -> Labelled:
    """The `count` highest values of each item of a batch (of the whole output, where there is no batch)."""
    if array.size > _MOST_ELEMENTS:
        raise BadRequestError(f"output {name[:80]!r} has {array.size} elements; classes are at most {_MOST_ELEMENTS}")
    rows = array.reshape(len(array), -1) if batch > 1 and array.ndim else array.reshape(1, -1)
    count = min(count, rows.shape[1])
    texts = [text for row in rows for text in _texts(row, count, labels)]
    return Labelled(tuple(texts), (len(rows), count) if batch > 1 else (count,))


def _texts(row: Array, count: int, labels: Sequence[str] | None) -> list[str]:
    is_real = row.dtype.kind == "f"
    # What is not a number is nobody's best class.
    values = np.where(np.isnan(row), -math.inf, row) if is_real else row
    if count < len(values):
        least = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= least)
    else:
        places = np.arange(len(values))
    # Highest first; of equal ones the first. Sorting what stands in reverse keeps that, for unsigned numbers too.
    backwards = places[::-1]
    order = backwards[np.argsort(values[backwards], kind="stable")][::-1][:count]
    return [_text(row, int(place), labels, is_real=is_real) for place in order]


def _text(row: Array, place: int, labels: Sequence[str] | None, *, is_real: bool) -> str:
    value = f"{float(row[place]):f}" if is_real else str(int(row[place]))
    label = labels[place][:_MOST_LABEL] if labels is not None and place < len(labels) else ""
    return f"{value}:{place}:{label}" if label else f"{value}:{place}"
