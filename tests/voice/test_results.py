"""Transcripts in the formats of the field."""

import re

from hypothesis import given
from hypothesis import strategies as st

from openrknn.voice import Segment, Transcript
from openrknn.voice.captions import cues

CUE = re.compile(r"(\d\d+):(\d\d):(\d\d)[,.](\d\d\d) --> (\d\d+):(\d\d):(\d\d)[,.](\d\d\d)")
times = st.floats(0, 360_000, allow_nan=False)
segments = st.builds(Segment, st.integers(0, 9), times, times, st.text(max_size=60))


def test_subtitles() -> None:
    found = Transcript((Segment(0, 0.25, 1.5, " Ever tried,"), Segment(1, 3599.9996, 3601, "ever failed.")), 3601)
    assert found.text == "Ever tried, ever failed."
    assert found.srt() == (
        "1\n00:00:00,250 --> 00:00:01,500\nEver tried,\n\n2\n01:00:00,000 --> 01:00:01,000\never failed.\n"
    )
    assert found.vtt().startswith("WEBVTT\n\n00:00:00.250 --> 00:00:01.500\nEver tried,\n")


@given(st.lists(segments, max_size=6))
def test_a_text_can_neither_end_its_cue_nor_begin_another(said: list[Segment]) -> None:
    found = Transcript(tuple(said), 1.0)
    expected = [cue for part in said for cue in cues(part.text, part.start, part.end)]
    for text in (found.srt(), found.vtt()):
        times = CUE.findall(text)
        assert len(times) == len(expected) == text.count("-->")
        for time, cue in zip(times, expected, strict=True):
            hours, minutes, seconds, thousandths = map(int, time[:4])
            assert minutes < 60
            assert seconds < 60
            assert abs(hours * 3600 + minutes * 60 + seconds + thousandths / 1000 - cue.start) <= 0.000501
    blocks = found.srt().strip().split("\n\n") if expected else []
    assert len(blocks) == len(expected)
