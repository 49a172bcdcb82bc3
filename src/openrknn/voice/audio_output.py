"""Where speech goes: a WAV file that grows, samples on a pipe, the speakers of the machine."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from openrknn.voice.audio import Audio
from openrknn.voice.errors import AudioError
from openrknn.wholefiles import new_file

Sink = Callable[[Audio], None]
_PLAYERS = (
    ("pw-play", ("--rate={rate}", "--channels=1", "--format=s16", "-")),
    ("paplay", ("--raw", "--rate={rate}", "--channels=1", "--format=s16le")),
    ("aplay", ("-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}")),
)
"""Programs that take samples from standard input, the one of today's desktops first."""


def _pcm(audio: Audio) -> bytes:
    return (np.clip(audio.samples, -1.0, 1.0) * 32767.0).round().astype("<i2").tobytes()


def raw_writer(stream: BinaryIO) -> Sink:
    """Samples of 16 bits to a stream, at once."""

    def write(audio: Audio) -> None:
        stream.write(_pcm(audio))
        stream.flush()

    return write


@contextlib.contextmanager
def wav_writer(path: Path, rate: int) -> Iterator[Sink]:
    """A WAV file of 16 bits, written as the pieces come and put in place when the last one is there."""
    try:
        with new_file(path) as stream, wave.open(stream, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            yield lambda audio: file.writeframesraw(_pcm(audio))
    except OSError as error:
        raise AudioError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def player(rate: int) -> Iterator[Sink]:
    """The speakers of this machine, by a program that plays samples."""
    for name, arguments in _PLAYERS:
        if found := shutil.which(name):
            command = [found, *(argument.format(rate=rate) for argument in arguments)]
            break
    else:
        names = ", ".join(name for name, _ in _PLAYERS)
        raise AudioError(f"no program that plays sound ({names}) is here; install alsa-utils, or write a file with -o")
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stderr is not None
    try:
        yield raw_writer(child.stdin)  # type: ignore[arg-type]
        child.stdin.close()
        if child.wait() != 0:
            raise BrokenPipeError(f"ended with {child.returncode}")
    except (BrokenPipeError, ConnectionError) as error:
        child.wait()
        said = child.stderr.read(300).decode(errors="replace").strip().splitlines()
        raise AudioError(f"{command[0]} does not play: {said[0] if said else error}") from None
    finally:
        child.kill()
        child.wait()
        child.stderr.close()
        with contextlib.suppress(OSError):
            child.stdin.close()
