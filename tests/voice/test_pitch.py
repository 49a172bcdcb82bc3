"""Pitch: CREPE's frames and bins, with small random weights; and weights of PyTorch, read without PyTorch."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from openrknn.voice import Audio, AudioError, Pitch, VoiceSetError
from openrknn.voice.make import crepe
from openrknn.voice.make.nets import compile_net
from openrknn.voice.make.pickled import read_state
from openrknn.voice.pitch import frequencies_of
from openrknn.voice.sets import VoiceSet, write_set
from tests.voice.nets import Array

SOUND = np.random.default_rng(1).standard_normal(1500).astype(np.float32) * 0.1


def _state(seed: int = 0) -> dict[str, Array]:
    """Weights of CREPE's shape with few channels."""
    rng = np.random.default_rng(seed)
    state: dict[str, Array] = {}
    before = 1
    for layer, channels in enumerate((8, 4, 4, 4, 4, 4), 1):
        length = 512 if layer == 1 else 64
        state[f"conv{layer}.weight"] = rng.standard_normal((channels, before, length, 1)) / np.sqrt(before * length)
        state |= {f"conv{layer}.bias": rng.standard_normal(channels) * 0.1,
                  f"conv{layer}_BN.weight": rng.uniform(0.5, 1.5, channels),
                  f"conv{layer}_BN.bias": rng.standard_normal(channels) * 0.1,
                  f"conv{layer}_BN.running_mean": rng.standard_normal(channels) * 0.1,
                  f"conv{layer}_BN.running_var": rng.uniform(0.5, 1.5, channels)}  # fmt: skip
        before = channels
    state["classifier.weight"] = rng.standard_normal((360, 16)) * 0.5
    state["classifier.bias"] = rng.standard_normal(360) * 0.1
    return {key: np.asarray(value, np.float32) for key, value in state.items()}


@pytest.fixture(scope="module")
def pitch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pitch]:
    folder = tmp_path_factory.mktemp("crepe")
    compile_net(crepe.crepe_net(_state(), "here"), folder / "pitch.rknn", "rk3588")
    voice = VoiceSet(folder, "fake-crepe", "crepe", "pitch", 16_000, files={"net": "pitch.rknn"})
    write_set(voice)
    with Pitch(folder, "software") as one:
        yield one


def test_frames_are_those_of_onnx_runtime(pitch: Pitch) -> None:
    """Frame t is around 10 t ms, without its mean and with a deviation of 1."""
    import onnxruntime

    net = onnxruntime.InferenceSession(crepe.crepe_net(_state(), "here").SerializeToString())
    padded = np.pad(SOUND, 512)
    found = pitch.salience(Audio(SOUND, 16_000))
    assert found.shape == (1 + 1500 // 160, 360)
    for at, row in enumerate(found):
        frame = padded[160 * at : 160 * at + 1024].astype(np.float64)
        normal = ((frame - frame.mean()) / frame.std(ddof=1)).astype(np.float32)
        np.testing.assert_allclose(row, net.run(None, {"frame": normal[None, None, None]})[0].reshape(-1), atol=5e-3)
    track = pitch(SOUND, 16_000)
    np.testing.assert_allclose(track.times[:3], [0, 0.01, 0.02], atol=1e-6)
    np.testing.assert_array_equal(track.confidence, found.max(axis=1))


def test_frequencies() -> None:
    """20 cents a bin; bin 228 is 6 cents above 440 Hz by torchcrepe's table; equal neighbours: between them."""
    rows = np.zeros((3, 360), np.float32)
    rows[0, 228] = rows[1, 228] = rows[1, 229] = 0.5
    rows[1, 100] = 0.4
    found = frequencies_of(rows)
    assert 1200 * np.log2(found[0] / 440) == pytest.approx(6.06, abs=0.01)
    assert 1200 * np.log2(found[1] / found[0]) == pytest.approx(10, abs=0.1)
    assert np.isfinite(found[2])


def test_odd_sound(pitch: Pitch) -> None:
    assert pitch(np.zeros(0, np.float32), 16_000).frequencies.shape == (0,)
    assert np.isfinite(pitch(np.zeros(300, np.float32), 16_000).frequencies).all()
    with pytest.raises(AudioError):
        pitch(SOUND, 16_000, hop=0)


def _saved(path: Path, body: bytes, storages: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", body)
        for key, value in (storages or {}).items():
            archive.writestr(f"net/data/{key}", value)
    return path


def _tensor_pickle(count: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """{'w': _rebuild_tensor_v2(storage 0, 0, size, stride)} in the words of pickle's protocol 2."""

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"J" + value.to_bytes(4, "little", signed=True) for value in values) + b"t"

    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    storage += b"J" + count.to_bytes(4, "little") + b"tQ"
    return (
        b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("
        + storage + b"K\x00" + numbers(size) + numbers(stride) + b"\x89NtRs."
    )  # fmt: skip


def test_weights_without_pytorch(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    path = _saved(tmp_path / "w.pth", _tensor_pickle(6, (2, 3), (3, 1)), {"0": values.tobytes()})
    np.testing.assert_array_equal(read_state(path)["w"], values.reshape(2, 3))
    path = _saved(tmp_path / "t.pth", _tensor_pickle(6, (2, 3), (1, 2)), {"0": values.tobytes()})
    np.testing.assert_array_equal(read_state(path)["w"], values.reshape(3, 2).T)


@pytest.mark.parametrize(
    "body",
    [
        b"cos\nsystem\n(X\x04\x00\x00\x00true tR.",
        _tensor_pickle(6, (2, 4), (4, 1)),
        _tensor_pickle(6, (2, 3), (3, 2)),
        _tensor_pickle(6, (2**20, 2**20), (0, 0)),
        _tensor_pickle(6, (-1, -6), (6, 1)),
        b"\x80\x02K\x01.",
        b"",
        b"garbage",
    ],
)
def test_hostile_weights_do_nothing(tmp_path: Path, body: bytes) -> None:
    path = _saved(tmp_path / "w.pth", body, {"0": bytes(24)})
    with pytest.raises(VoiceSetError):
        read_state(path)


def test_weights_that_are_others(tmp_path: Path) -> None:
    (tmp_path / "text.pth").write_text("no zip")
    with pytest.raises(VoiceSetError):
        read_state(tmp_path / "text.pth")
    with pytest.raises(VoiceSetError, match="not the weights of CREPE"):
        crepe.crepe_net({"w": np.zeros(3)}, "here")
