"""The real Silero and DTLN, where the shared models are: seconds of speech beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn.voice import Audio, Denoiser, VoiceActivity
from openrknn.voice.audio import read_audio
from openrknn.voice.make import dtln, silero
from openrknn.voice.spans import find_spans
from tests.runtime.cases import MODELS, shared_case
from tests.voice.nets import Array

VOICE = MODELS / "voice"


def _decibels(wanted: Array, found: Array) -> float:
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


def _speech(seconds: float) -> Array:
    samples = read_audio(shared_case(VOICE / "beckett.wav")).samples[: int(16_000 * seconds)]
    noise: Array = np.random.default_rng(0).standard_normal(len(samples)) * 0.01
    return (samples + noise).astype(np.float32)


def test_silero(tmp_path: Path) -> None:
    import onnxruntime

    sound = _speech(3.0)
    net = onnxruntime.InferenceSession(shared_case(VOICE / "silero_vad_16k_op15.onnx"))
    padded = np.concatenate([np.zeros(64, np.float32), sound, np.zeros(-len(sound) % 512, np.float32)])
    state, wanted = np.zeros((2, 1, 128), np.float32), []
    for at in range(0, len(padded) - 64, 512):
        given = {"input": padded[None, at : at + 576], "state": state, "sr": np.array(16_000)}
        chance, state = net.run(None, given)
        wanted.append(float(chance[0, 0]))
    with VoiceActivity(silero.make(VOICE, tmp_path), "software") as activity:
        found = activity.probabilities(sound, 16_000)
    assert _decibels(np.array(wanted), np.array(found)) > 45
    assert find_spans(found, len(sound)) == find_spans(wanted, len(sound)) != []


def test_dtln(tmp_path: Path) -> None:
    import onnxruntime

    sound = _speech(0.8)
    first, second = (onnxruntime.InferenceSession(shared_case(VOICE / f"dtln_{part}.onnx")) for part in (1, 2))
    states = [np.zeros((1, 2, 128, 2), np.float32)] * 2
    heard, summed, out = np.zeros(512, np.float32), np.zeros(512), []
    for block in np.concatenate([sound, np.zeros(512, np.float32)]).reshape(-1, 128):
        heard = np.concatenate([heard[128:], block])
        spectrum = np.fft.rfft(heard)
        size = np.abs(spectrum).astype(np.float32)[None, None]
        mask, states[0] = first.run(None, {"input_2": size, "input_3": states[0]})
        wave = np.fft.irfft(spectrum * mask.reshape(-1)).astype(np.float32)[None, None]
        cleaned, states[1] = second.run(None, {"input_4": wave, "input_5": states[1]})
        summed = np.concatenate([summed[128:], np.zeros(128)]) + cleaned.reshape(-1)
        out.append(summed[:128])
    wanted = np.concatenate(out)[384 : 384 + len(sound)]
    with Denoiser(dtln.make(VOICE, tmp_path), "software") as clean:
        found = clean(Audio(sound, 16_000)).samples
    assert _decibels(wanted, found) > 45
