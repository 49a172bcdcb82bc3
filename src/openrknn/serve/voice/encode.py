"""Speech as bytes: WAV and PCM by ourselves, other formats where this machine has something that writes them."""

from __future__ import annotations

import functools
import io
import shutil
import struct
import subprocess
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, ModelFailedError

__all__ = ["FORMATS", "PCM_RATE", "can_encode", "check", "encode", "usual_format", "wav_head"]

FORMATS = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "aac": "audio/aac",
}
PCM_RATE = 24_000
"""What clients take a bare `pcm` for."""
_SOUNDFILE = {"mp3": ("MP3", "MPEG_LAYER_III"), "flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS")}
_FFMPEG = {
    "mp3": ["-f", "mp3"],
    "flac": ["-f", "flac"],
    "opus": ["-c:a", "libopus", "-f", "ogg"],
    "aac": ["-c:a", "aac", "-f", "adts"],
}
_ENDLESS = 0xFFFFFFFF
_SECONDS = 120.0


def wav_head(rate: int, size: int | None = None) -> bytes:
    """The head of 16-bit mono; without a size, that of a stream whose end is not known."""
    whole = _ENDLESS if size is None else 36 + size
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    data = struct.pack("<4sI", b"data", _ENDLESS if size is None else size)
    return struct.pack("<4sI4s4sI", b"RIFF", whole, b"WAVE", b"fmt ", 16) + form + data


@functools.cache
def can_encode(form: str) -> bool:
    """Whether there is something here that writes this format."""
    return form in {"wav", "pcm"} or _soundfile(form) is not None or (form in _FFMPEG and bool(shutil.which("ffmpeg")))


def usual_format() -> str:
    """Of a request that names none: MP3 as clients expect, or WAV where nothing here writes MP3."""
    return "mp3" if can_encode("mp3") else "wav"


def check(form: object) -> str:
    """A format that a client names."""
    if form is None:
        return usual_format()
    if not isinstance(form, str) or form not in FORMATS:
        raise BadRequestError(f"response_format is one of {', '.join(FORMATS)}, not {str(form)[:40]!r}")
    if not can_encode(form):
        there = ", ".join(one for one in FORMATS if can_encode(one))
        raise BadRequestError(
            f"nothing on this server writes {form!r}; it can give {there} (with ffmpeg or Python's soundfile: more)"
        )
    return form


def encode(samples: Array, rate: int, form: str) -> bytes:
    """A whole recording of 16-bit samples; blocks."""
    if form == "wav":
        return wav_head(rate, samples.nbytes) + samples.astype("<i2").tobytes()
    if form == "pcm":
        return samples.astype("<i2").tobytes()
    soundfile = _soundfile(form)
    if soundfile is not None:
        container, subtype = _SOUNDFILE[form]
        stream = io.BytesIO()
        try:
            soundfile.write(stream, *_at_rate(samples, rate, form), format=container, subtype=subtype)
        except (RuntimeError, ValueError) as error:
            raise ModelFailedError(f"the speech could not be written as {form}: {error}") from None
        return stream.getvalue()
    command = ["ffmpeg", "-v", "error", "-f", "s16le", "-ar", str(rate), "-ac", "1", "-i", "-", *_FFMPEG[form], "-"]
    try:
        sound = samples.astype("<i2").tobytes()
        done = subprocess.run(command, input=sound, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelFailedError(f"the speech could not be written as {form}: {error}") from None
    if done.returncode:
        raise ModelFailedError(f"ffmpeg could not write {form}: {done.stderr[-300:].decode('utf-8', 'replace')}")
    return done.stdout


def _at_rate(samples: Array, rate: int, form: str) -> tuple[Array, int]:
    """Opus knows five rates only."""
    if form != "opus" or rate in {8000, 12000, 16000, 24000, 48000}:
        return samples, rate
    from openrknn.voice.audio import resample

    floats = resample(samples.astype(np.float32) / 32768, rate, PCM_RATE)
    return np.round(np.clip(floats, -1, 1) * 32767).astype(np.int16), PCM_RATE


@functools.cache
def _soundfile(form: str) -> Any:
    """The package, if it is here and its library writes the format."""
    if form not in _SOUNDFILE:
        return None
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package is there and its library is not
        return None
    container, subtype = _SOUNDFILE[form]
    return soundfile if soundfile.check_format(container, subtype) else None
