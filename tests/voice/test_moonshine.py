"""Moonshine rebuilt for the NPU. Witness: the same weights in a graph as exporters write it, in ONNX Runtime."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Audio, Transcriber, VoiceSet, VoiceSetError, open_set
from openrknn.voice.listener import ListenOptions
from openrknn.voice.make.fetch import family_of, get
from openrknn.voice.make.moonshine import make
from openrknn.voice.moonshine import Moonshine, stem_frames
from openrknn.voice.tokens import Tokenizer
from tests.voice.fake_moonshine import HEADS, PIECES, SIZE, WIDTH, Fake

onnxruntime = pytest.importorskip("onnxruntime")
Array = npt.NDArray[np.float32]
BUCKETS = (0.5, 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    source = Fake().write(tmp_path_factory.mktemp("source"))
    folder = tmp_path_factory.mktemp("set")
    return make(source, folder, name="fake", origin="tests", buckets=BUCKETS)


@pytest.fixture(scope="module")
def source(made: VoiceSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Fake().write(tmp_path_factory.mktemp("again"))


@pytest.fixture(scope="module")
def model(made: VoiceSet) -> Iterator[Moonshine]:
    with Moonshine(made, "software") as opened:
        yield opened


def sound(seconds: float, seed: int = 3) -> Array:
    return np.random.default_rng(seed).uniform(-0.3, 0.3, round(16_000 * seconds)).astype(np.float32)


class Float:
    """The exporter's graphs in ONNX Runtime."""

    def __init__(self, source: Path) -> None:
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(source / f"{name}.onnx"), providers=["CPUExecutionProvider"])
            for name in ("encoder_model", "decoder_model_merged")
        )

    def states(self, samples: Array) -> Array:
        return np.asarray(self.encoder.run(None, {"input_values": samples[None]})[0])

    def logits(self, states: Array, tokens: list[int]) -> Array:
        past = np.zeros((1, HEADS, 1, SIZE), np.float32)
        feed = {"tokens": np.array([tokens], np.float32), "encoder_hidden_states": states}
        feed["past_key_values.0.decoder.key"] = past
        return np.asarray(self.decoder.run(["logits"], feed)[0][0], np.float32)


def decibels(wanted: Array, found: Array) -> float:
    return float(20 * np.log10(np.linalg.norm(wanted) / np.linalg.norm(wanted - found)))


@pytest.mark.parametrize("seconds", [0.31, 0.5, 0.77])
def test_logits_are_the_float_models_whatever_the_bucket(model: Moonshine, source: Path, seconds: float) -> None:
    samples, tokens = sound(seconds), [1, 9, 30, 7, 7, 21]
    wanted = Float(source).logits(Float(source).states(samples), tokens)
    found = model.logits(samples, tokens)
    assert found.shape == wanted.shape
    # fp16 through four layers; padding that counted would be far below.
    assert decibels(wanted, found) > 35


def test_greedy_text_is_the_float_models_where_it_is_sure(model: Moonshine, source: Path) -> None:
    samples = sound(0.6)
    witness = Float(source)
    states = witness.states(samples)
    heard = model.hear(samples)
    rows = witness.logits(states, [1, *heard.tokens])
    for row, token in zip(rows, heard.tokens, strict=False):
        assert row[token] > row.max() - 0.2
    assert 0 < heard.confidence <= 1
    assert len(heard.tokens) <= len(heard.logs) <= len(heard.tokens) + 1
    assert b"".join(map(model.token_bytes, heard.tokens)).decode(errors="replace").strip() == heard.text


def test_a_beam_is_at_least_as_likely_as_greedy(model: Moonshine, source: Path) -> None:
    samples = sound(0.4, seed=9)
    greedy, beam = model.hear(samples), model.hear(samples, ListenOptions(beam=3))
    assert beam.confidence >= greedy.confidence - 0.02


def test_less_sound_than_a_window_is_filled_and_more_than_the_largest_bucket_is_refused(model: Moonshine) -> None:
    assert model.hear(np.zeros(10, np.float32)).text is not None
    assert model.longest == pytest.approx(1.0, abs=0.01)
    with pytest.raises(VoiceSetError, match=r"1\.5 s at once; this set takes 1\.0 s"):
        model.hear(sound(1.5))


