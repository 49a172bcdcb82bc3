"""Which format a recording has, by its first bytes: names lie, and what comes by a pipe has none."""

from __future__ import annotations

from collections.abc import Callable

HEAD = 4096
"""Bytes that decide: two whole frames of MP3 (1441 bytes at most) fit."""
_STARTS = (
    (b"RIFF", "WAV"), (b"RIFX", "WAV"), (b"RF64", "WAV"), (b"BW64", "WAV"), (b"fLaC", "FLAC"), (b"OggS", "OGG"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM"), (b"FORM", "AIFF"), (b".snd", "AU"), (b"caff", "CAF"), (b"#!AMR", "AMR"),
    (b"0&\xb2u\x8ef\xcf\x11", "WMA"), (b"wvpk", "WavPack"), (b"MAC ", "Monkey's Audio"), (b"FLV\x01", "FLV"),
    (b"\x0bw", "AC-3"), (b"\x00\x00\x01\xba", "MPEG"), (b"TTA1", "TTA"), (b"DSD ", "DSD"),
)  # fmt: skip
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"pnot", b"styp")
"""What the first box of an MP4 or QuickTime file is called, behind its length."""
_MP3_RATES = ((11_025, 12_000, 8000), None, (22_050, 24_000, 16_000), (44_100, 48_000, 32_000))
_AAC_RATES = 13
_PACKET = 188


def format_of(head: bytes) -> str | None:
    """The name of the format that begins with these bytes, of which `HEAD` should be given if there are so many."""
    for start, name in _STARTS:
        if head.startswith(start):
            return name
    if head[:3] == b"ID3" and len(head) >= 10 and head[3] < 0x10 and max(head[6:10]) < 0x80:
        return "MP3"
    if head[4:8] in _BOXES and (head[:4] != bytes(4) or head[4:8] == b"mdat"):
        return "MP4"
    if _frames(head, _mp3_frame):
        return "MP3"
    if _frames(head, _aac_frame):
        return "AAC"
    if len(head) > 2 * _PACKET and head[0] == head[_PACKET] == head[2 * _PACKET] == 0x47:
        return "MPEG-TS"
    return None


def _frames(head: bytes, length: Callable[[bytes, int], int]) -> bool:
    """Two frames, the second where the first says. One header alone is likely in samples: they are 12 bits of ones."""
    first = length(head, 0)
    if not first:
        return False
    return bool(length(head, first)) if first + 7 <= len(head) else first == len(head)


def _mp3_frame(head: bytes, at: int) -> int:
    """How long the frame of MPEG audio is that begins there; 0 if none does."""
    if len(head) < at + 4 or head[at] != 0xFF or head[at + 1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[at + 1] >> 3 & 3, head[at + 1] >> 1 & 3
    bits, rate, padding = head[at + 2] >> 4, head[at + 2] >> 2 & 3, head[at + 2] >> 1 & 1
    rates = _MP3_RATES[version]
    if rates is None or layer == 0 or bits in (0, 15) or rate == 3:
        return 0
    kilobits = _kilobits(is_first=version == 3, layer=4 - layer)[bits]
    if layer == 3:
        return (12_000 * kilobits // rates[rate] + padding) * 4
    frames = 72_000 if layer == 1 and version != 3 else 144_000
    return frames * kilobits // rates[rate] + padding


def _kilobits(*, is_first: bool, layer: int) -> tuple[int, ...]:
    """Kilobits a second by the index of a header: of MPEG 1, or of MPEG 2 and 2.5; 0 where there is none."""
    if layer == 1:
        rising = range(32, 449, 32) if is_first else (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)
        return (0, *rising)
    if not is_first:
        return (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
    if layer == 2:
        return (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
    return (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)


def _aac_frame(head: bytes, at: int) -> int:
    """How long the ADTS frame is that begins there; 0 if none does."""
    if len(head) < at + 7 or head[at] != 0xFF or head[at + 1] & 0xF6 != 0xF0 or head[at + 2] >> 2 & 15 >= _AAC_RATES:
        return 0
    length = (head[at + 3] & 3) << 11 | head[at + 4] << 3 | head[at + 5] >> 5
    return length if length > 7 else 0
