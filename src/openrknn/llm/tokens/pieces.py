"""What the text of a token in a vocabulary means as bytes."""

from __future__ import annotations

import re

from openrknn.llm.tokens.encoders import SPACE

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


def _printable() -> dict[str, int]:
    """GPT-2's signs for bytes: those that can be printed are themselves, the others follow from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in shown]
    return {chr(value): value for value in shown} | {chr(0x100 + place): value for place, value in enumerate(hidden)}


_BYTES = _printable()


def byte_level(text: str) -> bytes:
    """GPT-2; signs that are no bytes stand for themselves."""
    return b"".join(bytes([_BYTES[sign]]) if sign in _BYTES else sign.encode() for sign in text)


def sentence_piece(text: str) -> bytes:
    """SentencePiece: <0x0A> is a byte, and its sign for a space is one."""
    match = _BYTE.match(text)
    return bytes([int(match[1], 16)]) if match else text.replace(SPACE, " ").encode()


def hash_piece(text: str) -> bytes:
    """BERT, as its own files write it: what continues a word begins with ##."""
    return (text[2:] if text.startswith("##") else f" {text}").encode()


def word_piece(text: str) -> bytes:
    """BERT, as GGUF writes it: what begins a word begins with the sign of a space."""
    return text.replace(SPACE, " ").encode()
