"""Recordings from files and bytes, and back. WAV needs nothing; other formats need `soundfile` or an `ffmpeg`."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import BinaryIO

import numpy as np

from openrknn.voice.audio.sound import Audio, Samples
from openrknn.voice.audio.wav import WavStream, is_wav
from openrknn.voice.errors import AudioError
from openrknn.wholefiles import write_atomically

_MOST_FRAMES = 1 << 29
"""2 GiB as floats: nine hours at 16 kHz. Longer ones are read as a stream (`blocks`)."""
_LARGEST_FILE = 1 << 32
_PATIENCE = 600.0
"""Seconds that ffmpeg may take."""


def read_audio(source: str | os.PathLike[str] | bytes | BinaryIO) -> Audio:
    """A recording of one channel, at its own rate; several channels are averaged."""
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), "the sound", None)
    if not isinstance(source, str | os.PathLike):
        return _read(source, str(getattr(source, "name", "the sound")), None)
    path = Path(source)
    try:
        with path.open("rb") as stream:
            return _read(stream, str(path), path)
    except OSError as error:
        raise AudioError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(stream: BinaryIO, name: str, path: Path | None) -> Audio:
    first = stream.read(4)
    if not first:
        raise AudioError(f"{name}: is empty; a recording was expected")
    if is_wav(first):
        reader = WavStream(stream, name, first)
        return Audio(joined(reader, name), reader.rate)
    body = b"" if path is not None else first + stream.read(_LARGEST_FILE)
    return _other(body, name, path)


def joined(reader: WavStream, name: str) -> Samples:
    """All of it, if that is not too much."""
    if reader.frames is not None and reader.frames > _MOST_FRAMES:
        raise AudioError(
            f"{name}: {reader.frames / reader.rate / 3600:.1f} hours are too many to read at once; give it as a stream"
        )
    parts, count = [], 0
    for block in reader.blocks(1 << 18):
        parts.append(block)
        count += len(block)
        if count > _MOST_FRAMES:
            raise AudioError(f"{name}: more than {_MOST_FRAMES} samples are too many to read at once; stream it")
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _other(body: bytes, name: str, path: Path | None) -> Audio:
    """FLAC, OGG, MP3 and whatever else somebody on this machine can read."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package is there and its library is not
        soundfile = None
    why = ""
    if soundfile is not None:
        try:
            samples, rate = soundfile.read(io.BytesIO(body) if path is None else str(path), dtype="float32")
            return Audio.of(samples, int(rate))
        except (soundfile.SoundFileError, RuntimeError, TypeError) as error:
            why = f" (soundfile: {error})"
    program = shutil.which("ffmpeg")
    if program is None:
        raise AudioError(
            f"{name}: not a WAV file, and other formats need `pip install soundfile` or an ffmpeg on the PATH{why}"
        )
    return _by_ffmpeg(program, body, name, path)


def _by_ffmpeg(program: str, body: bytes, name: str, path: Path | None) -> Audio:
    # Files are hostile: a playlist inside must not open addresses of the network.
    where = "pipe:0" if path is None else f"file:{path.resolve()}"
    command = [program, "-v", "error", "-nostdin", "-protocol_whitelist", "file,pipe", "-i", where]
    command += ["-vn", "-c:a", "pcm_f32le", "-f", "wav", "pipe:1"]
    try:
        done = subprocess.run(command, input=body or None, capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AudioError(f"{name}: ffmpeg could not read it: {error}") from error
    if done.returncode != 0 or not is_wav(done.stdout[:4]):
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise AudioError(
            f"{name}: no recording that ffmpeg can read: {words[-1][:200] if words else 'no reason given'}"
        )
    reader = WavStream(io.BytesIO(done.stdout), name)
    return Audio(joined(reader, name), reader.rate)


def wav_bytes(audio: Audio) -> bytes:
    """As a WAV file of 16-bit integers; what is louder than 1 is cut."""
    size = 2 * len(audio.samples)
    if size > 0xFFFF_0000:
        raise AudioError(f"{audio.seconds / 3600:.1f} hours do not fit into one WAV file; write several")
    numbers = np.clip(np.rint(audio.samples.astype(np.float64) * 32768), -32768, 32767).astype("<i2")
    header = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, audio.rate, 2 * audio.rate, 2, 16
    )
    return header + struct.pack("<4sI", b"data", size) + numbers.tobytes()


def write_wav(path: str | os.PathLike[str], audio: Audio) -> None:
    """Write a WAV file of 16-bit integers."""
    try:
        write_atomically(path, wav_bytes(audio))
    except OSError as error:
        raise AudioError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}") from error
