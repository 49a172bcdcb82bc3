"""The text of the tokens: in the model's file, or in one of the files that come with it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.whisper.vocabulary import LANGUAGES, STEPS, special_names

_LARGEST = 1 << 26
_TIMES_AND_TASKS = STEPS + 8
"""Special tokens beside the languages."""
_NAMES = ("tokenizer.json", "vocab.json", "vocabulary.json", "vocabulary.txt", "*.tiktoken")


def pieces_of(weights: Checkpoint, source: Path) -> list[bytes]:
    """Of all tokens of the model, special ones by their names."""
    found = list(weights.pieces) or _beside(weights, source)
    # The special tokens are what the model has more than text; the languages are what is left of them.
    languages = min(len(LANGUAGES), weights.words - _TIMES_AND_TASKS - len(_text(found)))
    if languages < 1:
        raise VoiceSetError(f"{weights.name}: {len(found)} tokens of text for {weights.words} logits do not fit")
    made = _text(found)[: weights.words - _TIMES_AND_TASKS - languages] + special_names(languages)
    if len(made) != weights.words:
        raise VoiceSetError(f"{weights.name}: {len(made)} tokens for {weights.words} logits")
    return made


def _text(pieces: list[bytes]) -> list[bytes]:
    """Before the end of the text, which is the first of the special tokens."""
    return pieces[: pieces.index(b"<|endoftext|>")] if b"<|endoftext|>" in pieces else pieces


def _beside(weights: Checkpoint, source: Path) -> list[bytes]:
    folder = source if source.is_dir() else source.parent
    for pattern in _NAMES:
        for path in sorted(folder.rglob(pattern)):
            pieces = _read(path)
            count = len(_text(pieces)) + _TIMES_AND_TASKS
            if 0 < weights.words - count <= len(LANGUAGES) or len(pieces) == weights.words:
                return pieces
    raise VoiceSetError(
        f"{folder}: no tokens that fit {weights.name} ({weights.words} logits); put tokenizer.json, vocab.json, "
        "vocabulary.txt or a .tiktoken file of the same model beside it"
    )


def _read(path: Path) -> list[bytes]:
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; these are no tokens")
        body = path.read_bytes()
        if path.suffix == ".tiktoken":
            rows = [line.split() for line in body.splitlines() if line.strip()]
            return _ordered({base64.b64decode(row[0], validate=True): int(row[1]) for row in rows}, path)
        if path.suffix == ".txt":
            return [_bytes(line) for line in body.decode("utf-8").splitlines()]
        row: Any = json.loads(body)
    except (OSError, ValueError, IndexError, RecursionError, binascii.Error) as error:
        raise VoiceSetError(f"{path}: these tokens cannot be read: {error}") from error
    if path.name == "tokenizer.json":
        model, added = row.get("model", {}), row.get("added_tokens", [])
        row = dict(model.get("vocab", {})) | {one["content"]: one["id"] for one in added if "content" in one}
    if isinstance(row, list):
        return [_bytes(str(one)) for one in row]
    if not isinstance(row, dict) or not all(type(number) is int for number in row.values()):
        raise VoiceSetError(f"{path}: no tokens by number")
    return _ordered({_bytes(text): number for text, number in row.items()}, path)


def _ordered(numbers: Mapping[bytes, int], path: Path) -> list[bytes]:
    most = max(numbers.values(), default=-1) + 1
    if not 0 < most <= 2 * len(numbers) + 16 or min(numbers.values()) < 0:
        raise VoiceSetError(f"{path}: the numbers of its tokens have gaps")
    made = [b""] * most
    for piece, number in numbers.items():
        made[number] = piece
    return made


def _printable() -> dict[str, int]:
    """GPT-2 writes bytes as printable characters: themselves, or from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [one for one in range(256) if one not in plain]
    return {chr(one): one for one in plain} | {chr(256 + at): one for at, one in enumerate(others)}


_BYTES = _printable()


def _bytes(text: str) -> bytes:
    if text.startswith("<|") and text.endswith("|>"):
        return text.encode()
    return bytes(_BYTES[one] for one in text) if all(one in _BYTES for one in text) else text.encode()
