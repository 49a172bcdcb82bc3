"""A microphone, by whatever program or package of this machine records from it.

$OPENRKNN_MICROPHONE is a command that writes raw 16-bit samples (little endian, one channel, 16 kHz) to its standard
output, for boards where none of the usual ones does.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import MicrophoneError

MICROPHONE_RATE = 16_000
_SILENCE = 5.0
"""Seconds without one byte: even a silent microphone sends zeros."""


def _command(device: str) -> list[str] | None:
    if chosen := os.environ.get("OPENRKNN_MICROPHONE"):
        return shlex.split(chosen)
    rate = str(MICROPHONE_RATE)
    if program := shutil.which("arecord"):
        return [program, "-q", *(["-D", device] if device else []), "-f", "S16_LE", "-r", rate, "-c", "1", "-t", "raw"]
    if program := shutil.which("parec"):
        words = [program, "--raw", "--format=s16le", f"--rate={rate}", "--channels=1", "--latency-msec=50"]
        return words + ([f"--device={device}"] if device else [])
    if program := shutil.which("pw-record"):
        words = [program, "--raw", "--format=s16", f"--rate={rate}", "--channels=1"]
        return [*words, *([f"--target={device}"] if device else []), "-"]
    return None


def microphone(device: str = "", *, size: int = 1600, patience: float = _SILENCE) -> Iterator[Samples]:
    """Blocks of `size` samples at 16 kHz until the iterator is closed, or a MicrophoneError when it goes away."""
    command = _command(device)
    if command is not None:
        yield from _child(command, size, patience)
        return
    try:
        import sounddevice
    except (ImportError, OSError):
        raise MicrophoneError(
            "no way to a microphone here: install alsa-utils (arecord), or pulseaudio-utils (parec), or "
            "`pip install sounddevice`, or set OPENRKNN_MICROPHONE to a command that writes raw 16-bit 16 kHz"
        ) from None
    try:
        with sounddevice.InputStream(
            samplerate=MICROPHONE_RATE, channels=1, dtype="float32", device=device or None
        ) as stream:
            while True:
                yield np.array(stream.read(size)[0][:, 0], np.float32)
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"the microphone cannot be read: {error}") from error


def _child(command: list[str], size: int, patience: float) -> Iterator[Samples]:
    frames = 0
    # Its words go to a file: nobody reads a pipe while sound is read, and a full one would stop it.
    with tempfile.TemporaryFile() as words:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, bufsize=0)
        except OSError as error:
            raise MicrophoneError(f"{command[0]} cannot be started: {error.strerror or error}") from error
        assert child.stdout is not None  # asked for above
        try:
            held = b""
            while True:
                if not select.select([child.stdout], [], [], patience)[0]:
                    raise MicrophoneError(
                        f"the microphone gives nothing for {patience:g} s ({command[0]}), after {_heard(frames)}"
                    )
                part = os.read(child.stdout.fileno(), 2 * size - len(held))
                if not part:
                    code = child.wait()
                    raise MicrophoneError(_went_away(command[0], code, frames, _tail(words)))
                held += part
                if len(held) == 2 * size:
                    frames += size
                    yield (np.frombuffer(held, "<i2") / 32768.0).astype(np.float32)
                    held = b""
        finally:
            child.kill()
            child.stdout.close()
            child.wait()


def _went_away(program: str, code: int, frames: int, words: str) -> str:
    when = f"went away after {_heard(frames)}" if frames else "cannot be opened"
    return f"the microphone {when}: {program} ended with {code}{': ' + words if words else ''}"


def _heard(frames: int) -> str:
    return f"{frames / MICROPHONE_RATE:.1f} s of sound"


def _tail(words: IO[bytes]) -> str:
    end = words.seek(0, os.SEEK_END)
    words.seek(max(0, end - 500))
    lines = words.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""
