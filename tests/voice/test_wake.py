"""Wake: openWakeWord's three stages beside ONNX Runtime, in chunks of any size, with nets of random weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from openrknn.cli.main import main
from openrknn.voice import AudioError, VoiceSet, VoiceSetError, Wake, features
from openrknn.voice.make import wake as maker
from tests.voice.nets import Array

SOUND = (np.random.default_rng(2).standard_normal(1280 * 6 + 700) * np.hanning(1280 * 6 + 700) * 0.2).astype(np.float32)
_EMBEDDING = 8


def _save(
    path: Path, nodes: list[Any], numbers: dict[str, Array], taken: tuple[str, list[int]], given_: list[Any]
) -> None:
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info(taken[0], TensorProto.FLOAT, taken[1])], given_,
        [numpy_helper.from_array(np.asarray(value), key) for key, value in numbers.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _float(name: str, shape: list[int]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A front end of the true shape, a small embedding, and a word that asks a second net."""
    folder = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(9)
    turn = 2 * np.pi * np.outer(np.arange(257), np.arange(512)) / 512
    taper = np.pad(features.window("hann", 400), 56)
    waves = {"re": np.cos(turn) * taper, "im": -np.sin(turn) * taper}
    numbers: dict[str, Array] = {key: value[:, None].astype(np.float32) for key, value in waves.items()}
    numbers |= {
        "bands": features.mel_banks(16_000, 512, 32, low=60, high=3800, scale="htk", norm=False).T.astype(np.float32)
    }
    numbers |= {
        "floor": np.array(1e-10, np.float32),
        "ten": np.array(10 / np.log(10), np.float32),
        "range": np.array(80, np.float32),
        "axis": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["u"]),
        helper.make_node("Conv", ["u", "re"], ["r"], strides=[160]),
        helper.make_node("Conv", ["u", "im"], ["i"], strides=[160]),
        helper.make_node("Mul", ["r", "r"], ["rr"]),
        helper.make_node("Mul", ["i", "i"], ["ii"]),
        helper.make_node("Add", ["rr", "ii"], ["p"]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "bands"], ["m"]),
        helper.make_node("Max", ["m", "floor"], ["f"]),
        helper.make_node("Log", ["f"], ["l"]),
        helper.make_node("Mul", ["l", "ten"], ["d"]),
        helper.make_node("ReduceMax", ["d"], ["top"], keepdims=0),
        helper.make_node("Sub", ["top", "range"], ["low"]),
        helper.make_node("Max", ["d", "low"], ["y"]),
    ]
    _save(folder / "melspectrogram.onnx", nodes, numbers, ("x", [1, 1760]), [_float("y", [1, 8, 32])])
    weight = (rng.standard_normal((_EMBEDDING, 1, 76, 32)) / 50).astype(np.float32)
    turned = helper.make_node("Transpose", ["x"], ["n"], perm=[0, 3, 1, 2])
    nodes = [
        turned,
        helper.make_node("Conv", ["n", "w"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    _save(
        folder / "embedding_model.onnx",
        nodes,
        {"w": weight},
        ("x", [1, 76, 32, 1]),
        [_float("y", [1, 1, 1, _EMBEDDING])],
    )

    def net(prefix: str, gain: float) -> tuple[list[Any], dict[str, Array]]:
        matrix = (rng.standard_normal((4 * _EMBEDDING, 1)) * gain).astype(np.float32)
        shape = np.array([1, 4 * _EMBEDDING], np.int64)
        return [
            helper.make_node("Reshape", ["x", f"{prefix}shape"], [f"{prefix}flat"]),
            helper.make_node("MatMul", [f"{prefix}flat", f"{prefix}w"], [f"{prefix}z"]),
            helper.make_node("Sigmoid", [f"{prefix}z"], [f"{prefix}score"]),
        ], {f"{prefix}w": matrix, f"{prefix}shape": shape}

    first, numbers = net("a", 0.03)
    second, more = net("b", 0.03)
    then = helper.make_graph(second, "then", [], [_float("bscore", [1, 1])],
                             [numpy_helper.from_array(value, key) for key, value in more.items()])  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["ascore"], ["same"])], "else", [], [_float("same", [1, 1])]
    )
    decide = [
        helper.make_node("GreaterOrEqual", ["ascore", "half"], ["yes"]),
        helper.make_node("Reshape", ["yes", "none"], ["one"]),
        helper.make_node("If", ["one"], ["y"], then_branch=then, else_branch=other),
    ]
    numbers |= {"half": np.array(0.5, np.float32), "none": np.zeros(0, np.int64)}
    _save(folder / "computer.onnx", first + decide, numbers, ("x", [1, 4, _EMBEDDING]), [_float("y", [1, 1])])
    return folder


@pytest.fixture(scope="module")
def voice(source: Path) -> VoiceSet:
    return maker.make(source, source / "made" / "computer", name="computer")


@pytest.fixture(scope="module")
def wake(voice: VoiceSet) -> Iterator[Wake]:
    with Wake(voice, "software", threshold=0.4, pause=0.2) as one:
        yield one


