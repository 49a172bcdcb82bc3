"""What is found in an item, as columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openrknn.ray.items import Array

if TYPE_CHECKING:
    from openrknn.vision import Result
    from openrknn.voice import Transcript

__all__ = ["of_outputs", "of_result", "of_transcript"]

_FIRST = {"classify": ("class", "label", "probability"), "read": ("text", "score")}
"""Tasks with one answer: it has columns of its own."""


def of_result(result: Result, top: int) -> dict[str, Any]:
    """classify: class, label, probability and the list `top`; read: text, score; else the list `found`."""
    assert result.pixels is not None  # the others are errors
    rows = list(result.rows(top))
    names = _FIRST.get(result.task)
    columns: dict[str, Any] = {"width": result.pixels.shape[1], "height": result.pixels.shape[0]}
    if names is None:
        return {**columns, "count": len(rows), "found": rows}
    best = rows[0] if rows else {}
    columns |= {name: best.get(name) for name in names}
    return {**columns, "top": rows} if result.task == "classify" and top > 1 else columns


def of_outputs(outputs: Mapping[str, Array], row: int | None = None) -> dict[str, Any]:
    """The numbers of each output, as lists of lists; `row` of a batch."""
    return {name: (values if row is None else values[row]).tolist() for name, values in outputs.items()}


def of_transcript(transcript: Transcript) -> dict[str, Any]:
    """text, language, seconds and the list `segments`."""
    words = transcript.as_json()
    return {name: words[name] for name in ("text", "language", "seconds", "segments")}
