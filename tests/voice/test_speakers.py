"""Who speaks: a small encoder of random weights against NumPy, clusters, and segments with names."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import Segment, Transcript, VoiceSetError
from openrknn.voice.make.fetch import get
from openrknn.voice.make.pickled_old import read_old_state
from openrknn.voice.sets import VoiceSet
from openrknn.voice.speakers import SpeakerEmbedding, SpeakerTracker, label_speakers, with_speakers

Array = npt.NDArray[Any]
WIDTH, BANDS, LAYERS = 16, 40, 2


def state() -> dict[str, Array]:
    random = np.random.default_rng(4)
    found: dict[str, Array] = {}
    for at in range(LAYERS):
        found[f"lstm.weight_ih_l{at}"] = random.standard_normal((4 * WIDTH, WIDTH if at else BANDS)) * 0.4
        found[f"lstm.weight_hh_l{at}"] = random.standard_normal((4 * WIDTH, WIDTH)) * 0.4
        found[f"lstm.bias_ih_l{at}"] = random.standard_normal(4 * WIDTH) * 0.2
        found[f"lstm.bias_hh_l{at}"] = random.standard_normal(4 * WIDTH) * 0.2
    found |= {"linear.weight": random.standard_normal((WIDTH, WIDTH)), "linear.bias": np.full(WIDTH, 0.3)}
    return {key: np.asarray(value, np.float32) for key, value in found.items()}


class Storage:
    """The numbers of a tensor."""

    def __init__(self, key: str, value: Array) -> None:
        self.key, self.value = key, value


class Tensor:
    """Pickled as PyTorch does it."""

    def __init__(self, key: str, value: Array) -> None:
        self.storage, self.value = Storage(key, value), value

    def __reduce__(self) -> tuple[Any, ...]:
        strides = tuple(step // 4 for step in self.value.strides)
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (self.storage, 0, self.value.shape, strides, False, {})


class Writer(pickle.Pickler):
    """Storages are named, not written."""

    def persistent_id(self, one: object) -> Any:
        if isinstance(one, Storage):
            return ("storage", sys.modules["torch"].FloatStorage, one.key, "cpu", one.value.size, None)
        return None


def old_file(values: dict[str, Array], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """As PyTorch wrote files before version 1.6."""

    def _rebuild_tensor_v2() -> None:
        """Never called here."""

    torch, utils = ModuleType("torch"), ModuleType("torch._utils")
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    kind = type("FloatStorage", (), {"__module__": "torch"})
    torch.FloatStorage, utils._rebuild_tensor_v2 = kind, _rebuild_tensor_v2  # type: ignore[attr-defined]
    out = io.BytesIO()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "torch", torch)
        patched.setitem(sys.modules, "torch._utils", utils)
        for header in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(header, out, protocol=2)
        tensors = {name: Tensor(str(at), value) for at, (name, value) in enumerate(values.items())}
        Writer(out, protocol=2).dump({"step": 3, "model_state": tensors})
    pickle.dump([str(at) for at in range(len(values))], out, protocol=2)
    for value in values.values():
        out.write(struct.pack("<q", value.size) + value.tobytes())
    return out.getvalue()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VoiceSet:
    (tmp_path / "pretrained.pt").write_bytes(old_file(state(), monkeypatch))
    return get(tmp_path / "pretrained.pt", tmp_path / "set")


def expected(mel: Array) -> Array:
    """A window by PyTorch's formulas."""

    def sigmoid(value: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-value)))

    weights = state()
    h, c = np.zeros((LAYERS, WIDTH)), np.zeros((LAYERS, WIDTH))
    for row in mel:
        value = row.astype(np.float64)
        for at in range(LAYERS):
            gates = weights[f"lstm.weight_ih_l{at}"] @ value + weights[f"lstm.bias_ih_l{at}"]
            gates = gates + weights[f"lstm.weight_hh_l{at}"] @ h[at] + weights[f"lstm.bias_hh_l{at}"]
            one, forget, new, out = gates.reshape(4, WIDTH)
            c[at] = sigmoid(forget) * c[at] + sigmoid(one) * np.tanh(new)
            h[at] = sigmoid(out) * np.tanh(c[at])
            value = h[at]
    found = np.maximum(0, weights["linear.weight"] @ h[-1] + weights["linear.bias"])
    return np.asarray(found / np.linalg.norm(found))


def test_an_embedding_is_that_of_the_float_model(made: VoiceSet) -> None:
    mel = np.abs(np.random.default_rng(1).standard_normal((160, BANDS))).astype(np.float32)
    with SpeakerEmbedding(made, "software") as embed:
        np.testing.assert_allclose(embed._window(mel), expected(mel), atol=5e-3)
        sound = np.random.default_rng(2).standard_normal(30_000).astype(np.float32) * 0.1
        assert np.linalg.norm(embed(sound, 16_000)) == pytest.approx(1, abs=1e-5)
        assert embed(np.zeros(10, np.float32), 16_000).shape == (WIDTH,)


def test_a_tracker_embeds_the_sound_of_each_segment(made: VoiceSet) -> None:
    sound = np.random.default_rng(2).standard_normal(5 * 16_000).astype(np.float32) * 0.1
    with SpeakerEmbedding(made, "software") as embed:
        tracker = SpeakerTracker(embed, 16_000, 1)
        for at in range(0, len(sound), 1600):
            tracker.feed(sound[at : at + 1600])
        segment = Segment(0, 1.0, 2.5, "hello")
        tracker.take(segment)
        np.testing.assert_array_equal(tracker._vectors[0], embed(sound[16_000:40_000], 16_000))
        assert tracker.named([segment])[0].speaker == "Speaker 1"


def test_voices_that_are_alike_are_one_speaker() -> None:
    random = np.random.default_rng(0)
    voices = np.eye(3, 8)
    who = [1, 0, 1, 2, 0, 2, 1]
    vectors = [np.asarray(voices[at] + random.standard_normal(8) * 0.1, np.float32) for at in who]
    assert label_speakers(vectors) == [0, 1, 0, 2, 1, 2, 0]
    assert len(set(label_speakers(vectors, 2))) == 2
    assert label_speakers([]) == []
    with pytest.raises(VoiceSetError, match="65 speakers"):
        label_speakers(vectors, 65)
    segments = [Segment(at, at, at + 1, f"text {at}") for at in range(len(who))]
    found = Transcript(tuple(with_speakers(segments, vectors)), 7.0)
    assert "<v Speaker 2>text 1" in found.vtt()
    assert "Speaker 3: text 3" in found.srt()
    assert found.as_json()["segments"][0]["speaker"] == "Speaker 1"


@pytest.mark.parametrize("cut", [10, 300, -100])
def test_broken_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    path = tmp_path / "pretrained.pt"
    path.write_bytes(old_file(state(), monkeypatch)[:cut])
    with pytest.raises(VoiceSetError, match=r"pretrained\.pt: these weights cannot be read"):
        read_old_state(path, "model_state")
    path.write_bytes(pickle.dumps(print))
    with pytest.raises(VoiceSetError, match="which weights do not need"):
        read_old_state(path, "model_state")
