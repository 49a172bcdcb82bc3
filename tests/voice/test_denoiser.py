"""Denoiser: any chunks give the same sound, as long as it was, where it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.voice import Audio, AudioError, Denoiser, VoiceSet, VoiceSetError
from openrknn.voice.make import dtln
from tests.voice.nets import Array, recurrent


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import onnx

    folder = tmp_path_factory.mktemp("dtln")
    onnx.save(recurrent(257, 257, seed=1), folder / "model_1.onnx")
    onnx.save(recurrent(512, 512, seed=2, gain=3.0), folder / "model_2.onnx")
    return folder


@pytest.fixture(scope="module")
def voice(source: Path) -> VoiceSet:
    return dtln.make(source, source / "made")


@pytest.fixture(scope="module")
def clean(voice: VoiceSet) -> Iterator[Denoiser]:
    with Denoiser(voice, "software") as one:
        yield one


SOUND = np.random.default_rng(5).standard_normal(2000).astype(np.float32) * 0.1


def _as_the_authors_do(samples: Array, first: Callable[[Array], Array], second: Callable[[Array], Array]) -> Array:
    """Buffers that are shifted by 128 samples, and a result that comes 384 samples late."""
    late = np.concatenate([samples, np.zeros(512, np.float32)])
    heard, made, out = np.zeros(512, np.float32), np.zeros(512, np.float32), []
    for at in range(0, len(late) - 127, 128):
        heard = np.concatenate([heard[128:], late[at : at + 128]])
        spectrum = np.fft.rfft(heard)
        kept = np.abs(spectrum) * first(np.abs(spectrum)) * np.exp(1j * np.angle(spectrum))
        made = np.concatenate([made[128:], np.zeros(128)]) + second(np.fft.irfft(kept))
        out.append(made[:128])
    whole: Array = np.concatenate(out)
    return whole[384 : 384 + len(samples)]


def _float_net(path: Path) -> Callable[[Array], Array]:
    import onnxruntime

    net, state = onnxruntime.InferenceSession(path), np.zeros((1, 2, 16, 1), np.float32)

    def step(numbers: Array) -> Array:
        nonlocal state
        answer: Any
        answer, state = net.run(None, {"x": numbers.astype(np.float32)[None, None], "state": state})
        flat: Array = answer.reshape(-1)
        return flat

    return step


def test_is_the_authors_loop_in_float(source: Path, clean: Denoiser) -> None:
    """Witness: ONNX Runtime in the loop of the authors' real_time_processing."""
    wanted = _as_the_authors_do(SOUND, _float_net(source / "model_1.onnx"), _float_net(source / "model_2.onnx"))
    found = clean(Audio(SOUND, 16_000))
    assert found.rate == 16_000
    error = found.samples - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 50


@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, len(SOUND)), max_size=6), length=st.integers(0, len(SOUND)))
def test_chunks_of_any_size_give_the_same(clean: Denoiser, cuts: list[int], length: int) -> None:
    sound = SOUND[:length]
    whole = clean(sound, 16_000).samples
    assert len(whole) == length
    parts = [clean.feed(part) for part in np.split(sound, sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate([*parts, clean.finish()]), whole)


def test_a_stream_is_at_most_32_ms_late(clean: Denoiser) -> None:
    clean.reset()
    taken = given_back = 0
    for at in range(0, len(SOUND), 50):
        given_back += len(clean.feed(SOUND[at : at + 50]))
        taken += 50
        assert taken - given_back < 512
    clean.reset()


def test_odd_sound(clean: Denoiser) -> None:
    assert clean.feed([]).shape == clean.finish().shape == (0,)
    assert len(clean(SOUND, 8_000).samples) == 2 * len(SOUND)
    for bad in (np.array([np.nan]), np.zeros((3, 2))):
        with pytest.raises(AudioError):
            clean.feed(bad)
    assert clean(np.zeros(1, np.int16), 16_000).samples.shape == (1,)


def test_sets_that_do_not_fit(source: Path, voice: VoiceSet) -> None:
    files = {"spectrum": voice.files["wave"], "wave": voice.files["spectrum"]}
    with pytest.raises(VoiceSetError, match="257 numbers in and 257 out"):
        Denoiser(replace(voice, files=files), "software")
    with pytest.raises(VoiceSetError, match="two models"):
        dtln.make(source / "model_1.onnx", source / "other")
    (source / "half").mkdir()
    (source / "half" / "model_1.onnx").write_bytes((source / "model_1.onnx").read_bytes())
    with pytest.raises(VoiceSetError, match=r"model_2\.onnx"):
        dtln.make(source / "half", source / "other")


def test_denoise(voice: VoiceSet, clean: Denoiser, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    from openrknn.cli.main import main
    from openrknn.voice.audio import read_audio, write_wav

    noisy, out = tmp_path / "noisy.wav", tmp_path / "clean.wav"
    write_wav(noisy, Audio(SOUND, 16_000))
    options = ["--model", str(voice.folder), "--device", "software"]
    assert main(["denoise", str(noisy), str(out), *options]) == 0
    made = read_audio(out)
    wanted = clean(read_audio(noisy)).samples
    assert (made.rate, len(made.samples)) == (16_000, len(SOUND))
    np.testing.assert_allclose(made.samples, wanted.clip(-1, 1), atol=2 / 32768)
    capsysbinary.readouterr()
    assert main(["denoise", str(noisy), str(noisy), *options]) == 2
    assert main(["denoise", str(noisy), "-", "--json", *options]) == 2
    assert main(["denoise", str(tmp_path / "nothing.wav"), str(out), *options]) == 2


def test_what_was_clean_before_an_error_is_kept(
    voice: VoiceSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    from openrknn.cli.main import main
    from openrknn.voice.audio import read_audio

    out, (script, raw) = tmp_path / "clean.wav", (tmp_path / "record.py", tmp_path / "raw")
    raw.write_bytes(np.asarray(SOUND * 32767, "<i2").tobytes())
    script.write_text(f"import sys\nsys.stdout.buffer.write(open({str(raw)!r}, 'rb').read())\nsys.exit('it fell off')")
    monkeypatch.setenv("OPENRKNN_MICROPHONE", f"'{sys.executable}' '{script}'")
    words = ["denoise", "mic", str(out), "--model", str(voice.folder), "--device"]
    assert main([*words, "software"]) == 2
    assert "it fell off" in capsys.readouterr().err
    assert len(read_audio(out).samples) > len(SOUND) - 3200
    assert main([*words, "other", "--force"]) == 2
    assert "no device is called 'other'" in capsys.readouterr().err
