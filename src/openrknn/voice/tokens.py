"""Pieces of words and their numbers.

The file of Moonshine's tokenizer is a row of pieces: a length byte n (from 128 on: n - 128 + 128 * the next byte),
then so many bytes. U+2581 stands for a space, `<0x41>` for a byte, and what else is in angle brackets is not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from openrknn.voice.errors import VoiceSetError

BEGIN, END = 1, 2
_LARGEST = 1 << 24
_MOST = 1 << 20
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁".encode()
_LONGEST = 128 * 256


class Tokenizer:
    """Numbers to text."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(pieces)

    @classmethod
    def read(cls, path: Path) -> Tokenizer:
        """From Moonshine's `tokenizer.bin`."""
        return cls(read_pieces(path))

    def __len__(self) -> int:
        return len(self.pieces)

    def text(self, tokens: Iterable[int]) -> str:
        """What they say; a number that has no piece says nothing."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", errors="replace").strip()

    def bytes_of(self, token: int) -> bytes:
        """What one of them says."""
        piece = self.pieces[token] if 0 <= token < len(self.pieces) else b""
        if match := _BYTE.fullmatch(piece):
            return bytes.fromhex(match[1].decode())
        is_mark = piece.startswith(b"<") and piece.endswith(b">") and len(piece) > 2
        return b"" if is_mark else piece.replace(_SPACE, b" ")


def read_pieces(path: Path) -> list[bytes]:
    """The pieces of a file, in the order of their numbers."""
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; this is no tokenizer")
        data = path.read_bytes()
    except OSError as error:
        raise VoiceSetError(f"{path}: cannot be read: {error.strerror or error}") from error
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128:
            if at == len(data):
                raise VoiceSetError(f"{path}: broken tokenizer: it ends within piece {len(pieces)}")
            length += 128 * data[at] - 128
            at += 1
        if at + length > len(data):
            raise VoiceSetError(f"{path}: broken tokenizer: it ends within piece {len(pieces)}")
        pieces.append(data[at : at + length])
        at += length
        if len(pieces) > _MOST:
            raise VoiceSetError(f"{path}: more than {_MOST} pieces; this is no tokenizer")
    if len(pieces) <= END:
        raise VoiceSetError(f"{path}: {len(pieces)} pieces are no tokenizer")
    return pieces


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """The same, the other way."""
    parts = []
    for piece in pieces:
        size = len(piece)
        if size >= _LONGEST:
            raise VoiceSetError(f"{path}: a token of {size} bytes is none")
        parts.append(bytes([size]) if size < 128 else bytes([size % 128 + 128, size // 128]))
        parts.append(piece)
    path.write_bytes(b"".join(parts))
