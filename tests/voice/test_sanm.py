"""SenseVoice and Paraformer: small ones in sherpa-onnx's form against ONNX Runtime, and what their text is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Transcriber, VoiceSetError
from openrknn.voice.listener import ListenOptions
from openrknn.voice.make.fetch import family_of
from openrknn.voice.make.sanm.make import make
from openrknn.voice.make.sanm.weights import place_of, read_weights
from openrknn.voice.pieces import joined, spaced, timed_words
from openrknn.voice.sanm.cif import integrate
from openrknn.voice.sanm.frontend import Frontend
from openrknn.voice.sanm.paraformer import Paraformer
from openrknn.voice.sanm.sensevoice import SenseVoice
from openrknn.voice.sets import VoiceSet
from tests.voice.fake_sanm import TAGS, TAIL, WORDS, write_paraformer, write_sensevoice
from tests.voice.test_transducer import sound

Array = npt.NDArray[np.float32]
BUCKETS = (1.0, 2.0)


@pytest.fixture(scope="module")
def sense(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, VoiceSet]:
    folder = write_sensevoice(tmp_path_factory.mktemp("sense") / "models")
    return folder, make(folder, tmp_path_factory.mktemp("sets") / "sense", buckets=BUCKETS)


@pytest.fixture(scope="module")
def para(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, VoiceSet]:
    folder = write_paraformer(tmp_path_factory.mktemp("para") / "models")
    return folder, make(folder, tmp_path_factory.mktemp("sets") / "para", buckets=BUCKETS[1:])


def reference(folder: Path, feeds: dict[str, Any]) -> list[Any]:
    runtime = pytest.importorskip("onnxruntime")
    return list(runtime.InferenceSession(str(folder / "model.onnx")).run(None, feeds))


def decibels(wanted: Array, found: Array) -> float:
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


@pytest.mark.parametrize("seconds", [0.4, 1.7])
def test_sensevoice_is_the_float_model_whatever_its_bucket(sense: tuple[Path, VoiceSet], seconds: float) -> None:
    folder, made = sense
    weights = read_weights(folder / "model.onnx")
    vectors = Frontend(weights.numbers("neg_mean"), weights.numbers("inv_stddev"))(sound(seconds))
    one = {name: np.array([value], np.int32) for name, value in (("language", 4), ("text_norm", 14))}
    wanted = reference(folder, {"x": vectors[None], "x_length": np.array([len(vectors)], np.int32), **one})[0][0]
    with SenseVoice(made, "software") as model:
        assert model.languages == ("zh", "en", "yue", "ja", "ko")
        found = model.logits(sound(seconds), "en")
        other = model.logits(sound(seconds), "zh")
        heard = model.hear(sound(seconds), ListenOptions(language="en"))
    assert found.shape == wanted.shape
    assert decibels(wanted, found) > 40
    assert np.abs(other - found).max() > 0.1  # the question matters
    assert heard.text == joined(word.text for word in heard.words)
    assert set(heard.tags) <= {tag[2:-2] for tag in TAGS}


def test_sensevoice_says_language_emotion_and_event(
    sense: tuple[Path, VoiceSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [WORDS - 7, WORDS - 5, WORDS - 4, WORDS - 2, 0, 1, 1, 0, 1, 2, 3]

    def logits(_self: SenseVoice, _samples: Array, _language: str = "auto") -> Array:
        return np.asarray(10 * np.eye(WORDS)[told], np.float32)

    monkeypatch.setattr(SenseVoice, "logits", logits)
    with Transcriber(sense[1], "software", activity=None) as listen:
        (segment,) = listen(sound(1.0), 16_000).segments
    assert segment.language == "en"
    assert segment.tags == ("en", "HAPPY", "Speech", "withitn")
    assert segment.as_json()["tags"] == list(segment.tags)
    assert segment.text == "w1 w1 w2字3"
    assert [round(word.start, 2) for word in segment.words] == [0.06, 0.24, 0.3, 0.36]


@pytest.mark.parametrize("seconds", [0.4, 1.7])
def test_paraformer_is_the_float_model(para: tuple[Path, VoiceSet], seconds: float) -> None:
    folder, made = para
    weights = read_weights(folder / "model.onnx")
    vectors = Frontend(weights.numbers("neg_mean"), weights.numbers("inv_stddev"))(sound(seconds))
    feeds = {"speech": vectors[None], "speech_lengths": np.array([len(vectors)], np.int32)}
    wanted, count = reference(folder, feeds)
    with Paraformer(made, "software") as model:
        rows, frames = model.logits(sound(seconds))
        heard = model.hear(sound(seconds), ListenOptions())
    assert len(rows) == len(frames) == int(count[0]) > 1
    logs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    assert decibels(wanted[0], logs) > 40
    assert frames == sorted(frames)
    assert len(heard.tokens) == len(heard.logs) <= len(rows)


def test_integrate_and_fire_shares_frames_between_tokens() -> None:
    states = np.eye(4, dtype=np.float32)
    rows, frames = integrate(states, np.array([0.6, 0.6, 0.3, 0.2], np.float32), TAIL)
    np.testing.assert_allclose(rows, [[0.6, 0.4, 0, 0], [0, 0.2, 0.3, 0.2]], atol=1e-6)
    assert frames == [1, 3]  # the second one needs the tail
    assert integrate(states, np.full(4, 0.1, np.float32), TAIL)[1] == []


def test_vectors_are_stacked_as_funasr_does() -> None:
    plain = Frontend(np.zeros(560, np.float32), np.ones(560, np.float32))
    samples = sound(0.5)
    found = plain(samples)
    frames = found.reshape(len(found), 7, 80)
    assert len(found) == plain.vectors(len(samples)) == 8  # 48 frames
    assert np.array_equal(frames[0, 0], frames[0, 3])  # the first frame three times before itself
    assert np.array_equal(frames[1, 0], frames[0, 6])
    more = plain(samples[: 400 + 160 * 42]).reshape(-1, 7, 80)  # 43 frames
    assert len(more) == 8
    assert all(np.array_equal(more[-1, 3], more[-1, at]) for at in (4, 5, 6))  # the last one is number 42
    assert not np.array_equal(more[-1, 3], more[-1, 2])
    assert plain(samples[:10]).shape == (1, 560)


def test_text_of_pieces() -> None:
    assert joined(spaced(["你", "好", "hel@@", "lo", "world", "吗"])) == "你好 hello world 吗"
    words = timed_words([("▁a", 0, 1, 0.9), ("b", 1, 2, 0.5), ("你", 2, 3, 1), ("好", 3, 4, 1)])
    assert [(word.text, word.end, word.probability) for word in words] == [
        (" ab", 2, 0.5), ("你", 3, 1), ("好", 4, 1)
    ]  # fmt: skip


def test_folders_are_told_apart_and_what_is_missing_is_named(
    sense: tuple[Path, VoiceSet], para: tuple[Path, VoiceSet], tmp_path: Path
) -> None:
    import onnx

    assert (family_of(sense[0]), family_of(para[0])) == ("sensevoice", "paraformer")
    assert place_of("/decoder/decoders/decoders.3/norm1/Add_1_output_0") == "decoder.decoders.3.norm1"
    broken = write_paraformer(tmp_path / "broken")
    model = onnx.load(broken / "model.onnx")
    kept = [node for node in model.graph.node if "fsmn_block" not in node.output[0]]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.save(model, broken / "model.onnx")
    with pytest.raises(VoiceSetError, match="fsmn_block"):
        make(broken, tmp_path / "set", buckets=BUCKETS)
    del model.metadata_props[:]
    onnx.save(model, broken / "model.onnx")
    with pytest.raises(VoiceSetError, match="neg_mean"):
        make(broken, tmp_path / "set", buckets=BUCKETS)
