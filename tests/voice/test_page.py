"""The page with the sound and the words."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from openrknn.pages.voice import Heard, render
from openrknn.pages.voice.score import row_seconds
from openrknn.voice import Audio, Detection, Segment, Transcript


class Counter(HTMLParser):
    """What is in a page, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _attributes: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(seconds: float, said: tuple[Segment, ...] = (), wakes: tuple[Detection, ...] = ()) -> str:
    """A page for a tone of that length."""
    audio = Audio.of(np.sin(np.arange(int(seconds * 8000)) / 9), 8000)
    chances = [(at / 32, 0.5) for at in range(int(seconds * 32))]
    return render(Heard("a.wav", audio, Transcript(said, seconds), chances, wakes, [("device", "software")]))


def counted(text: str) -> Counter:
    """Read it; fails where elements do not close."""
    counter = Counter()
    counter.feed(text)
    assert counter.open == []
    return counter


def test_rows_segments_and_wake_words() -> None:
    said = (Segment(0, 1, 3, "Ever tried"), Segment(1, 9, 12, "ever failed"))
    text = page(25, said, (Detection("hey_jarvis", 14, 0.9),))
    seen = counted(text).seen
    assert seen.count("svg") == 3
    assert seen.count("rect") == 3  # the second segment is in two rows
    assert text.count("hey_jarvis at 14.00 s") == 1
    assert "Ever tried ever failed" in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)


def test_a_segment_goes_on_in_the_next_row() -> None:
    text = page(20, (Segment(0, 0, 20, "one two three four five six seven eight nine ten"),))
    assert ">one two three" in text
    assert ">… six seven" in text


@pytest.mark.parametrize("seconds", [0, 0.01, 10, 3600])
def test_any_length(seconds: float) -> None:
    seen = counted(page(seconds)).seen
    assert 1 <= seen.count("svg") <= 61
    assert row_seconds(seconds) >= 10


def test_words_are_text_and_stay_text() -> None:
    text = page(2, (Segment(0, 0, 2, "<script>alert(1)</script>\u202e"),), (Detection("<b>", 1, 0.5),))
    assert "script" not in counted(text).seen
    assert "\u202e" not in text
