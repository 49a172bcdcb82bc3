"""Captions: what fits on a screen, the times of its parts, and text that is no markup."""

from __future__ import annotations

import html
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from openrknn.voice.captions import COLUMNS, LINES, Cue, columns, cues, escaped, srt_text, vtt_text
from openrknn.voice.results import Word

LONG = (
    "Ever tried, ever failed, no matter. Try again, fail again, fail better! It was the best of times, it was the "
    "worst of times, it was the age of wisdom, it was the age of foolishness, it was the epoch of belief."
)
TAG = re.compile(r"<[^>]*>")


def test_a_long_segment_becomes_cues_of_two_lines_of_42_columns() -> None:
    made = cues(LONG, 10.0, 22.0)
    assert " ".join(line for cue in made for line in cue.lines) == LONG
    assert [len(cue.lines) for cue in made] == [2, 2, 2]
    assert max(len(line) for cue in made for line in cue.lines) <= 42
    # A cue ends with a sentence where one ends in its second half.
    assert made[0].lines[-1].endswith("better!")
    assert (made[0].start, made[-1].end) == (10.0, 22.0)
    assert all(one.end == other.start for one, other in pairwise(made))


def test_the_lines_of_a_cue_are_balanced() -> None:
    assert cues("one two three four five six seven eight nine ten", 0, 1)[0].lines == (
        "one two three four five",
        "six seven eight nine ten",
    )


def test_known_times_of_words_are_used() -> None:
    words = [Word(at, at + 0.5, f" {word}") for at, word in enumerate(LONG.split())]
    made = cues(LONG, 0.0, 99.0, words)
    count = len(" ".join(made[0].lines).split())
    assert made[0].end == count - 0.5
    assert made[1].start == count
    # Words that are not those of the text say nothing about it.
    assert cues(LONG, 0.0, 99.0, words[:-1])[-1].end == 99.0


def test_text_without_spaces() -> None:
    chinese = "今天天气很好，我们去公园散步。" * 5
    made = cues(chinese, 0, 10)
    assert "".join(line for cue in made for line in cue.lines) == chinese
    assert all(columns(line) <= 42 for cue in made for line in cue.lines)
    assert not any(line.startswith(("，", "。")) for cue in made for line in cue.lines)
    assert max(len(line) for cue in cues("x" * 100, 0, 1) for line in cue.lines) == 42


def test_vtt_has_character_references_and_voices() -> None:
    made = [Cue(0, 1, ("a < b && c --> d", "<i>not italic</i>"), "Ann & <Bob>"), Cue(1, 2, ("WEBVTT",))]
    assert vtt_text(made) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n<v Ann &amp; &lt;Bob&gt;>a &lt; b &amp;&amp; c --&gt; d\n"
        "&lt;i&gt;not italic&lt;/i&gt;\n\n00:00:01.000 --> 00:00:02.000\nWEBVTT\n"
    )
    assert srt_text(made).startswith("1\n00:00:00,000 --> 00:00:01,000\nAnn & <Bob>: a < b && c -> d\n<i>not")


@given(st.text(max_size=400), st.floats(-5, 1e5), st.floats(-5, 1e5))
def test_any_text_fits_and_keeps_its_characters(text: str, start: float, end: float) -> None:
    made = cues(text, start, end)
    assert all(1 <= len(cue.lines) <= LINES for cue in made)
    assert all(columns(line) + len(line) > 0 and columns(line) <= COLUMNS for cue in made for line in cue.lines)
    assert all(cue.start < cue.end for cue in made)
    assert all(one.start <= other.start for one, other in pairwise(made))
    shown = "".join(line for cue in made for line in cue.lines)
    visible = [one for one in text if not one.isspace() and one.isprintable()]
    assert [one for one in shown if not one.isspace() and one.isprintable()] == visible
    for cue in made:
        payload = "\n".join(escaped(line) for line in cue.lines)
        assert not TAG.search(payload)
        assert html.unescape(payload.replace("&amp;", "&amp;")) == "\n".join(cue.lines) or "&" in shown
