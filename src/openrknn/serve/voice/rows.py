"""Segments on their way from a voice's process to the server: rows of JSON, and back with every value checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from openrknn.serve.errors import ModelFailedError
from openrknn.voice.results import Detection, Segment, Word

__all__ = ["TokenLog", "detections_of", "number_of", "row_of", "segments_of", "token_logs_of"]

TokenLog = tuple[bytes, float]
"""The text of a token (perhaps a part of a character), and the logarithm of its probability."""
_MOST_TEXT = 100_000


def row_of(one: Segment, token_bytes: Callable[[int], bytes] | None = None) -> dict[str, Any]:
    """What the server needs of a segment; `token_bytes` where somebody asks how sure each token is."""
    row: dict[str, Any] = {
        "index": int(one.index), "start": float(one.start), "end": float(one.end), "text": str(one.text),
        "final": bool(one.final), "confidence": float(one.confidence), "temperature": float(one.temperature),
        "language": str(one.language), "tokens": [int(token) for token in one.tokens],
        "words": [[float(word.start), float(word.end), str(word.text), float(word.probability)] for word in one.words],
        "avg_logprob": one.avg_logprob, "no_speech_prob": one.no_speech_prob,
    }  # fmt: skip
    if token_bytes is not None:
        pairs = zip(one.tokens, one.logs, strict=False)  # the end of the text may have one, too
        told = ((token_bytes(token), log) for token, log in pairs)
        row["logs"] = [[list(text), float(log)] for text, log in told if text]  # times and marks are no text
    return row


def segments_of(answer: dict[str, Any]) -> list[Segment]:
    """Checked: they come from a process that reads other people's files."""
    rows = answer.get("segments")
    if not isinstance(rows, list):
        raise ModelFailedError("the voice gave no text")
    try:
        return [_segment(row) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise ModelFailedError("the voice gave text in a form that cannot be") from None


def token_logs_of(answer: dict[str, Any]) -> list[list[TokenLog]]:
    """Of each segment of an answer."""
    try:
        return [[(bytes(text), number_of(log)) for text, log in row.get("logs", ())] for row in answer["segments"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ModelFailedError("the voice gave tokens in a form that cannot be") from None


def detections_of(answer: dict[str, Any]) -> list[Detection]:
    """Wake words, checked as segments are."""
    rows = answer.get("detections")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ModelFailedError("the voice gave no detections")
    return [Detection(str(word)[:200], number_of(time), number_of(score)) for word, time, score in rows]


def number_of(value: object) -> float:
    """A number that can be."""
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e12:
        return float(value)
    raise ModelFailedError("the voice gave a number that cannot be")


def _segment(row: dict[str, Any]) -> Segment:
    index, text, tokens = row["index"], row["text"], row["tokens"]
    if type(index) is not int or not isinstance(text, str) or len(text) > _MOST_TEXT:
        raise ValueError
    if not all(type(token) is int for token in tokens):
        raise TypeError
    words = tuple(Word(number_of(a), number_of(b), str(word), number_of(p)) for a, b, word, p in row["words"])
    return Segment(
        index, number_of(row["start"]), number_of(row["end"]), text, bool(row["final"]), number_of(row["confidence"]),
        tuple(tokens), words, str(row["language"])[:40], _maybe(row["avg_logprob"]), _maybe(row["no_speech_prob"]),
        number_of(row["temperature"]),
    )  # fmt: skip


def _maybe(value: object) -> float | None:
    return None if value is None else number_of(value)
