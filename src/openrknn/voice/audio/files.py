"""Recordings from files and bytes, and back. WAV needs nothing; other formats need `soundfile` or an `ffmpeg`."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from openrknn.voice.audio.decoders import all_of, decoded_file, decoded_stream
from openrknn.voice.audio.formats import HEAD, format_of
from openrknn.voice.audio.sound import Audio
from openrknn.voice.audio.wav import WavStream, is_wav
from openrknn.voice.errors import AudioError
from openrknn.wholefiles import write_atomically

_MOST_FRAMES = 1 << 29
"""2 GiB as floats: nine hours at 16 kHz. Longer ones are read as a stream (`blocks`)."""


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
        if reader.frames is not None and reader.frames > _MOST_FRAMES:
            hours = reader.frames / reader.rate / 3600
            raise AudioError(f"{name}: {hours:.1f} hours are too many to read at once; give it as a stream")
        return Audio(all_of(reader.blocks(1 << 18), _MOST_FRAMES, name), reader.rate)
    if path is not None:
        with decoded_file(path, name) as (rate, parts):
            return Audio(all_of(parts, _MOST_FRAMES, name), rate)
    head = first + (stream.read(HEAD - len(first)) or b"")
    kind = format_of(head)
    if kind is None:
        raise AudioError(
            f"{name}: begins with {head[:8]!r}, which is no format of recordings that is known (WAV, FLAC, OGG, MP3, "
            "MP4, WebM, ...)"
        )
    with decoded_stream(stream, head, kind, name) as (rate, parts):
        return Audio(all_of(parts, _MOST_FRAMES, name), rate)


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
