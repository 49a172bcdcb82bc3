"""Streaming transducers: a small one in sherpa-onnx's form against ONNX Runtime, whole and as a stream."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.runtime.state import Carried
from openrknn.voice import Transcriber, VoiceSetError
from openrknn.voice import stream as stream_module
from openrknn.voice.features import kaldi_fbank
from openrknn.voice.listener import ListenOptions
from openrknn.voice.make.fetch import family_of, get
from openrknn.voice.sets import VoiceSet
from openrknn.voice.transducer import FBANK, OnlineFbank, Transducer, read_tokens
from tests.voice.fake_transducer import BANDS, FAR, LAYERS, LEFT, LENGTH, LONG, SHIFT, WIDTH, write_transducer

Array = npt.NDArray[np.float32]


def sound(seconds: float = 2.0) -> Array:
    """Something that changes."""
    time = np.arange(int(16_000 * seconds)) / 16_000
    swept = np.sin(2 * np.pi * (200 + 700 * np.sin(3 * time)) * time) * (0.2 + 0.2 * np.sin(11 * time))
    return np.asarray(swept + np.random.default_rng(2).standard_normal(len(time)) * 0.02, np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_transducer(tmp_path_factory.mktemp("sherpa") / "models")


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    return get(folder, tmp_path_factory.mktemp("sets") / "tiny")


def float_tokens(folder: Path, samples: Array) -> list[int]:
    """What ONNX Runtime hears, chunk by chunk."""
    runtime = pytest.importorskip("onnxruntime")
    names = ("encoder", "decoder", "joiner")
    nets = [runtime.InferenceSession(str(folder / f"{name}-epoch-9-avg-1.onnx")) for name in names]
    tail = np.zeros(int(0.4 * 16_000) + LENGTH * 160, np.float32)
    frames = OnlineFbank().feed(np.concatenate([samples, tail]))
    h = c = np.zeros((LAYERS, 1, WIDTH), np.float32)
    found: list[int] = []
    for at in range(0, len(frames) - LENGTH + 1, SHIFT):
        rows, h, c = nets[0].run(None, {"x": frames[None, at : at + LENGTH], "h": h, "c": c})
        for row in rows[0]:
            last = np.array([([0, 0, *found])[-2:]], np.int64)
            joint = nets[1].run(None, {"y": last})[0]
            best = int(nets[2].run(None, {"encoder_out": row[None], "decoder_out": joint})[0].argmax())
            if best not in (0, 2):
                found.append(best)
    return found


def float_zipformer(folder: Path, samples: Array) -> list[int]:
    """What ONNX Runtime hears; -1 before the first token, as sherpa-onnx has it."""
    runtime = pytest.importorskip("onnxruntime")
    names = ("encoder", "decoder", "joiner")
    nets = [runtime.InferenceSession(str(folder / f"{name}-epoch-9-avg-1.onnx")) for name in names]
    tail = np.zeros(int(0.4 * 16_000) + LONG * 160, np.float32)
    frames = OnlineFbank().feed(np.concatenate([samples, tail]))
    states = {name: np.zeros((LEFT, 1, WIDTH), np.float32) for name in ("cached_key_0", "cached_val1_0")}
    state: dict[str, object] = {**states, "processed_lens": np.zeros(1, np.int64)}
    found: list[int] = []
    for at in range(0, len(frames) - LONG + 1, FAR):
        rows, *new = nets[0].run(None, {"x": frames[None, at : at + LONG], **state})
        state = dict(zip(state, new, strict=True))
        for row in rows[0]:
            joint = nets[1].run(None, {"y": np.array([([-1, 0, *found])[-2:]], np.int64)})[0]
            best = int(nets[2].run(None, {"encoder_out": row[None], "decoder_out": joint})[0].argmax())
            if best not in (0, 2):
                found.append(best)
    return found


def test_a_zipformer_counts_its_frames_and_begins_without_a_token(tmp_path: Path) -> None:
    folder = write_transducer(tmp_path / "zipformer", is_zipformer=True)
    made = get(folder, tmp_path / "set")
    expected = float_zipformer(folder, sound())
    with Transducer(made, "software") as model:
        assert model.hear(sound(), ListenOptions()).tokens == tuple(expected)
        with model.carry() as carried:
            assert set(carried.joined) == set(carried.pairs)  # the state does not leave the memory of the NPU
            model.encoded(carried, np.zeros((LONG, BANDS), np.float32))
            assert carried.state()["processed_lens"].tolist() == [2]
    assert len(set(expected)) > 5


def test_the_tokens_are_those_of_the_float_model(folder: Path, made: VoiceSet) -> None:
    expected = float_tokens(folder, sound())
    with Transducer(made, "software") as model:
        found = model.hear(sound(), ListenOptions())
    assert len(set(expected)) > 5
    assert found.tokens == tuple(expected)
    assert found.text == "".join(read_tokens(made.file("tokens"))[one] for one in expected).replace("▁", " ").strip()
    assert "".join(word.text for word in found.words).strip() == found.text
    assert all(0 <= word.start < word.end <= 2.6 and 0 < word.probability <= 1 for word in found.words)


def test_a_stream_hears_the_same_and_computes_each_chunk_once(made: VoiceSet, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a machine that is busy partial results come less often.
    monkeypatch.setattr(stream_module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    chunks: list[int] = []
    real = Transducer.encoded

    def counted(model: Transducer, carried: Carried, chunk: Array) -> Array:
        chunks.append(1)
        return real(model, carried, chunk)

    monkeypatch.setattr(Transducer, "encoded", counted)
    with Transcriber(made, "software", activity=None) as listen:
        whole = listen(sound(), 16_000)
        alone, chunks[:] = len(chunks), []
        stream = listen.stream(partial=0.2)
        other = listen.stream(partial=0.2)
        told = []
        for at in range(0, len(sound()), 1600):
            told += stream.feed(sound()[at : at + 1600])
            other.feed(sound()[::-1][at : at + 1600])  # states do not mix
        told += stream.finish()
        assert len(chunks) <= 2 * alone
        other.close()
    partial = [one.text for one in told if not one.final]
    assert len(partial) >= 8
    assert all(whole.text.startswith(text) for text in partial)
    assert told[-1].text == whole.text


def test_more_sound_after_what_looked_like_the_end_goes_on(made: VoiceSet) -> None:
    from openrknn.voice.transducer import Decoding

    with Transducer(made, "software") as model, Decoding(model) as decoding:
        decoding.hear(sound()[:9000], is_over=True)
        found = decoding.hear(sound(), is_over=True)
        assert tuple(found.tokens) == model.hear(sound(), ListenOptions()).tokens


def test_online_filter_banks_are_those_of_the_whole_sound() -> None:
    from dataclasses import replace

    bank = OnlineFbank()
    parts = [bank.feed(sound()[at : at + 333]) for at in range(0, len(sound()), 333)]
    found = np.concatenate(parts)
    whole = kaldi_fbank(sound(), replace(FBANK, snip=False))
    assert found.shape[1] == BANDS
    assert len(whole) - len(found) <= 2  # the last ones would be mirrored at the end
    np.testing.assert_allclose(found, whole[: len(found)], atol=1e-4)


def test_the_family_is_seen_and_what_is_missing_is_named(folder: Path, made: VoiceSet, tmp_path: Path) -> None:
    assert family_of(folder) == "transducer"
    assert json.loads((made.folder / "voice.json").read_text())["options"]["states"] == {"new_h": "h", "new_c": "c"}
    part = write_transducer(tmp_path / "part")
    (part / "tokens.txt").write_text("a 0\nb 2\n")
    with pytest.raises(VoiceSetError, match="not 0, 1, 2"):
        get(part, tmp_path / "one")
    (part / "tokens.txt").unlink()
    with pytest.raises(VoiceSetError, match=r"tokens\.txt"):
        get(part, tmp_path / "two", family="transducer")
    import onnx

    net = part / "encoder-epoch-9-avg-1.onnx"
    model = onnx.load(net)
    del model.metadata_props[:]
    onnx.save(model, net)
    (part / "tokens.txt").write_text("a 0\n")
    with pytest.raises(VoiceSetError, match="no metadata 'T'"):
        get(part, tmp_path / "three")
