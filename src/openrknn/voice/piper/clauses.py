"""Text cut where a voice breathes, as espeak-ng cuts it: that is how the voices were trained."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Clause", "clauses_of"]

_MARKS = dict(zip("。．！？，、；：؟،؛।", "..!?,,;:?,;.", strict=True))
"""Other scripts' marks, as phoneme maps have them."""
_CLOSERS = "\"'”’»)]}›"
_END = re.compile(
    rf"(?P<mark>\.{{2,}}|…|[.!?,;:]+(?=[{re.escape(_CLOSERS)}]*(?:\s|$))|[{''.join(_MARKS)}])"
    rf"[{re.escape(_CLOSERS)}]*|\n\s*\n"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """Some words, and how they end: one of `.!?,;:` or nothing."""

    text: str
    mark: str
    is_last: bool
    """Of its sentence."""


def clauses_of(text: str) -> list[Clause]:
    """Clauses of all sentences, in order; what holds nothing that can be said is left out."""
    found: list[Clause] = []
    start = 0
    for match in _END.finditer(text):
        raw = match["mark"]
        if raw is not None and raw == "." and _goes_on(text, match.end()):
            continue
        mark = _mark(raw)
        end = match.start() if raw is None else match.end()
        _add(found, text[start:end], mark, is_last=raw is None or mark in {".", "!", "?"})
        start = match.end()
    _add(found, text[start:], "", is_last=True)
    return found


def _goes_on(text: str, place: int) -> bool:
    """A dot before a small letter is an abbreviation's: `e.g. this`."""
    rest = text[place:].lstrip(" \t\n")
    return bool(rest) and rest[0].islower()


def _mark(raw: str | None) -> str:
    if raw is None or raw == "…" or raw.startswith(".."):
        return ""
    return _MARKS.get(raw[0], raw[0])


def _add(found: list[Clause], text: str, mark: str, *, is_last: bool) -> None:
    said = " ".join(text.split())
    if any(letter.isalnum() for letter in said):
        found.append(Clause(said, mark, is_last))
    elif found and is_last and not found[-1].is_last:
        found[-1] = Clause(found[-1].text, found[-1].mark or mark, is_last=True)
