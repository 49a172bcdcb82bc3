"""Sound as numbers: files, streams and microphones in, files out, other rates.

sound       Audio: numbers and their rate
files       read_audio, write_wav, wav_bytes;   wav: the format, hostile files and endless streams
formats     which format it is, by its first bytes;   decoders: those that soundfile and ffmpeg read
rates       resample, Resampler
sources     blocks of a file, of standard input, of a microphone;   microphone: the programs that record
"""

from __future__ import annotations

from openrknn.voice.audio.files import read_audio, wav_bytes, write_wav
from openrknn.voice.audio.rates import Resampler, resample
from openrknn.voice.audio.sound import Audio, Samples
from openrknn.voice.audio.sources import blocks

__all__ = ["Audio", "Resampler", "Samples", "blocks", "read_audio", "resample", "wav_bytes", "write_wav"]
