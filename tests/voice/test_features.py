"""Features beside those of librosa 0.11, torchaudio 2.11 and openai-whisper (tools/make_voice_goldens.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn.voice import AudioError, features
from openrknn.voice.features.frames import hertz, mels

Array = npt.NDArray[Any]
GOLDENS = Path(__file__).parents[1] / "goldens" / "voice" / "features.npz"


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    with np.load(GOLDENS) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def sound(golden: dict[str, Array]) -> Array:
    made: Array = golden["sound"].astype(np.float32) / 32768
    return made


def test_stft_is_librosas(golden: dict[str, Array], sound: Array) -> None:
    found = features.stft(sound, size=512, hop=160, length=400, padding="reflect")
    wanted = golden["stft_real"] + 1j * golden["stft_imag"]
    assert found.shape == (257, 61)
    np.testing.assert_allclose(found[:, ::4], wanted, atol=2e-5)
    power = features.power_spectrum(sound, size=512, hop=160, length=400, padding="reflect")
    np.testing.assert_allclose(power[:, ::4], np.abs(wanted) ** 2, atol=1e-3)


def test_mel_bands_are_librosas(golden: dict[str, Array]) -> None:
    np.testing.assert_allclose(features.mel_banks(16_000, 400, 40), golden["mel_slaney"], atol=1e-8)
    htk = features.mel_banks(22_050, 512, 30, low=80, high=7600, scale="htk", norm=False)
    np.testing.assert_allclose(htk, golden["mel_htk"], atol=1e-6)


@pytest.mark.parametrize("scale", ["slaney", "htk", "kaldi"])
def test_mels_and_back(scale: str) -> None:
    frequencies = np.array([0.0, 20.0, 999.0, 1000.0, 1001.0, 8000.0])
    np.testing.assert_allclose(hertz(mels(frequencies, scale), scale), frequencies, atol=1e-9)


def test_mfcc_is_librosas(golden: dict[str, Array], sound: Array) -> None:
    found = features.mfcc(sound, 16_000, coefficients=13, size=512, hop=160, bands=40)
    np.testing.assert_allclose(found, golden["mfcc"], atol=2e-2)
    assert np.ptp(golden["mfcc"]) > 400


def test_log_mel_is_whispers(golden: dict[str, Array], sound: Array) -> None:
    np.testing.assert_allclose(features.whisper_log_mel(sound), golden["whisper_80"], atol=2e-4)
    np.testing.assert_allclose(features.whisper_log_mel(sound, bands=128)[:, ::8], golden["whisper_128"], atol=2e-4)


def test_filter_banks_are_kaldis(golden: dict[str, Array], sound: Array) -> None:
    """Kaldi by torchaudio.compliance: single precision, so that small bands differ in their last digits."""
    found = features.kaldi_fbank(golden["sound"], features.KaldiOptions(bands=40))
    np.testing.assert_allclose(found, golden["fbank"], atol=5e-3)
    other = features.KaldiOptions(bands=80, snip=False, high=-400, shape="hamming", power=False)
    np.testing.assert_allclose(features.kaldi_fbank(sound, other)[::4], golden["fbank_80"], atol=5e-3)
    np.testing.assert_allclose(features.kaldi_mfcc(golden["sound"]), golden["kaldi_mfcc"], atol=5e-2)


def test_many_frames_are_as_few(sound: Array) -> None:
    """More frames than are computed at once."""
    long = np.tile(sound, 8)
    found = features.stft(long, size=64, hop=16, center=False)
    alone = np.fft.rfft(long[2500 * 16 : 2500 * 16 + 64] * features.window("hann", 64))
    assert found.shape[1] > 4096
    np.testing.assert_allclose(found[:, 2500], alone, atol=1e-9)


def test_little_sound_and_none() -> None:
    nothing = np.zeros(0, np.float32)
    assert features.stft(nothing, size=64, center=False).shape == (33, 0)
    assert features.kaldi_fbank(np.zeros(399)).shape == (0, 23)
    assert features.kaldi_mfcc(nothing).shape == (0, 13)
    assert np.isfinite(features.whisper_log_mel(np.zeros(1600))).all()
    assert np.isfinite(features.mfcc(np.zeros(2048), 16_000)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: features.stft([[1.0, 2.0]]),
        lambda: features.stft([1.0, np.nan]),
        lambda: features.stft(["a"]),
        lambda: features.stft(np.zeros(100), size=0),
        lambda: features.stft(np.zeros(100), size=64, hop=0),
        lambda: features.stft(np.zeros(100), size=64, length=65),
        lambda: features.stft(np.zeros(100), size=64, padding="mirror"),
        lambda: features.stft(np.zeros(100), size=64, shape="square"),
        lambda: features.whisper_log_mel(np.zeros(200)),
        lambda: features.mel_banks(16_000, 400, 40, high=9000),
        lambda: features.mel_banks(16_000, 400, 0),
        lambda: features.mel_banks(16_000, 400, scale="bark"),
        lambda: features.dct_matrix(41, 40),
        lambda: features.kaldi_fbank(np.zeros(100), features.KaldiOptions(snip=False)),
        lambda: features.kaldi_fbank(np.zeros(800), features.KaldiOptions(emphasis=2)),
        lambda: features.kaldi_fbank(np.zeros(800), features.KaldiOptions(rate=10)),
    ],
)
def test_what_makes_no_sense_is_said(wrong: Any) -> None:
    with pytest.raises(AudioError):
        wrong()
