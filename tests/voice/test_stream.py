"""Text while it is spoken, with a listener that says how much it heard: times, clicks, cuts and memory."""

from __future__ import annotations

import math
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Audio, AudioError, Segment, Transcriber, VoiceSetError
from openrknn.voice import stream as stream_module
from openrknn.voice.decoding import Found, most_tokens, search
from openrknn.voice.listener import ListenOptions
from openrknn.voice.segments import LoudnessActivity, Rules, Segmenter
from openrknn.voice.spans import FRAME
from openrknn.voice.stream import Heard, TranscriptStream
from openrknn.voice.tokens import END

Array = npt.NDArray[np.float32]
RATE = 16_000


@pytest.fixture(autouse=True)
def _computing_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy would give fewer partial results."""
    monkeypatch.setattr(stream_module, "time", SimpleNamespace(perf_counter=lambda: 0.0))


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
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path_factory.mktemp("voices")))  # none there
    return Transcriber(Counting(), activity="loudness")


def through(
    listen: Transcriber, samples: Array, size: int, partial: float = 0.25, share: float = math.inf
) -> list[tuple[float, Segment]]:
    """Segments with the seconds that were fed before they came."""
    stream = listen.stream(partial=partial, partial_share=share)
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


class Script:
    """A detector that knows when somebody speaks: in all but the last second of every ten."""

    def __init__(self) -> None:
        self._samples = self._frame = 0

    def reset(self) -> None:
        self._samples = self._frame = 0

    def feed(self, samples: Array) -> list[float]:
        self._samples += len(samples)
        first, self._frame = self._frame, self._samples // FRAME
        return [0.9 if frame * FRAME % (10 * RATE) < 9 * RATE else 0.1 for frame in range(first, self._frame)]


def test_an_hour_of_speech_loses_no_segment_and_needs_no_more_memory_than_a_minute() -> None:
    hear = Counting()
    with Transcriber(hear, activity="loudness") as listen:
        listen._idle.append(Script())
        stream = listen.stream()
        block = np.zeros(RATE, np.float32)
        finals: list[Segment] = []
        for second in range(3600):
            if second == 3540:
                tracemalloc.start()
            finals += [segment for segment in stream.feed(block) if segment.final]
            assert isinstance(stream, TranscriptStream)
            assert len(stream._room) <= 32 * RATE
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(finals) == 360
    assert [round(one.start) for one in finals] == [10 * at for at in range(360)]
    assert max(abs(one.end - one.start - 9.2) for one in finals) < 0.25
    assert kept < 2_200_000  # of the last minute, whose samples are 3.8 MB: the room, and six segments


def test_partial_results_cost_at_most_half_as_much_as_final_ones() -> None:
    def heard(partial: float, share: float) -> tuple[float, int]:
        hear = Counting()
        with Transcriber(hear, activity="loudness") as listen:
            listen._idle.append(Script())
            stream = listen.stream(partial=partial, partial_share=share)
            told = stream.feed(np.zeros(120 * RATE, np.float32)) + stream.finish()
        return sum(hear.calls) / RATE, sum(not one.final for one in told)

    finals, none = heard(0, 1.0)
    rationed, some = heard(0.25, 0.4)
    unlimited, many = heard(0.25, math.inf)
    assert none == 0
    assert rationed <= 1.5 * finals
    assert some >= 3 * 12  # of each segment: the first, another, and the one in its last pause
    assert unlimited > 10 * finals
    assert many > 300


def test_a_pause_that_ends_a_segment_is_heard_once(listen: Transcriber) -> None:
    found = [segment for _, segment in through(listen, speech(0.5, 2.0, 1.5), size=FRAME, share=0.4)]
    hear = listen._listener
    assert isinstance(hear, Counting)
    assert found[-1].final
    assert found[-1].text == found[-2].text
    assert found[-1].end == found[-2].end
    assert len(hear.calls) == len(found) - 1


class Unsure(Counting):
    """Understands what is longer than a second."""

    least_confidence = 0.4

    def hear(self, samples: Array, options: object = None) -> Heard:
        heard = super().hear(samples, options)
        return replace(heard, confidence=0.9 if len(samples) > 1.6 * RATE else 0.3)


def test_a_text_that_the_model_is_not_sure_of_is_none_and_that_is_said() -> None:
    with Transcriber(Unsure(), activity="loudness") as listen:
        found = listen(Audio(speech(1.0, 2.0, 1.5, 1.0, 2.0), RATE))
        assert len(found.segments) == 1
        assert "1 of 2 segments (1.4 s) were not understood" in found.warnings[0]
        assert "it knows en" in found.warnings[0]
        partial = through(listen, speech(1.0, 0.5), 320)[0][1]
        assert (partial.final, partial.text) == (False, "")
        everything = listen(Audio(speech(1.0, 2.0, 1.5, 1.0, 2.0), RATE), options=ListenOptions(filters=False))
        assert len(everything.segments) == 2
        assert everything.warnings == ()


class Repeating(Counting):
    """As sure as a model that goes in circles."""

    least_confidence = 0.4
    sure = 0.8

    def hear(self, samples: Array, options: object = None) -> Heard:
        return Heard("I am going to tell you what I am going to do. " * 4, (5,), self.sure)


def test_a_text_that_repeats_itself_needs_more_confidence() -> None:
    model = Repeating()
    with Transcriber(model, activity="loudness") as listen:
        assert listen(Audio(speech(1.0, 2.0, 1.5), RATE)).text == ""
        model.sure = 0.9
        assert len(listen(Audio(speech(1.0, 2.0, 1.5), RATE)).segments) == 1


def test_loudness_is_never_used_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    with pytest.raises(VoiceSetError, match=r"(?s)openrknn voice get silero-vad.*--vad loudness.*--no-vad"):
        Transcriber(Counting())


def test_several_streams_at_once_hear_what_each_was_given(listen: Transcriber) -> None:
    sounds = [speech(0.3, 1.0 + 0.4 * at, 1.0, 1.0, 1.0) for at in range(6)]
    alone = [[one for _, one in through(listen, sound, FRAME, share=0.4)] for sound in sounds]
    # In one thread, in turn.
    streams = [listen.stream() for _ in sounds]
    turns: list[list[Segment]] = [[] for _ in sounds]
    for at in range(0, max(map(len, sounds)), FRAME):
        for stream, sound, found in zip(streams, sounds, turns, strict=True):
            found.extend(stream.feed(sound[at : at + FRAME]))
    for stream, found in zip(streams, turns, strict=True):
        found.extend(stream.finish())
    finals = [[one for one in found if one.final] for found in alone]
    assert [[one for one in found if one.final] for found in turns] == finals
    # In a thread each.
    together: list[list[Segment]] = [[] for _ in sounds]

    def run(at: int) -> None:
        together[at] = [one for _, one in through(listen, sounds[at], FRAME, share=0.4)]

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(sounds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[one for one in found if one.final] for found in together] == finals


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
        Transcriber(activity="loudness")


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
