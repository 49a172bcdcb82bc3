"""Text while it is spoken, with a listener that says how much it heard: times, clicks, cuts and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Audio, AudioError, Segment, Transcriber, VoiceSetError
from openrknn.voice.decoding import Found, most_tokens, search
from openrknn.voice.segments import LoudnessActivity, Rules, Segmenter
from openrknn.voice.spans import FRAME
from openrknn.voice.stream import Heard, TranscriptStream
from openrknn.voice.tokens import END

Array = npt.NDArray[np.float32]
RATE = 16_000


class Counting:
    """Says how many tenths of a second it was given."""

    rate = RATE
    longest = 15.0

    def __init__(self) -> None:
        self.calls: list[int] = []

    def hear(self, samples: Array, options: object = None) -> Heard:
        self.calls.append(len(samples))
        return Heard(f"{len(samples) / RATE:.1f}", (5,), 0.5)

    def close(self) -> None:
        """Nothing to give back."""


def speech(*parts: float) -> Array:
    """Seconds of noise and of silence in turn, silence first."""
    random = np.random.default_rng(0)
    made = []
    for number, seconds in enumerate(parts):
        count = round(RATE * seconds)
        # Syllables: loudness that is the same for long is no speech.
        swell = np.where(np.arange(count) % (RATE // 4) < RATE // 4 - 2 * FRAME, 1.0, 0.001)
        made.append(random.uniform(-0.3, 0.3, count) * swell * (number % 2))
    return np.concatenate(made).astype(np.float32)


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Transcriber:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path_factory.mktemp("voices")))  # none there: loudness decides
    return Transcriber(Counting())


def through(listen: Transcriber, samples: Array, size: int, partial: float = 0.25) -> list[tuple[float, Segment]]:
    """Segments with the seconds that were fed before they came."""
    stream = listen.stream(partial=partial)
    found = []
    for at in range(0, len(samples), size):
        for segment in stream.feed(samples[at : at + size]):
            found.append((min(at + size, len(samples)) / RATE, segment))
    return found + [(len(samples) / RATE, segment) for segment in stream.finish()]


def test_the_first_partial_comes_within_300_ms_of_speech(listen: Transcriber) -> None:
    found = through(listen, speech(1.0, 2.0, 1.0), size=320)
    first_time, first = found[0]
    assert not first.final
    assert 1.0 < first_time <= 1.3
    partials = [time for time, segment in found if not segment.final]
    assert len(partials) >= 6
    assert max(np.diff(partials)) < 0.3


def test_segments_have_the_times_of_the_speech(listen: Transcriber) -> None:
    found = listen(Audio(speech(1.0, 2.0, 1.5, 1.0, 2.0), RATE))
    assert [(round(part.start, 1), round(part.end, 1)) for part in found.segments] == [(0.8, 3.1), (4.3, 5.6)]
    assert [part.index for part in found.segments] == [0, 1]
    assert found.seconds == pytest.approx(7.5)


@pytest.mark.parametrize("size", [1, 77, 512, 5000, 10**6])
def test_how_the_sound_is_cut_into_blocks_changes_nothing(listen: Transcriber, size: int) -> None:
    sound = speech(0.3, 0.5, 0.7, 0.4, 0.1)[: 3200 if size == 1 else None]
    finals = [segment for _, segment in through(listen, sound, size, partial=0)]
    assert finals == [segment for _, segment in through(listen, sound, 512, partial=0)]


def test_a_pause_shorter_than_the_rules_does_not_cut(listen: Transcriber) -> None:
    assert len(listen(Audio(speech(0.5, 1.0, 0.4, 1.0, 1.0), RATE)).segments) == 1


def test_a_click_is_no_segment_and_takes_its_partial_back(listen: Transcriber) -> None:
    found = [segment for _, segment in through(listen, speech(1.0, 0.15, 1.5, 1.0, 1.0), size=160, partial=0.1)]
    clicks = [segment for segment in found if segment.index == 0]
    assert clicks[-1].final
    assert clicks[-1].text == ""
    assert any(segment.index == 1 and segment.final and segment.text for segment in found)
    assert [part.index for part in listen(Audio(speech(1.0, 0.1, 1.5, 1.0, 1.0), RATE)).segments] == [0]


def test_silence_is_an_empty_transcript(listen: Transcriber) -> None:
    found = listen(np.zeros(3 * RATE, np.int16), RATE)
    assert (found.text, found.segments, found.seconds) == ("", (), 3.0)
    assert found.srt() == ""
    assert listen(np.zeros(0, np.float32), RATE).seconds == 0


def test_long_speech_is_cut_at_the_longest_window_and_nothing_is_lost(listen: Transcriber) -> None:
    found = listen(Audio(speech(0.5, 40.0, 1.0), RATE))
    assert all(part.end - part.start <= 15.0 for part in found.segments)
    for before, after in zip(found.segments, found.segments[1:], strict=False):
        assert after.start - before.end <= FRAME / RATE
    assert found.segments[-1].end == pytest.approx(40.7, abs=0.1)


def test_without_segments_the_clock_cuts() -> None:
    with Transcriber(Counting(), activity=None) as listen:
        found = listen(Audio(speech(0.0, 32.0), RATE))
    assert [part.text for part in found.segments] == ["15.0", "15.0", "2.0"]


def test_an_hour_needs_no_more_memory_than_a_minute(listen: Transcriber) -> None:
    def fed(minutes: int) -> int:
        block = speech(2.0, 8.0)
        stream = listen.stream(partial=0)
        tracemalloc.start()
        for _ in range(6 * minutes):
            stream.feed(block)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(stream, TranscriptStream)
        assert len(stream._kept) <= 16 * RATE
        return kept

    assert fed(2) < fed(1) + 200_000  # a second of sound is 64000 bytes


def test_streams_end_once_and_transcribers_close(listen: Transcriber) -> None:
    stream = listen.stream()
    stream.feed(speech(0.2, 1.0))
    assert stream.finish()
    assert stream.finish() == []
    with pytest.raises(AudioError, match="finished"):
        stream.feed(np.zeros(10))
    with pytest.raises(AudioError, match="not finite"):
        listen.stream().feed(np.array([0.0, np.nan]))
    listen.close()
    listen.close()
    with pytest.raises(VoiceSetError, match="closed"):
        listen.stream()


def test_what_is_no_sound_is_named(listen: Transcriber) -> None:
    with pytest.raises(AudioError, match="an array needs its rate"):
        listen(np.zeros(10))
    with pytest.raises(AudioError, match="int is no sound"):
        listen(3)  # type: ignore[arg-type]
    with pytest.raises(VoiceSetError, match="beam of 0"):
        Transcriber(Counting(), beam=0)
    with pytest.raises(VoiceSetError, match="openrknn voice get moonshine-tiny"):
        Transcriber()


def test_other_rates_are_brought_to_the_models(listen: Transcriber) -> None:
    stereo = np.stack([speech(1.0, 2.0, 1.0)] * 2, axis=1)
    assert len(listen(np.repeat(stereo, 3, axis=0), 48_000).segments) == 1


def test_a_gate_takes_a_hum_for_silence_after_a_while() -> None:
    gate = LoudnessActivity()
    hum = np.sin(np.arange(20 * RATE) / 50) * 0.02
    told = gate.feed(hum.astype(np.float32))
    assert told[:5] == [1.0] * 5
    assert sum(told[-50:]) == 0


def test_a_cut_is_made_where_speech_is_least_likely() -> None:
    segmenter = Segmenter(Rules(longest=3.2))
    chances = [0.9] * 80 + [0.36] + [0.9] * 60
    over = [part for chance in chances for part in segmenter.feed(chance)]
    assert over[0].end == 81 * FRAME


class Chain:
    """A decoder whose next token follows from the last one only."""

    def __init__(self, table: dict[int, list[float]]) -> None:
        self.table = table

    def begin(self, beams: int) -> None:
        """Nothing to forget."""

    def step(self, tokens: list[int]) -> Array:
        rows = np.array([self.table[token] for token in tokens], np.float32)
        return np.asarray(np.log(rows + np.float32(1e-9)), np.float32)

    def reorder(self, order: list[int]) -> None:
        """Nothing to move."""


def test_a_beam_finds_what_greedy_misses() -> None:
    # 3 looks better than 4 at first, and is worse in the end.
    table = {1: [0, 0, 0, 0.6, 0.4], 3: [0.35, 0, 0.25, 0.2, 0.2], 4: [0, 0, 0.99, 0.01, 0], 0: [0.3, 0, 0.4, 0.3, 0]}
    greedy, beam = search(Chain(table), 10), search(Chain(table), 10, beam=3)  # type: ignore[arg-type]
    assert beam.tokens == (4,)
    assert greedy.tokens[0] == 3
    assert beam.confidence > greedy.confidence


def test_a_model_that_repeats_itself_is_stopped() -> None:
    table = {1: [0, 0, 0, 1, 0], 3: [0, 0, 0, 0, 1], 4: [0, 0, 0, 1, 0]}
    found = search(Chain(table), 400)  # type: ignore[arg-type]
    assert found.tokens == (3, 4)
    assert END not in found.tokens
    assert Found((), ()).confidence == 0
    assert most_tokens(10) == 69
