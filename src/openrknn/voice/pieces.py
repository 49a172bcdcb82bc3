"""Pieces of words, as tokens stand for them, to text and to words with times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from openrknn.voice.results import Word

_SPACE = "▁"
_JOIN = "@@"
"""Behind a piece of a word that goes on (Paraformer)."""


def is_tag(piece: str) -> bool:
    """<|en|>, <|HAPPY|>, <|withitn|>."""
    return piece.startswith("<|") and piece.endswith("|>")


def log_softmax(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Of each row."""
    shifted = rows.astype(np.float64) - rows.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def timed_words(rows: Iterable[tuple[str, float, float, float]]) -> tuple[Word, ...]:
    """Of (piece, start, end, probability). A piece with a leading ▁ begins a word, and so does a character of a script
    without spaces."""
    words: list[Word] = []
    for piece, start, end, sure in rows:
        if words and not piece.startswith(_SPACE) and not _is_alone(piece) and not _is_alone(words[-1].text[-1:]):
            last = words[-1]
            words[-1] = Word(last.start, end, last.text + piece, min(last.probability, sure))
        else:
            words.append(Word(start, end, piece.replace(_SPACE, " "), sure))
    return tuple(words)


def _is_alone(piece: str) -> bool:
    return bool(piece) and "\u2e80" <= piece[0] <= "\u9fff"


def spaced(pieces: Sequence[str]) -> list[str]:
    """Paraformer's pieces with ▁ where a word begins: between words of Latin letters, and between them and others."""
    found: list[str] = []
    is_open = False
    for at, piece in enumerate(pieces):
        before = pieces[at - 1] if at else ""
        goes_on = piece.endswith(_JOIN)
        text = piece.removesuffix(_JOIN)
        if piece.isascii():
            found.append(text if is_open else _SPACE + text)
            is_open = goes_on
        else:
            found.append(_SPACE + text if before.isascii() and before else text)
            is_open = False
    return found


def joined(pieces: Iterable[str]) -> str:
    """The text of pieces with ▁ for spaces."""
    return "".join(pieces).replace(_SPACE, " ").strip()
