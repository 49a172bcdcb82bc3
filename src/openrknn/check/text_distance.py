"""Texts against texts: how many words or characters have to be put in, left out or replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openrknn.quantities import count_of

__all__ = ["edits", "judge_text", "judge_transcript", "spoken"]

_NOT_SPOKEN = re.compile(r"[^\w' ]+")
_LONGEST = 20_000
"""The table of edits grows with the square."""


def edits(found: Sequence[str], expected: Sequence[str]) -> int:
    """The least number of changes that turn one into the other."""
    if len(found) > _LONGEST or len(expected) > _LONGEST:
        return int(list(found) != list(expected)) * max(len(found), len(expected))
    row = list(range(len(expected) + 1))
    for at, word in enumerate(found, 1):
        before, row[0] = row[0], at
        for number, other in enumerate(expected, 1):
            before, row[number] = row[number], min(row[number] + 1, row[number - 1] + 1, before + (word != other))
    return row[-1]


def spoken(text: str) -> list[str]:
    """The words without capitals and punctuation, which nobody hears."""
    return _NOT_SPOKEN.sub(" ", text.lower()).split()


def judge_transcript(found: str, expected: str, allowed: float) -> tuple[list[str], str]:
    """What is wrong, and what was measured."""
    wrong, of = edits(spoken(found), spoken(expected)), len(spoken(expected))
    return _judge(wrong / max(of, 1), allowed, f"{wrong} of {count_of(of, 'word')} wrong", (found, expected))


def judge_text(found: str, expected: str, allowed: float) -> tuple[list[str], str]:
    """`judge_transcript` for text in a picture; blanks at the ends of lines do not count."""
    one, other = ("\n".join(line.strip() for line in text.strip().splitlines()) for text in (found, expected))
    wrong, of = edits(one, other), len(other)
    return _judge(wrong / max(of, 1), allowed, f"{wrong} of {count_of(of, 'character')} wrong", (one, other))


def _judge(rate: float, allowed: float, words: str, texts: tuple[str, str]) -> tuple[list[str], str]:
    text = f"{words} ({100 * rate:.1f} %)"
    if rate <= allowed:
        return [], text
    return [f"{text}; {100 * allowed:g} % allowed: {texts[0]!r:.200} instead of {texts[1]!r:.200}"], text
