"""WAV files and streams: all sample formats; headers are not trusted.

    RIFF, RIFX (big endian), RF64 and BW64 (sizes of 64 bits in a `ds64` chunk)
    integers of 8 (unsigned), 16, 24 and 32 bits, floats of 32 and 64, A-law and mu-law; WAVE_FORMAT_EXTENSIBLE

Recorders that write into a pipe do not know how long they will: sizes of 0, 0xFFFFFFFF and about 2 GiB mean "until the
end" (`WavStream.frames` is None).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import AudioError

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_NAMES = {2: "Microsoft ADPCM", 0x11: "IMA ADPCM", 0x31: "GSM 6.10", 0x50: "MPEG", 0x55: "MP3", 0x161: "WMA"}
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
"""What follows the 16-bit code in the sub-format of WAVE_FORMAT_EXTENSIBLE."""
_ENDLESS = 0x7FFF_0000
"""Sizes from here on are what recorders write into pipes (arecord, sox and ffmpeg each in its way)."""
_MOST_CHUNKS = 1000
_LARGEST_FORMAT = 4096
_LARGEST_SKIP = 1 << 28
_MOST_CHANNELS = 256
_PIECE = 1 << 16


def is_wav(first: bytes) -> bool:
    """Whether a file with these first four bytes claims to be one."""
    return first[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64")


@dataclass(frozen=True)
class _Layout:
    code: int
    channels: int
    rate: int
    frame: int
    """Bytes of all channels at one moment."""
    is_big: bool

    @property
    def width(self) -> int:
        return self.frame // self.channels


class WavStream:
    """The sound in a WAV file, channels averaged, a block at a time; `stream` needs `read` only."""

    def __init__(self, stream: BinaryIO, name: str = "the sound", first: bytes = b"") -> None:
        self._stream, self.name, self._ahead, self._position = stream, name, first, 0
        self._layout, size = self._header()
        self.rate = self._layout.rate
        self.channels = self._layout.channels
        self.frames = None if size is None else size // self._layout.frame
        """As the header promises; None where it does not know."""

    # -- header --------------------------------------------------------------------------------------------------

    def _header(self) -> tuple[_Layout, int | None]:
        kind = self._exactly(4, "the first four bytes")
        if not is_wav(kind):
            raise AudioError(f"{self.name}: not a WAV file: it begins with {kind!r} where RIFF, RIFX or RF64 belongs")
        is_big = kind == b"RIFX"
        order = ">" if is_big else "<"
        whole = self._number(order, "the size of the file")
        if (form := self._exactly(4, "the form")) != b"WAVE":
            raise AudioError(f"{self.name}: a RIFF file of {form!r}, not of sound (WAVE)")
        layout: _Layout | None = None
        long_size: int | None = None
        for _ in range(_MOST_CHUNKS):
            chunk = self._exactly(4, "the name of a chunk (is there no `data` chunk?)")
            size = self._number(order, f"the size of the chunk {chunk!r}")
            if chunk == b"data":
                if layout is None:
                    raise AudioError(
                        f"{self.name}: the `data` chunk at byte {self._position - 8} comes before any `fmt `"
                    )
                return layout, self._data_size(size, whole, long_size)
            if chunk == b"fmt ":
                if not 16 <= size <= _LARGEST_FORMAT:
                    raise AudioError(f"{self.name}: a `fmt ` chunk of {size} bytes; 16, 18 or 40 are usual")
                layout = self._format(self._exactly(size, "the `fmt ` chunk"), is_big=is_big)
            elif chunk == b"ds64" and 24 <= size <= _LARGEST_FORMAT:
                long_size = struct.unpack_from(order + "Q", self._exactly(size, "the `ds64` chunk"), 8)[0]
            else:
                self._skip(size, chunk)
            if size % 2:
                self._exactly(1, f"the byte after the chunk {chunk!r}")
        raise AudioError(f"{self.name}: no `data` chunk among the first {_MOST_CHUNKS} chunks")

    def _data_size(self, size: int, whole: int, long_size: int | None) -> int | None:
        if size == 0xFFFF_FFFF and long_size:
            return long_size if long_size < 1 << 62 else None
        if size >= _ENDLESS:
            return None
        # A size of 0 was written before the sound was there, unless the size of the file counts chunks behind it.
        if size == 0 and not self._position - 8 < whole < _ENDLESS:
            return None
        return size

    def _format(self, body: bytes, *, is_big: bool) -> _Layout:
        code, channels, rate, _, frame, bits = struct.unpack_from((">" if is_big else "<") + "HHIIHH", body)
        if code == _EXTENSIBLE:
            if len(body) < 40 or body[26:40] != _GUID_TAIL:
                raise AudioError(f"{self.name}: an extensible WAV format whose sub-format is not a known one")
            code = struct.unpack_from(">H" if is_big else "<H", body, 24)[0]
        if not 1 <= channels <= _MOST_CHANNELS:
            raise AudioError(f"{self.name}: {channels} channels; 1 to {_MOST_CHANNELS} are understood")
        if not 1000 <= rate <= 1_000_000:
            raise AudioError(f"{self.name}: a rate of {rate} samples a second makes no sense; 8000 to 48000 is usual")
        widths = {_PCM: (1, 2, 3, 4), _FLOAT: (4, 8), _ALAW: (1,), _MULAW: (1,)}.get(code)
        if widths is None:
            what = _NAMES.get(code, "an unknown code")
            raise AudioError(
                f"{self.name}: WAV with {what} (format {code:#x}) is not read; make plain numbers of it with "
                "`ffmpeg -i IN -c:a pcm_s16le OUT.wav`"
            )
        width, rest = divmod(frame, channels)
        if rest or width not in widths or not 1 <= bits <= 8 * width:
            raise AudioError(
                f"{self.name}: {bits} bits, {channels} channels and {frame} bytes a frame do not fit together"
            )
        return _Layout(code, channels, rate, frame, is_big)

    # -- sound ---------------------------------------------------------------------------------------------------

    def blocks(self, frames: int = 16_384, *, is_strict: bool = True) -> Iterator[Samples]:
        """The sound, at most `frames` at a time.

        A recording that ends before its header says is an error if `is_strict`, else simply over.
        """
        size = self._layout.frame
        done, promised = 0, self.frames
        while promised is None or done < promised:
            wanted = frames if promised is None else min(frames, promised - done)
            raw = self._take(wanted * size)
            count = len(raw) // size
            if count:
                done += count
                yield self._decoded(raw[: count * size], done - count)
            if count < wanted:
                if is_strict and promised is not None:
                    raise AudioError(
                        f"{self.name}: cut off: the header promises {promised / self.rate:.2f} s and "
                        f"{done / self.rate:.2f} s are there; to use what is there, give it as a stream (`-` < FILE)"
                    )
                return

    def _decoded(self, raw: bytes, at: int) -> Samples:
        layout, width = self._layout, self._layout.width
        order = ">" if layout.is_big else "<"
        floats: Samples
        if layout.code == _FLOAT:
            # A signalling NaN may become infinite on the way; both are refused below.
            with np.errstate(all="ignore"):
                floats = np.asarray(np.frombuffer(raw, f"{order}f{width}"), np.float32)
            if not np.isfinite(floats).all():
                second = at / layout.rate
                raise AudioError(f"{self.name}: near {second:.2f} s are numbers that are not finite (NaN or infinite)")
        elif layout.code in (_ALAW, _MULAW):
            floats = _companded(layout.code)[np.frombuffer(raw, np.uint8)]
        elif width == 1:
            floats = np.asarray((np.frombuffer(raw, np.uint8) - 128.0) / 128, np.float32)
        elif width == 3:
            # Three bytes become the upper ones of four.
            wide = np.zeros((len(raw) // 3, 4), np.uint8)
            wide[:, slice(0, 3) if layout.is_big else slice(1, 4)] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
            floats = np.asarray(wide.view(f"{order}i4")[:, 0] / 2.0**31, np.float32)
        else:
            floats = np.asarray(np.frombuffer(raw, f"{order}i{width}") / 2.0 ** (8 * width - 1), np.float32)
        if layout.channels > 1:
            floats = floats.reshape(-1, layout.channels).mean(axis=1, dtype=np.float32)
        return np.ascontiguousarray(floats)

    # -- bytes ---------------------------------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        """That many bytes, or what is left: pipes give them in pieces."""
        parts: list[bytes] = []
        if self._ahead:
            parts.append(self._ahead[:count])
            self._ahead = self._ahead[count:]
        have = sum(map(len, parts))
        while have < count:
            part = self._stream.read(count - have)
            if not part:
                break
            parts.append(part)
            have += len(part)
        self._position += have
        return b"".join(parts)

    def _exactly(self, count: int, what: str) -> bytes:
        found = self._take(count)
        if len(found) < count:
            raise AudioError(f"{self.name}: broken WAV file: it ends at byte {self._position}, within {what}")
        return found

    def _number(self, order: str, what: str) -> int:
        return int(struct.unpack(order + "I", self._exactly(4, what))[0])

    def _skip(self, size: int, chunk: bytes) -> None:
        if size > _LARGEST_SKIP:
            raise AudioError(f"{self.name}: broken WAV file: its chunk {chunk!r} claims {size} bytes")
        while size:
            size -= len(self._exactly(min(size, _PIECE), f"the chunk {chunk!r}"))


def _companded(code: int) -> Samples:
    """What the 256 bytes of A-law and mu-law mean (ITU-T G.711)."""
    byte = np.arange(256)
    if code == _MULAW:
        turned = byte ^ 0xFF
        exponent, mantissa = turned >> 4 & 7, turned & 15
        size = ((mantissa * 2 + 33) << exponent) - 33
        sign = np.where(turned & 0x80, -1, 1)
        return np.asarray(sign * size / 8192, np.float32)
    turned = byte ^ 0x55
    exponent, mantissa = turned >> 4 & 7, turned & 15
    size = np.where(exponent == 0, mantissa * 2 + 1, (mantissa * 2 + 33) << np.maximum(exponent - 1, 0))
    sign = np.where(turned & 0x80, 1, -1)
    return np.asarray(sign * size / 4096, np.float32)
