"""FLAC, MP3, MP4 and the rest, decoded by `soundfile` or by an `ffmpeg` on the PATH, a block at a time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np

from openrknn.errors import InputWarning
from openrknn.voice.audio.sound import Audio, Samples
from openrknn.voice.audio.wav import WavStream
from openrknn.voice.errors import AudioError

_BLOCK = 1 << 14
"""Frames that are decoded at a time."""
_PIECE = 1 << 16
_LARGEST_FILE = 1 << 32
_SEEKING = ("MP4", "AIFF", "CAF", "WavPack")
"""Their tables may be at the end, or far from what they describe: a decoder has to go back and forth in them."""

_REPORTED = re.compile(r"\[(error|fatal|panic)\] +(.*)")
"""How ffmpeg marks its messages with `-v level+info`."""
_DURATION = re.compile(r"Duration: (\d+):(\d\d):(\d\d\.\d+)")
_MISSING, _MISSING_SHARE = 0.5, 0.02
"""Seconds, and share of a recording, that may be missing at its end: coders pad, and some lengths are estimates."""

Decoded = tuple[int, Iterator[Samples]]
"""The rate, and blocks of one channel."""


@contextmanager
def decoded_file(path: Path, name: str, size: int = _BLOCK) -> Iterator[Decoded]:
    """The sound in a file of any format that somebody on this machine can read."""
    file, why = _opened_by_soundfile(path)
    if file is not None:
        with file:
            yield int(file.samplerate), _soundfile_blocks(file, name, size)
        return
    program = shutil.which("ffmpeg")
    if program is None:
        raise AudioError(
            f"{name}: not a WAV file, and other formats need `pip install soundfile` or an ffmpeg on the PATH{why}"
        )
    # Files are hostile: a playlist inside must not open addresses of the network.
    with _ffmpeg([program, "-protocol_whitelist", "file,pipe", "-i", f"file:{path.resolve()}"], name, size) as found:
        yield found


@contextmanager
def decoded_stream(stream: BinaryIO, head: bytes, kind: str, name: str, size: int = _BLOCK) -> Iterator[Decoded]:
    """The sound in a stream of the format `kind`, whose first bytes `head` were read already.

    It is decoded while it arrives if ffmpeg is installed and the format allows it, else when it is complete.
    """
    program = shutil.which("ffmpeg")
    if program is not None and kind not in _SEEKING:
        with _ffmpeg([program, "-protocol_whitelist", "pipe", "-i", "pipe:0"], name, size, stream, head) as found:
            yield found
        return
    with tempfile.NamedTemporaryFile(prefix="openrknn-sound-") as spool:
        written = spool.write(head)
        while part := stream.read(_PIECE):
            written += spool.write(part)
            if written > _LARGEST_FILE:
                raise AudioError(f"{name}: more than {_LARGEST_FILE >> 30} GiB of {kind}; cut it, or decode it before")
        spool.flush()
        with decoded_file(Path(spool.name), name, size) as found:
            yield found


def _opened_by_soundfile(path: Path) -> tuple[Any, str]:
    """The open file, or None and why not."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package is there and its library is not
        return None, ""
    try:
        return soundfile.SoundFile(str(path)), ""
    except (soundfile.SoundFileError, RuntimeError, TypeError) as error:
        return None, f" (soundfile: {error})"


def _soundfile_blocks(file: Any, name: str, size: int) -> Iterator[Samples]:
    frames, rate = 0, int(file.samplerate)
    try:
        while len(part := file.read(size, dtype="float32")):
            frames += len(part)
            yield Audio.of(part, rate).samples
    except RuntimeError as error:  # SoundFileError is one
        raise AudioError(f"{name}: broken: soundfile stopped reading it: {error}") from error
    _check_length(name, frames / rate, _Report(int(file.frames) / rate, ()))