def test_the_set_says_what_it_is(made: VoiceSet) -> None:
    again = open_set(made.folder, "transcriber")
    assert (again.family, again.licence, again.source) == ("moonshine", "MIT", "tests")
    assert again.options["buckets"] == list(BUCKETS)
    assert stem_frames(16_000) == 249


def test_a_transcriber_hears_an_array_bytes_and_a_file_alike(made: VoiceSet, tmp_path: Path) -> None:
    from openrknn.voice.audio import wav_bytes, write_wav

    audio = Audio(np.round(sound(1.2) * 32768) / np.float32(32768), 16_000)
    write_wav(tmp_path / "a.wav", audio)
    with Transcriber(made, "software", activity=None) as listen:
        ways = [listen(tmp_path / "a.wav"), listen(wav_bytes(audio)), listen(audio), listen(audio.samples, 16_000)]
    assert len({way.text for way in ways}) == 1
    assert ways[0].seconds == pytest.approx(1.2, abs=0.01)
    assert [round(part.end, 2) for part in ways[0].segments][-1] == pytest.approx(1.2, abs=0.01)


def test_get_finds_the_family_of_a_folder(source: Path, tmp_path: Path) -> None:
    assert family_of(source) == "moonshine"
    with pytest.raises(VoiceSetError, match="holds no models that are known"):
        family_of(tmp_path)
    with pytest.raises(VoiceSetError, match="neither a file or folder nor a name that is known: moonshine-tiny"):
        get(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("tables", "broken tables"),
        ("tokens", "pieces for 48 words"),
        ("encoder", "while 'encoder' of the set 'fake' was opened"),
        ("missing", "is missing"),
        ("family", "family 'moonlight' is unknown"),
    ],
)
def test_broken_sets_are_named(made: VoiceSet, tmp_path: Path, damage: str, words: str) -> None:
    folder = tmp_path / "set"
    shutil.copytree(made.folder, folder)
    if damage == "missing":
        (folder / made.files["decoder"]).unlink()
    elif damage == "family":
        row = json.loads((folder / "voice.json").read_text())
        (folder / "voice.json").write_text(json.dumps({**row, "family": "moonlight"}))
    else:
        path = folder / made.files[damage]
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(Exception, match=r".") as caught:
        Transcriber(folder, "software", activity=None)
    told = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert words in told


def test_a_graph_that_is_no_moonshine_is_refused(tmp_path: Path) -> None:
    import onnx

    source = Fake().write(tmp_path / "source")
    graph = onnx.load(str(source / "decoder_model_merged.onnx"))
    for node in graph.graph.node:
        for at, name in enumerate(node.output):
            node.output[at] = name.replace("layers.0/self_attn/q_proj", "layers.0/other/q_proj")
        for at, name in enumerate(node.input):
            node.input[at] = name.replace("layers.0/self_attn/q_proj", "layers.0/other/q_proj")
    onnx.save(graph, str(source / "decoder_model_merged.onnx"))
    with pytest.raises(VoiceSetError, match=r"no Moonshine that is understood: '0\.self_attn\.q_proj' is not there"):
        make(source, tmp_path)


def test_tokens_become_text(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    long = "x" * 300
    path.write_bytes(
        b"".join(bytes([len(piece)]) + piece for piece in PIECES[:5])
        + bytes([300 % 128 + 128, 300 // 128])
        + long.encode()
    )
    tokenizer = Tokenizer.read(path)
    assert len(tokenizer) == 6
    assert tokenizer.text([1, 3, 4, 3, 2, 99, -1]) == "A A"
    assert tokenizer.text([5]) == long
    path.write_bytes(b"\x05ab")
    with pytest.raises(VoiceSetError, match="ends within piece 0"):
        Tokenizer.read(path)


def test_the_stem_is_a_norm_over_exactly_the_sound(made: VoiceSet) -> None:
    with Moonshine(made, "software") as model:
        frames = model._tables.stem(sound(0.3))
    assert frames.shape == (WIDTH, stem_frames(4800))
    back = (frames - model._tables.stem.shift[:, None]) / model._tables.stem.scale[:, None]
    assert back.mean() == pytest.approx(0, abs=1e-5)
    assert back.var() == pytest.approx(1, abs=1e-2)
