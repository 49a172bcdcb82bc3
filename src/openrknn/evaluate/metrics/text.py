"""Word and character errors: the least number of insertions, deletions and substitutions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["TextErrors", "edits", "read_errors", "spoken", "spoken_errors"]

_NOT_SPOKEN = re.compile(r"[^\w' ]+")
_LONGEST = 20_000
"""The table of edits grows with the square."""


@dataclass(frozen=True, slots=True)
class TextErrors:
    """One sample: errors, and how many words and characters there should be."""

    word_errors: int
    words: int
    character_errors: int
    characters: int


def edits(found: Sequence[str], expected: Sequence[str]) -> int:
    """The least number of changes that turn one into the other (Levenshtein)."""
    if len(found) > _LONGEST or len(expected) > _LONGEST:
        return int(list(found) != list(expected)) * max(len(found), len(expected))
    numbers: dict[str, int] = {}
    one, other = (np.array([numbers.setdefault(word, len(numbers)) for word in text], np.int64)
                  for text in (found, expected))  # fmt: skip
    steps = np.arange(len(other) + 1)
    row = steps.copy()
    for at, word in enumerate(one, 1):
        # Without insertions first; then each place takes the best of itself and of what lies before it plus one a step.
        best = np.minimum(row[1:] + 1, row[:-1] + (other != word))
        whole = np.concatenate([[at], best])
        row = np.minimum.accumulate(whole - steps) + steps
    return int(row[-1])


def spoken(text: str) -> list[str]:
    """The words in lower case, without punctuation."""
    return _NOT_SPOKEN.sub(" ", text.lower()).split()


def spoken_errors(found: str, expected: str) -> TextErrors:
    """For transcripts."""
    return _errors(spoken(found), spoken(expected))


def read_errors(found: str, expected: str) -> TextErrors:
    """For text in images: capitals and punctuation count, runs of blanks are one."""
    return _errors(found.split(), expected.split())


def _errors(found: list[str], expected: list[str]) -> TextErrors:
    one, other = " ".join(found), " ".join(expected)
    return TextErrors(edits(found, expected), len(expected), edits(one, other), len(other))
