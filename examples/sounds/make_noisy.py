"""How noisy.wav was made: espeak-ng says a sentence, and noise is added to it."""

import subprocess
from pathlib import Path

import numpy as np

from openrknn.voice import Audio
from openrknn.voice.audio import read_audio, resample, write_wav

RATE = 16_000
HERE = Path(__file__).parent

words = "Good morning. It is raining, and the kettle is on."
said = read_audio(subprocess.run(["espeak-ng", "-s", "150", "--stdout", words], capture_output=True, check=True).stdout)
speech = resample(said.samples, said.rate, RATE)
speech = np.concatenate([np.zeros(RATE // 2, np.float32), speech, np.zeros(RATE // 2, np.float32)])
hiss = np.random.default_rng(0).normal(0, 0.02, len(speech))
hum = 0.02 * np.sin(2 * np.pi * 120 * np.arange(len(speech)) / RATE)
write_wav(HERE / "noisy.wav", Audio.of(0.8 * speech + hiss + hum, RATE))
