"""Captions: segments cut into cues that fit on a screen, and the two files that players read.

A cue has at most two lines of 42 columns, the usual limit of broadcasters and streaming services; a wide character
(Chinese, Japanese, Korean) takes two columns. A cue ends where a sentence ends if it can. Where the times of words are
not known, the time of a segment is shared by the number of columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

COLUMNS = 42
LINES = 2
_SHORTEST = 0.001
"""Seconds. A cue has to end after it begins (WebVTT 4.1), whatever the times of its segment are."""
_SENTENCE = (".", "!", "?", "…", "。", "！", "？", "؟", "।")
_CLAUSE = (",", ";", ":", "、", "，", "–", "—")
_WIDE = "WF"


class Timed(Protocol):
    """A word with its times in seconds."""

    @property
    def start(self) -> float:
        """When it begins."""

    @property
    def end(self) -> float:
        """When it ends."""

    @property
    def text(self) -> str:
        """Its letters; spaces do not count."""


@dataclass(frozen=True, slots=True)
class Cue:
    """What is shown at a time."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str = ""


def cues(text: str, start: float, end: float, words: Sequence[Timed] = (), speaker: str = "") -> list[Cue]:
    """The cues of one segment; none if nothing is said in it. `words` are its words with their times, if known."""
    pieces = list(_pieces(text))
    if not pieces:
        return []
    end = max(end, start + _SHORTEST)
    times = _times(pieces, start, end, words)
    found = []
    for first, last in _groups([piece for piece, _ in pieces], [joint for _, joint in pieces]):
        begun, ended = times[first][0], times[last - 1][1]
        lines = _balanced(pieces[first:last])
        found.append(Cue(begun, max(ended, begun + _SHORTEST), lines, speaker))
    return found


def srt_text(made: Iterable[Cue]) -> str:
    """SubRip. It has no way to escape anything; what would end a cue early is replaced."""
    return "\n".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n"
        f"{_named(cue, 'srt')}{chr(10).join(line.replace('-->', '->') for line in cue.lines)}\n"
        for number, cue in enumerate(made, 1)
    )


def vtt_text(made: Iterable[Cue]) -> str:
    """WebVTT: `&`, `<` and `>` are written as character references (4.2.2), so text is never taken for a tag."""
    parts = (
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n"
        f"{_named(cue, 'vtt')}{chr(10).join(escaped(line) for line in cue.lines)}\n"
        for cue in made
    )
    return "\n".join(["WEBVTT\n", *parts])


def escaped(text: str) -> str:
    """For the text of a WebVTT cue."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def columns(text: str) -> int:
    """How wide it is on a screen; marks that combine with the character before take no room."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in _WIDE else 1 for one in text
    )


def _named(cue: Cue, form: str) -> str:
    if not cue.speaker:
        return ""
    name = " ".join(cue.speaker.split())
    return f"<v {escaped(name)}>" if form == "vtt" else f"{name}: "


# -- pieces ------------------------------------------------------------------------------------------------------


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """What lines are made of, and what joins each to the one before: words and a space; wide characters join bare."""
    # A control character in a file of text is nothing that a player shows; some end a line.
    clean = "".join(" " if unicodedata.category(one) in ("Cc", "Zl", "Zp") else one for one in text)
    for word in clean.split():
        joint, held, width = " ", "", 0
        for one in word:
            size = columns(one)
            is_break = held and size == 2 and not _is_closing(one)
            if is_break or width + size > COLUMNS:
                yield held, joint
                joint, held, width = "", "", 0
            held += one
            width += size
        if held:
            yield held, joint


def _is_closing(one: str) -> bool:
    """A full stop or a closing bracket does not begin a line."""
    return one in _SENTENCE or one in _CLAUSE or unicodedata.category(one) in ("Pe", "Pf")


def _joined(pieces: Sequence[tuple[str, str]]) -> str:
    return "".join((joint if at else "") + piece for at, (piece, joint) in enumerate(pieces))


def _groups(pieces: Sequence[str], joints: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Which pieces make a cue: as many as fit, or up to the end of a sentence (else a clause) in its second half."""
    first = 0
    while first < len(pieces):
        last = _fitting(pieces, joints, first)
        if last < len(pieces):
            middle = first + (last - first + 1) // 2
            for ends in (_SENTENCE, _CLAUSE):
                stop = next((at for at in range(last, middle, -1) if pieces[at - 1].endswith(ends)), None)
                if stop is not None:
                    last = stop
                    break
        yield first, last
        first = last


def _fitting(pieces: Sequence[str], joints: Sequence[str], first: int) -> int:
    """The end of what fits into the lines of one cue, from `first` on; at least one piece."""
    line, used, at = 1, 0, first
    while at < len(pieces):
        more = columns(pieces[at]) + (len(joints[at]) if used else 0)
        if used and used + more > COLUMNS:
            if line == LINES:
                break
            line, used = line + 1, columns(pieces[at])
        else:
            used += more
        at += 1
    return at


def _balanced(pieces: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """One line if it fits, else two that are as equal as they can be, the break behind punctuation where it may be."""
    whole = _joined(pieces)
    if columns(whole) <= COLUMNS:
        return (whole,)
    ways = []
    for at in range(1, len(pieces)):
        upper, lower = _joined(pieces[:at]), _joined(pieces[at:])
        if max(columns(upper), columns(lower)) <= COLUMNS:
            uneven = abs(columns(upper) - columns(lower))
            ways.append((uneven - (10 if upper.endswith(_SENTENCE + _CLAUSE) else 0), at, upper, lower))
    _, _, upper, lower = min(ways)
    return upper, lower


# -- times -------------------------------------------------------------------------------------------------------


def _times(
    pieces: Sequence[tuple[str, str]], start: float, end: float, words: Sequence[Timed]
) -> list[tuple[float, float]]:
    """Begin and end of each piece."""
    letters = [sum(not one.isspace() for one in piece) for piece, _ in pieces]
    if words and sum(sum(not one.isspace() for one in word.text) for word in words) == sum(letters):
        return _from_words(letters, words, start)
    sizes = [columns(piece) + 1 for piece, _ in pieces]
    total, done, found = sum(sizes), 0, []
    for size in sizes:
        found.append((start + (end - start) * done / total, start + (end - start) * (done + size) / total))
        done += size
    return found


def _from_words(letters: Sequence[int], words: Sequence[Timed], least: float) -> list[tuple[float, float]]:
    """By letters: the words of a model may be cut otherwise than at spaces, and have the same letters."""
    begins, ends = [], []
    for word in words:
        count = sum(not one.isspace() for one in word.text)
        for at in range(count):
            begins.append(word.start + (word.end - word.start) * at / count)
            ends.append(word.start + (word.end - word.start) * (at + 1) / count)
    found, at = [], 0
    for count in letters:
        begun = max(least, begins[at])
        least = max(begun, ends[at + count - 1])
        found.append((begun, least))
        at += count
    return found


def _clock(seconds: float, point: str) -> str:
    thousandths = max(0, round(seconds * 1000))
    minutes, rest = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
