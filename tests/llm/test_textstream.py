from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrknn.llm.generation.textstream import TextStream


def test_characters_and_stops_across_tokens() -> None:
    stream = TextStream(["STOP", "\n\n"])
    assert stream.feed("caf\u00e9".encode()[:-1]) == "caf"
    assert stream.feed("\u00e9".encode()[-1:]) == "\u00e9"
    assert stream.feed(b" S") == " "
    assert stream.feed(b"TO") == ""
    assert stream.feed(b"Ry S") == "STORy "
    assert stream.feed(b"TOPPED") == ""
    assert stream.stopped == "STOP"
    assert stream.feed(b"more") == ""
    assert stream.finish() == ""


def test_the_first_stop_wins_and_the_rest_is_told_at_the_end() -> None:
    stream = TextStream(["b", "ab"])
    assert stream.feed(b"xab") == "x"
    assert stream.stopped == "ab"
    stream = TextStream(["END"])
    assert stream.feed(b"the EN") == "the "
    assert stream.finish() == "EN"
    assert TextStream().feed(b"\xff") == "\ufffd"
    half = TextStream()
    assert half.feed("\u00e9".encode()[:1]) + half.finish() == "\ufffd"
    with pytest.raises(ValueError, match="not empty"):
        TextStream([""])


@given(st.text("abc\u00e9", max_size=40), st.lists(st.text("abc\u00e9", min_size=1, max_size=4), max_size=3), st.data())
def test_however_it_is_cut_the_text_ends_before_a_stop(text: str, stops: list[str], data: st.DataObject) -> None:
    places = [at for stop in stops if (at := text.find(stop)) >= 0]
    stream, told, raw = TextStream(stops), "", text.encode()
    while raw:
        size = data.draw(st.integers(1, 3))
        told, raw = told + stream.feed(raw[:size]), raw[size:]
        # What is told is never taken back.
        assert text.startswith(told)
    told += stream.finish()
    if not places:
        assert told == text
        assert stream.stopped is None
    else:
        # A stop that ends earlier is seen earlier, wherever others would have begun.
        ends = min(text.find(stop) + len(stop) for stop in stops if stop in text)
        assert stream.stopped in stops
        assert len(told) + len(stream.stopped or "") >= ends
        assert text.startswith(told + (stream.stopped or ""))