def _float_scores(source: Path, samples: Array) -> list[float]:
    """The stages of pyopen-wakeword in ONNX Runtime, with eight seconds of silence before the sound."""
    import onnxruntime

    mel, embedding, word = (
        onnxruntime.InferenceSession(source / f"{name}.onnx")
        for name in ("melspectrogram", "embedding_model", "computer")
    )
    padded = np.concatenate([np.zeros(100 * 1280), samples * 32768.0]).astype(np.float32)
    rows = np.zeros((0, 32), np.float32)
    for at in range(0, len(padded) - 1759, 1280):
        rows = np.concatenate([rows, mel.run(None, {"x": padded[None, at : at + 1760]})[0][0] / 10 + 2])
    windows = [rows[at : at + 76] for at in range(0, len(rows) - 75, 8)]
    seen = np.stack([embedding.run(None, {"x": one[None, :, :, None]})[0].reshape(-1) for one in windows])
    scores = [float(word.run(None, {"x": seen[None, at : at + 4]})[0][0, 0]) for at in range(len(seen) - 3)]
    return scores[-(1 + (len(samples) - 480) // 1280) :]


def test_scores_are_those_of_the_stages_in_float(source: Path, wake: Wake) -> None:
    wanted = _float_scores(source, SOUND)
    wake.reset()
    found = [scores["computer"] for _, scores in wake.activations(SOUND)]
    assert len(found) == len(wanted) == 7
    assert np.ptp(wanted) > 0.2, "the nets should answer to what they hear"
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_loudness_is_no_matter_of_precision(source: Path, wake: Wake) -> None:
    """Quiet and loud sound, silence, a click: fp16 holds the spectrum of each."""
    click = np.zeros(4000, np.float32)
    click[1500] = 0.9
    for sound in (SOUND[:4000] * 1e-4, SOUND[2000:6000] * 4, np.zeros(4000, np.float32), click):
        wake.reset()
        found = [scores["computer"] for _, scores in wake.activations(sound)]
        np.testing.assert_allclose(found, _float_scores(source, sound), atol=0.02)


@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, len(SOUND)), max_size=8))
def test_chunks_of_any_size_give_the_same(wake: Wake, cuts: list[int]) -> None:
    wake.reset()
    whole = wake.activations(SOUND)
    wake.reset()
    assert [one for part in np.split(SOUND, sorted(cuts)) for one in wake.activations(part)] == whole


def test_a_word_is_heard_once_in_a_while(voice: VoiceSet) -> None:
    with Wake([voice], "software", threshold=1e-6, pause=0.2) as wake:
        heard = wake.feed(SOUND)
        assert [one.word for one in heard] == ["computer"] * 3
        assert heard[0].time == pytest.approx(0.03)
        assert heard[1].time - heard[0].time >= 0.2
        assert wake.scores["computer"] > 0
        with pytest.raises(AudioError):
            wake.feed([np.nan])


def test_a_word_of_your_own_takes_the_front_end_from_another(
    source: Path, voice: VoiceSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / "alone" / "mine.onnx"
    alone.parent.mkdir()
    alone.write_bytes((source / "computer.onnx").read_bytes())
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    with pytest.raises(VoiceSetError, match="no other wake word at home"):
        maker.make(alone, tmp_path / "mine", name="mine")
    monkeypatch.setenv("OPENRKNN_VOICES", str(voice.folder.parent))
    made = maker.make(alone, tmp_path / "mine", name="mine")
    with Wake([voice, made], "software") as both:
        assert both.words == ("computer", "mine")
        assert len(both._fronts) == 1, "equal front ends are computed once"
        both.feed(SOUND[:2000])
        assert both.scores["mine"] == both.scores["computer"]


def test_what_does_not_fit(source: Path, voice: VoiceSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path))
    with pytest.raises(VoiceSetError, match="no wake word to wait for"):
        Wake(None, "software")
    with pytest.raises(AudioError):
        Wake(voice, "software", threshold=0)
    with pytest.raises(VoiceSetError, match="front end"):
        Wake(replace(voice, files={**voice.files, "mel": "embedding.rknn"}), "software")
    with pytest.raises(VoiceSetError, match="embeddings"):
        Wake(replace(voice, files={**voice.files, "word": "embedding.rknn"}), "software")
    with pytest.raises(VoiceSetError, match="verify"):
        Wake(replace(voice, options={"verify": "yes"}), "software")
    with pytest.raises(VoiceSetError, match="which word"):
        maker.make(source, tmp_path / "made", name="nobody")


def test_listen(voice: VoiceSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openrknn.voice.audio import Audio, write_wav

    path = tmp_path / "said.wav"
    write_wav(path, Audio(SOUND, 16_000))
    words = ["listen", str(path), "--wake", str(voice.folder), "--device", "software"]
    assert main([*words, "--threshold", "1e-6", "--pause", "0.2", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["word"] for row in rows] == ["computer"] * 3
    assert main([*words, "--threshold", "1", "--once"]) == 1
    assert "no word was heard" in capsys.readouterr().out
    assert main([*words, "--threshold", "2"]) == 2
