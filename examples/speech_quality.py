"""How good does speech sound? DNSMOS, a network that was trained on what people said, on the NPU.

    python examples/speech_quality.py dnsmos.rknn speech.wav        16 kHz, 16 bit, mono
    python examples/speech_quality.py dnsmos.rknn                   an invented voice, clean and in noise

The model is not in this repository: `model_v8.onnx` of PyPI's speechmos 0.0.1.1 (MIT) converts with rknn-toolkit2 as it
is. Its input is a mel spectrogram [1, 900, 120]: nine seconds, 120 bands, in decibels. Its output is a mean opinion
score from 1 (bad) to 5 (excellent).
"""

from __future__ import annotations

import sys
import wave

import numpy as np

from openrknn import Session

RATE_HZ = 16000
WINDOW_SAMPLES, HOP_SAMPLES = 321, 160
BANDS, FRAMES = 120, 900
SECONDS = 9


def mel_of(hertz: np.ndarray) -> np.ndarray:
    """Slaney's scale: linear up to 1000 Hz, logarithmic above."""
    above = 15 + 27 * np.log(np.maximum(hertz, 1000) / 1000) / np.log(6.4)
    return np.where(hertz < 1000, hertz * 3 / 200, above)


def hertz_of(mel: np.ndarray) -> np.ndarray:
    """The way back."""
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) * (mel - 15) / 27))


def filters() -> np.ndarray:
    """[bands, bins]: triangles between neighbouring mel frequencies, each of area one."""
    bins = np.fft.rfftfreq(WINDOW_SAMPLES, 1 / RATE_HZ)
    edges = hertz_of(np.linspace(0, mel_of(np.array(RATE_HZ / 2)), BANDS + 2))
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None])


def spectrogram(sound: np.ndarray) -> np.ndarray:
    """[1, frames, bands], -1 to 1: decibels below the loudest, 80 dB deep, as DNSMOS wants them."""
    padded = np.pad(sound, WINDOW_SAMPLES // 2)
    starts = np.arange(FRAMES) * HOP_SAMPLES
    frames = padded[starts[:, None] + np.arange(WINDOW_SAMPLES)]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES)
    powers = (np.abs(np.fft.rfft(frames * window, axis=1)) ** 2) @ filters().T
    decibels = 10 * np.log10(np.maximum(powers, 1e-10) / max(powers.max(), 1e-10))
    return np.asarray((np.maximum(decibels, -80) + 40) / 40, np.float32)[None]


def voice() -> np.ndarray:
    """Something like a voice: a buzz of falling pitch, in syllables, through three resonances."""
    time = np.arange(SECONDS * RATE_HZ) / RATE_HZ
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    sound = np.zeros_like(time)
    for harmonic in range(1, 30):
        hertz = 120 * harmonic
        resonance = sum(np.exp(-(((hertz - centre) / 180) ** 2)) for centre in (600, 1300, 2500))
        sound += resonance * np.sin(harmonic * phase) / harmonic**0.5
    syllables = np.clip(np.sin(2 * np.pi * 3 * time), 0, 1) ** 0.5 * (np.sin(2 * np.pi * 0.4 * time) > -0.6)
    return np.asarray(0.3 * sound * syllables / np.abs(sound).max())


def recorded(path: str) -> np.ndarray:
    """Nine seconds of a WAV file; a shorter one is repeated."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE_HZ, 2, 1):
            raise SystemExit(f"{path}: 16000 Hz, 16 bit, one channel is needed")
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
    return np.resize(sound, SECONDS * RATE_HZ)


def main() -> None:
    """Judge a file, or an invented voice with more and more noise."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    with Session(sys.argv[1]) as session:
        if len(sys.argv) > 2:
            sounds = {sys.argv[2]: recorded(sys.argv[2])}
        else:
            noise = np.random.default_rng(0).normal(0, 1, SECONDS * RATE_HZ)
            sounds = {f"voice, noise {level}": voice() + level * noise for level in (0.0, 0.01, 0.05, 0.2)}
        for name, sound in sounds.items():
            (score,) = session.run(spectrogram(sound)).values()
            print(f"{name}: {float(score.reshape(-1)[0]):.2f} of 5")


if __name__ == "__main__":
    main()
