"""Streamed audio: `blocks` of 16 kHz from a file, from standard input or from a microphone, in little memory."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from openrknn.voice.audio.decoders import decoded_file, decoded_stream
from openrknn.voice.audio.formats import HEAD, format_of
from openrknn.voice.audio.rates import Resampler
from openrknn.voice.audio.sound import Samples
from openrknn.voice.audio.wav import WavStream, is_wav
from openrknn.voice.errors import AudioError, MicrophoneError


def blocks(
    source: str | os.PathLike[str] | BinaryIO, *, rate: int = 16_000, size: int = 1600, raw_rate: int | None = None
) -> Iterator[Samples]:
    """Blocks of `size` samples at `rate`, the last one shorter.

    `source` is a file, `-` for standard input, a binary stream, or `mic` or `mic:DEVICE`. The format of a stream is
    seen in its first bytes; `raw_rate`: they are raw samples of this rate (16 bits, little endian, one channel).
    """
    if isinstance(source, str) and (source == "mic" or source.startswith("mic:")):
        return _even(_at_rate(microphone(source[4:], size=size), MICROPHONE_RATE, rate), size)
    if source == "-":
        return _even(_piped(sys.stdin.buffer, "standard input", rate, size, raw_rate), size)
    if isinstance(source, str | os.PathLike):
        return _even(_file(Path(source), rate, size), size)
    return _even(_piped(source, str(getattr(source, "name", "the stream")), rate, size, raw_rate), size)


def _file(path: Path, rate: int, size: int) -> Iterator[Samples]:
    try:
        with path.open("rb") as stream:
            first = stream.read(4)
            if not first:
                raise AudioError(f"{path}: is empty; a recording was expected")
            if is_wav(first):
                reader = WavStream(stream, str(path), first)
                yield from _at_rate(reader.blocks(_frames(reader.rate, rate, size)), reader.rate, rate)
                return
    except OSError as error:
        raise AudioError(f"{path}: cannot be read: {error.strerror or error}") from error
    with decoded_file(path, str(path)) as (found, parts):
        yield from _at_rate(parts, found, rate)


def _piped(stream: BinaryIO, name: str, rate: int, size: int, raw_rate: int | None) -> Iterator[Samples]:
    first = _filled(stream, b"", 4)
    if is_wav(first):
        reader = WavStream(stream, name, first)
        # A pipe that ends early was closed by somebody: what came is what there is.
        coming = reader.blocks(_frames(reader.rate, rate, size), is_strict=False)
        yield from _at_rate(coming, reader.rate, rate)
    elif raw_rate is not None:
        yield from _at_rate(_raw(stream, first, _frames(raw_rate, rate, size)), raw_rate, rate)
    elif not first:
        raise AudioError(f"{name}: is empty; a recording was expected")
    else:
        head = _filled(stream, first, HEAD)
        kind = format_of(head)
        if kind is None:
            raise AudioError(
                f"{name}: begins with {head[:8]!r}, which is no format of recordings that is known (WAV, FLAC, OGG, "
                "MP3, MP4, ...). Raw 16-bit samples of one channel are read when their rate is given: --rate 16000, or "
                "blocks(..., raw_rate=16000)"
            )
        with decoded_stream(stream, head, kind, name, size) as (found, parts):
            yield from _at_rate(parts, found, rate)


def _filled(stream: BinaryIO, held: bytes, count: int) -> bytes:
    """So many bytes, or all that there are: a pipe gives them in pieces."""
    while len(held) < count and (part := stream.read(count - len(held))):
        held += part
    return held


def _raw(stream: BinaryIO, held: bytes, frames: int) -> Iterator[Samples]:
    while True:
        part = stream.read(2 * frames - len(held))
        held += part or b""
        if not part or len(held) == 2 * frames:
            count = len(held) // 2
            if count:
                yield (np.frombuffer(held[: 2 * count], "<i2") / 32768.0).astype(np.float32)
            held = b""
        if not part:
            return


def _frames(rate: int, to: int, size: int) -> int:
    """How many samples at `rate` make about a block: reading more would wait for sound that is not there yet."""
    return max(1, size * rate // to)


def _at_rate(parts: Iterable[Samples], rate: int, to: int) -> Iterator[Samples]:
    machine = Resampler(rate, to)
    for part in parts:
        yield machine.feed(part)
    yield machine.finish()


def _even(parts: Iterable[Samples], size: int) -> Iterator[Samples]:
    held = np.zeros(0, np.float32)
    for part in parts:
        held = np.concatenate([held, part]) if len(held) else part
        whole = len(held) // size * size
        for at in range(0, whole, size):
            yield held[at : at + size]
        held = held[whole:]
    if len(held):
        yield held


# A microphone, by whatever program or package of this machine records from it.
#
# $OPENRKNN_MICROPHONE is a command that writes raw 16-bit samples (little endian, one channel, 16 kHz) to its standard
# output, for boards where none of the usual ones does.

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
