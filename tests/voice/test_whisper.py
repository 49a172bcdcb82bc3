"""Whisper on the software NPU beside its equations in NumPy, and the rules around the model one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.container.load import load
from openrknn.container.parts import Kind
from openrknn.container.sequence import read_decoder
from openrknn.runtime.cost import cost_of
from openrknn.runtime.errors import CacheFullError
from openrknn.voice import Audio, ListenOptions, Transcriber, VoiceSet, VoiceSetError
from openrknn.voice.listener import Piece
from openrknn.voice.make.whisper.make import make
from openrknn.voice.whisper import Whisper
from openrknn.voice.whisper.parts import cut
from openrknn.voice.whisper.search import Result, Rules
from openrknn.voice.whisper.vocabulary import Vocabulary, _words
from openrknn.voice.whisper.words import Timed, aligned, placed, tidied, warped
from tests.voice import fake_whisper as fake

Array = npt.NDArray[np.float32]
RATE = 16_000
VOCABULARY = Vocabulary(fake.PIECES)
TIME = VOCABULARY.first_time


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    folder = tmp_path_factory.mktemp("whisper")
    (folder / "ggml-tiny.bin").write_bytes(fake.ggml(fake.arrays()))
    (folder / "set").mkdir()
    return make(folder / "ggml-tiny.bin", folder / "set", name="tiny")


@pytest.fixture(scope="module")
def model(voice: VoiceSet) -> Iterator[Whisper]:
    with Whisper(voice, "software") as opened:
        yield opened


def sound(seconds: float, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    return np.asarray(random.normal(0, 0.1, round(seconds * RATE)), np.float32)


def test_logits_are_those_of_the_equations(model: Whisper) -> None:
    mel = model.mel(sound(0.9))
    filled = np.zeros((fake.MELS, 2 * fake.STATES), np.float32)
    filled[:, : mel.shape[1]] = mel
    tokens = [VOCABULARY.begin, VOCABULARY.languages["de"], 300, 5, 70, VOCABULARY.end]
    wanted = fake.Reference(fake.arrays()).logits(filled, tokens)
    with model._lock:
        model._decoder.start(model.encode(mel))
        found = np.stack([model._decoder.step(token).copy() for token in tokens])
    noise = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert noise < 10 ** (-45 / 20)
    model._decoder.rewind(2)
    np.testing.assert_array_equal(model._decoder.step(300), found[2])
    model._decoder.rewind(2)
    model._decoder.fork(2)
    np.testing.assert_array_equal(model._decoder.step([300, 300]), found[[2, 2]])
    with pytest.raises(ValueError, match="cannot be rewound"):
        model._decoder.rewind(9)


def test_many_tokens_at_once_are_those_one_after_the_other(model: Whisper) -> None:
    decoder = model._decoder
    tokens = [VOCABULARY.begin, VOCABULARY.languages["de"], 300, 5, 70, 71, 72]
    with model._lock:
        decoder.start(model.encode(model.mel(sound(0.9))))
        decoder.rewind(0)
        rows = np.stack([decoder.step(token).copy() for token in tokens])
        scores, behind = decoder.output("scores.1").copy(), decoder.step(9).copy()
        decoder.rewind(0)
        fed = decoder.feed(tokens, ["scores.1"])
        parts = [(part.first, part.logits.copy(), part.outputs["scores.1"]) for part in fed]
        assert [(first, len(logits)) for first, logits, _ in parts] == [(0, len(tokens))]
        assert decoder.length == len(tokens)
        noise = np.linalg.norm(parts[0][1] - rows) / np.linalg.norm(rows)
        assert noise < 10 ** (-50 / 20)
        np.testing.assert_allclose(parts[0][2][..., -1:], scores, atol=0.02)
        np.testing.assert_allclose(decoder.step(9), behind, atol=0.05)
        decoder.rewind(0)
        few = list(decoder.feed(tokens[:4]))
        assert [part.first for part in few] == [0, 1, 2, 3]
        np.testing.assert_array_equal(few[-1].logits[0], rows[3])
        with pytest.raises(CacheFullError, match="do not fit"):
            decoder.feed([5] * fake.CONTEXT)
        with pytest.raises(ValueError, match="token 99999"):
            decoder.feed([5, 99999])


def test_a_step_is_few_jobs_and_nothing_of_it_is_the_cpus(voice: VoiceSet) -> None:
    step = load(read_decoder(voice.file("decoder")).step)
    cost = cost_of(step)
    assert cost.cpu_operators == 0
    assert cost.submits <= 3
    weights = [sum(len(one.data or b"") for one in graph.tensors if one.kind is Kind.WEIGHT) for graph in step.graphs]
    assert weights[1] < weights[0] // 4, "graphs share them"


@pytest.mark.parametrize("beam", [1, 2])
def test_a_text_that_does_not_end_stops_with_the_positions(model: Whisper, beam: int) -> None:
    previous = tuple([5] * (fake.CONTEXT // 2 - 1))
    options = ListenOptions(language="de", previous=previous, filters=False, temperatures=(0.0,), beam=beam)
    rules = model._search._rules[True]
    rules._never = np.append(rules._never, VOCABULARY.end)
    try:
        result = model.window(model.mel(sound(0.9)), options)
    finally:
        rules._never = rules._never[:-1]
    assert len(result.tokens) == fake.CONTEXT + 1 - (1 + len(previous) + 3)


def test_a_decoder_without_the_scores_of_its_words_is_refused(voice: VoiceSet) -> None:
    other = replace(voice, options={**voice.options, "alignment": [[0, 0]]})
    with pytest.raises(VoiceSetError, match="make the set 'tiny' again"):
        Whisper(other, "software")


def test_what_is_heard_has_values_parts_and_words(model: Whisper) -> None:
    heard = model.hear(sound(0.9), ListenOptions(language="auto", words=True, filters=False, temperatures=(0.0,)))
    assert heard.language in model.languages
    assert heard.no_speech_prob is not None
    assert 0 < heard.confidence < 1
    assert heard.avg_logprob == pytest.approx(np.log(heard.confidence))
    spoken = [word for piece in heard.pieces for word in piece.words]
    assert "".join(word.text for word in spoken).strip() == VOCABULARY.text(heard.tokens).strip()
    assert all(0 <= word.start <= word.end <= 1 and 0 <= word.probability <= 1 for word in spoken)
    assert model.token_bytes(fake.TEXT.index(b" the")) == b" the"
    assert model.token_bytes(VOCABULARY.begin) == b""
    with pytest.raises(VoiceSetError, match="this model takes"):
        model.hear(sound(1.5))
    partial = model.hear(sound(0.5), ListenOptions(language="en", partial=True))
    assert (partial.pieces, partial.text) == ((), VOCABULARY.text(partial.tokens).strip())


def test_beams_are_at_least_as_likely_as_greedy(model: Whisper) -> None:
    options = ListenOptions(language="en", filters=False, temperatures=(0.0,))
    greedy = model.window(model.mel(sound(0.9)), options)
    beams = model.window(model.mel(sound(0.9)), ListenOptions(language="en", filters=False, beam=3))
    assert beams.avg_logprob >= greedy.avg_logprob - 1e-3
    warm = model.window(model.mel(sound(0.9)), ListenOptions(language="en", filters=False, temperatures=(1.0,)))
    assert warm.temperature == 1.0


def test_a_recording_slides_from_time_to_time(voice: VoiceSet) -> None:
    options = ListenOptions(language="de", filters=False, temperatures=(0.0,), prompt="the")
    with Transcriber(voice, "software", activity=None, options=options) as listen:
        found = listen(Audio(sound(2.3), RATE))
        stream = listen.stream(partial=0)
        listen.survey(stream, [sound(2.3)])
        parts = [stream.feed(sound(2.3)[at : at + 1000]) for at in range(0, len(sound(2.3)), 1000)]
        again = [one for part in parts for one in part] + stream.finish()
    assert [one.text for one in again] == [one.text for one in found.segments]
    assert found.language == "de"
    assert found.seconds == pytest.approx(2.3)
    assert all(one.start <= after.start for one, after in pairwise(found.segments))


def test_speech_is_packed_and_times_are_mapped_back(voice: VoiceSet, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    whole = Whisper.hear

    def hear(self: Whisper, samples: Array, options: ListenOptions) -> object:
        heard.append(len(samples))
        return whole(self, samples, options)

    monkeypatch.setattr(Whisper, "hear", hear)
    talk = np.concatenate([np.zeros(RATE), sound(0.3), np.zeros(3 * RATE), sound(0.2), np.zeros(3 * RATE)])
    options = ListenOptions(language="en", filters=False, temperatures=(0.0,))
    with Transcriber(voice, "software", activity="loudness", options=options) as listen:
        found = listen(Audio(talk.astype(np.float32), RATE))
    assert all(size <= 2 * fake.STATES * 160 for size in heard)
    assert all(0.5 < one.start <= one.end < 7.5 for one in found.segments)


# -- rules ----------------------------------------------------------------------------------------------------------


def allowed(text: list[int], *, times: bool = True, row: Array | None = None) -> npt.NDArray[np.intp]:
    made = np.zeros(len(VOCABULARY), np.float32) if row is None else row
    Rules(VOCABULARY, times=times).apply(made, text)
    return np.flatnonzero(np.isfinite(made))


def test_a_text_begins_with_a_time_of_its_first_second() -> None:
    assert allowed([]).tolist() == list(range(TIME, TIME + 51))
    assert VOCABULARY.end not in allowed([], times=False)


def test_times_come_in_pairs_and_never_go_back() -> None:
    word = 100
    behind_first = allowed([TIME + 3])
    assert behind_first.max() < TIME
    row = np.zeros(len(VOCABULARY), np.float32)
    row[word] = 20  # likelier than all times together
    behind_word = allowed([TIME + 3, word], row=row)
    assert word in behind_word
    assert behind_word[behind_word >= TIME].min() == TIME + 4
    behind_end = allowed([TIME + 3, word, TIME + 9])
    assert behind_end.min() >= VOCABULARY.end
    assert behind_end[behind_end >= TIME].min() == TIME + 9
    assert allowed([TIME + 3, word, TIME + 9, TIME + 9]).max() < TIME
    assert VOCABULARY.no_times not in behind_word
    assert VOCABULARY.begin not in behind_word


def test_all_times_together_outweigh_a_word() -> None:
    row = np.zeros(len(VOCABULARY), np.float32)
    row[100] = 3
    assert allowed([TIME, 100], row=row).min() >= TIME


def result(*tokens: int) -> Result:
    return Result(tokens, "", -0.1, 0.0, 0.0, "en", tuple(-0.1 for _ in tokens))


def test_texts_are_cut_at_two_times_in_a_row() -> None:
    parts, ahead = cut(result(TIME, 5, TIME + 50, TIME + 50, 6, TIME + 90, TIME + 90, 7), 3000, VOCABULARY)
    assert [(part.start, part.end) for part in parts] == [(0, 1), (1, 1.8)]
    assert (ahead.frames, ahead.is_complete) == (180, False)
    parts, ahead = cut(result(TIME, 5, TIME + 50, TIME + 60, 6, TIME + 90), 3000, VOCABULARY)
    assert [part.tokens for part in parts] == [(TIME, 5, TIME + 50), (TIME + 60, 6, TIME + 90)]
    assert (ahead.frames, ahead.is_complete) == (3000, True)
    parts, _ = cut(result(TIME, 5, 6), 700, VOCABULARY)
    assert parts[0].piece(VOCABULARY) == Piece(0.0, 7.0, "\x05\x06", (TIME, 5, 6), (), (-0.1, -0.1, -0.1))
    parts, _ = cut(result(TIME, 5, TIME + 50, TIME + 50, 6), 700, VOCABULARY, keep_rest=True)
    assert [(part.start, part.end) for part in parts] == [(0, 1), (1, 7)]


@pytest.mark.parametrize(
    ("mean", "silent", "text", "doubtful", "is_silence"),
    [(-0.3, 0.1, "hello", False, False), (-1.2, 0.1, "hello", True, False), (-1.2, 0.9, "hello", False, True),
     (-0.3, 0.9, "hello", False, False), (-0.1, 0.0, "again and " * 30, True, False)],
)  # fmt: skip
def test_second_tries_and_silence(mean: float, silent: float, text: str, doubtful: bool, is_silence: bool) -> None:
    found = Result((), text, mean, silent, 0.0)
    assert (found.is_doubtful, found.is_silence) == (doubtful, is_silence)


# -- words ----------------------------------------------------------------------------------------------------------


def test_text_becomes_tokens_by_rank() -> None:
    assert [fake.PIECES[token] for token in VOCABULARY.encode("in the ear")] == [b"in", b" the", b" ", b"e", b"a", b"r"]
    assert list(_words("I'll  see 12 x!\n\n ok")) == ["I", "'ll", " ", " see", " 12", " x", "!", "\n\n", " ok"]
    assert VOCABULARY.text(VOCABULARY.encode("für ♪ 東京")) == "für ♪ 東京"


def test_words_are_cut_at_spaces_marks_and_whole_characters() -> None:
    tokens = VOCABULARY.encode(" the für, in")
    assert [text for text, _ in VOCABULARY.split(tokens, "de")] == [" the", " für", ",", " in"]
    assert [text for text, _ in VOCABULARY.split(VOCABULARY.encode("東京"), "ja")] == ["東", "京"]


def test_warping_finds_the_cheapest_path() -> None:
    costs = np.ones((3, 6))
    for row, column in ((0, 0), (0, 1), (1, 2), (2, 3), (2, 4), (2, 5)):
        costs[row, column] = -1
    rows, columns = warped(costs)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2), (2, 3), (2, 4), (2, 5)]


def test_words_are_where_attention_looks() -> None:
    scores = np.zeros((2, 7, 60), np.float32)
    for token, (start, stop) in enumerate([(0, 20), (20, 35), (35, 50), (50, 60)]):
        scores[:, 2 + token, start:stop] = 9
    split = [(" one", [5]), (" two", [6]), (".", [7]), ("", [VOCABULARY.end])]
    found = aligned(scores, 2, split, [0.5, 0.25, 1.0])
    assert [one.text for one in found] == [" one", " two", "."]
    assert [(one.start, one.end) for one in found][:2] == [pytest.approx((0, 0.4)), pytest.approx((0.4, 0.7))]
    assert found[1].probability == 0.25
    tidied(found)
    assert [one.text for one in found] == [" one", " two.", ""]


def test_marks_join_their_words_and_pauses_do_not_stretch_them() -> None:
    found = [Timed(" (", [1], 0, 0.1, 1), Timed("yes", [2], 0.1, 0.3, 1), Timed("!", [3], 0.3, 0.3, 1)]
    tidied(found)
    assert [one.text for one in found] == ["", " (yes!", ""]
    long = [Timed(" so", [1], 0.0, 5.0, 1), Timed(" far", [2], 5.0, 5.3, 1)]
    ((start, end, words),) = placed(long, [(4.6, 5.4, 2)], 0.3, 0.0)
    assert words[0].start == pytest.approx(4.4)
    assert [start, end] == pytest.approx([4.4, 5.3])


def test_a_broken_set_is_named(voice: VoiceSet, tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(VoiceSetError, match="its options are no Whisper's"):
        Whisper(replace(voice, options={}), "software")
    with pytest.raises(VoiceSetError, match="these are not Whisper's tokens"):
        Vocabulary([b"a", b"b", b"c"])