@contextmanager
def _ffmpeg(
    begin: list[str], name: str, size: int, stream: BinaryIO | None = None, head: bytes = b""
) -> Iterator[Decoded]:
    quiet = ("-hide_banner", "-nostats", "-nostdin", "-v", "level+info")
    command = [begin[0], *quiet, *begin[1:], "-vn", "-c:a", "pcm_f32le", "-f", "wav", "pipe:1"]
    # Its words go to a file: nobody reads a pipe while sound is read, and a full one would stop it.
    with tempfile.TemporaryFile() as words:
        source = subprocess.DEVNULL if stream is None else subprocess.PIPE
        try:
            child = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=words)
        except OSError as error:
            raise AudioError(f"{name}: ffmpeg cannot be started: {error.strerror or error}") from error
        assert child.stdout is not None  # asked for above
        problems: list[OSError] = []
        if stream is not None:
            assert child.stdin is not None  # asked for above
            arguments = (stream, head, child.stdin, problems)
            threading.Thread(target=_pump, args=arguments, name="openrknn-decoding", daemon=True).start()
        try:
            try:
                reader = WavStream(cast(BinaryIO, child.stdout), name)
            except AudioError:
                child.wait()
                why = _last_words(words).removeprefix(f"{command[command.index('-i') + 1]}: ")
                raise AudioError(f"{name}: no recording that ffmpeg can read: {why}") from None
            yield reader.rate, _ffmpeg_blocks(reader, child, words, problems, size)
        finally:
            child.kill()
            child.stdout.close()
            child.wait()


def _ffmpeg_blocks(
    reader: WavStream, child: subprocess.Popen[bytes], words: IO[bytes], problems: list[OSError], size: int
) -> Iterator[Samples]:
    frames = 0
    for block in reader.blocks(size, is_strict=False):
        frames += len(block)
        yield block
    if child.wait() != 0:
        raise AudioError(
            f"{reader.name}: ffmpeg stopped after {frames / reader.rate:.2f} s of sound: {_last_words(words)}"
        )
    if problems:
        raise AudioError(f"{reader.name}: cannot be read on: {problems[0].strerror or problems[0]}")
    _check_length(reader.name, frames / reader.rate, _report_of(words))


@dataclass(frozen=True, slots=True)
class _Report:
    """What a decoder says of a recording that it decoded to the end."""

    promised: float
    """Seconds by the tables of the file; 0: unknown."""
    errors: tuple[str, ...]


def _report_of(words: IO[bytes]) -> _Report:
    words.seek(0)
    text = words.read(_PIECE).decode(errors="replace")
    found = _DURATION.search(text)
    is_guess = "Estimating duration from bitrate" in text
    hours, minutes, seconds = map(float, found.groups()) if found and not is_guess else (0.0, 0.0, 0.0)
    return _Report(3600 * hours + 60 * minutes + seconds, tuple(match[2] for match in _REPORTED.finditer(text)))


def _check_length(name: str, seconds: float, report: _Report) -> None:
    """A decoder that passes over damage ends without an error.

    Damage and less sound than promised is an error. One of both alone is a warning: the video may be longer than its
    sound, and a damaged frame may be a click.
    """
    is_short = seconds < report.promised * (1 - _MISSING_SHARE) - _MISSING
    lengths = f"its tables promise {report.promised:.2f} s and {seconds:.2f} s of sound could be read"
    damage = f"errors while decoding, such as {report.errors[-1][:200]!r}" if report.errors else ""
    if is_short and damage:
        raise AudioError(
            f"{name}: cut off or damaged: {lengths} ({damage}); copy it again, or give what is there as a stream "
            "(`-` < FILE)"
        )
    if is_short or damage:
        told = f"{name}: {lengths if is_short else damage}; is it cut off or damaged?"
        warnings.warn(told, InputWarning, stacklevel=2)


def _pump(stream: BinaryIO, head: bytes, pipe: IO[bytes], problems: list[OSError]) -> None:
    """Bytes to the decoder, as they arrive: a whole piece of a live stream may take seconds."""
    read = getattr(stream, "read1", stream.read)
    part = head
    with suppress(BrokenPipeError, ValueError):  # the decoder ended, or nobody wants to know the rest
        try:
            while part:
                pipe.write(part)
                pipe.flush()
                try:
                    part = read(_PIECE)
                except OSError as error:
                    problems.append(error)
                    break
        finally:
            pipe.close()


def _last_words(words: IO[bytes]) -> str:
    end = words.seek(0, os.SEEK_END)
    words.seek(max(0, end - 1000))
    lines = words.read().decode(errors="replace").strip().splitlines()
    reported = [match[2] for line in lines if (match := _REPORTED.search(line))]
    return ([*lines[-1:], *reported] or ["no reason given"])[-1][:200]


def all_of(parts: Iterator[Samples], most: int, name: str) -> Samples:
    """Blocks, joined, if they are not too many samples."""
    found: list[Samples] = []
    count = 0
    for block in parts:
        found.append(block)
        count += len(block)
        if count > most:
            raise AudioError(f"{name}: more than {most} samples are too many to read at once; stream it")
    return np.concatenate(found) if found else np.zeros(0, np.float32)
