"""Moonshine with some layers in int8. Witness: the same weights in the exporter's graph, in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.container.load import load
from openrknn.container.parts import DataType
from openrknn.voice import Audio, VoiceSetError
from openrknn.voice.audio import write_wav
from openrknn.voice.make.fetch import get
from openrknn.voice.make.moonshine import make
from openrknn.voice.make.recordings import sounds_of
from openrknn.voice.moonshine import Moonshine
from tests.voice.fake_moonshine import HEADS, SIZE, Fake

onnxruntime = pytest.importorskip("onnxruntime")
Array = npt.NDArray[np.float32]


def noise(seconds: float, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-0.3, 0.3, round(16_000 * seconds)).astype(np.float32)


def float_logits(source: Path, samples: Array, tokens: list[int]) -> Array:
    encoder, decoder = (
        onnxruntime.InferenceSession(str(source / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        for name in ("encoder_model", "decoder_model_merged")
    )
    feed = {"tokens": np.array([tokens], np.float32)}
    feed["encoder_hidden_states"] = encoder.run(None, {"input_values": samples[None]})[0]
    feed["past_key_values.0.decoder.key"] = np.zeros((1, HEADS, 1, SIZE), np.float32)
    return np.asarray(decoder.run(["logits"], feed)[0][0], np.float32)


def test_a_mixed_set_has_int8_layers_in_every_bucket_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second bucket is beyond what is calibrated with: its ranges are those of the first.
    monkeypatch.setattr("openrknn.voice.make.moonshine._LONGEST", 0.6)
    source = Fake().write(tmp_path / "source")
    write_wav(source / "speech.WAV", Audio(noise(2.3, 1), 16_000))
    made = make(source, tmp_path, name="fake", precision="mixed", buckets=(0.5, 1))
    assert made.options["precision"] == "mixed"
    graphs = load(made.file("encoder")).graphs
    assert len(graphs) == 2
    for graph in graphs:
        weights = [tensor.name for tensor in graph.tensors if tensor.dtype == DataType.INT8]
        assert [name for name in weights if name.endswith("_w")] == ["1.mlp.fc1.product_w"]
    tokens = [1, 9, 30, 7, 7, 21]
    with Moonshine(made, "software") as model:
        for seconds in (0.4, 0.8):
            samples = noise(seconds, 5)
            wanted, found = float_logits(source, samples, tokens), model.logits(samples, tokens)
            decibels = 20 * np.log10(np.linalg.norm(wanted) / np.linalg.norm(wanted - found))
            assert decibels > 30  # 45; all layers in fp16 have 50 and more, a mask that was not seen has 9


def test_int8_alone_is_refused_with_the_reason_and_the_set_that_is_there_stays(tmp_path: Path) -> None:
    source = Fake().write(tmp_path / "source")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "voice.json").write_text("{}")
    with pytest.raises(VoiceSetError, match=r"no precision 'int8'\. All of it in int8 .* mixed, which has"):
        get(source, tmp_path / "set", precision="int8")
    with pytest.raises(VoiceSetError, match="fp16 needs none"):
        get(source, tmp_path / "set", calibrate=source)
    with pytest.raises(VoiceSetError, match="no such folder"):
        get(source, tmp_path / "set", precision="mixed", calibrate=tmp_path / "nothing")
    assert (tmp_path / "set" / "voice.json").exists()


def test_mixed_without_sound_asks_for_some(tmp_path: Path) -> None:
    source = Fake().write(tmp_path / "source")
    write_wav(source / "short.wav", Audio(noise(0.2, 1), 16_000))
    write_wav(source / "silent.wav", Audio(np.zeros(16_000, np.float32), 16_000))
    with pytest.raises(VoiceSetError, match=r"source: no recording .* `--calibrate FOLDER` names a folder"):
        get(source, tmp_path / "set", precision="mixed")
    write_wav(tmp_path / "other.wav", Audio(noise(1, 1), 32_000))  # half a second of noise at another rate
    assert [len(one) for one in sounds_of(tmp_path, 16_000)] == [8_000]
