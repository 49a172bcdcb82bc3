"""What a compiled file keeps of the file it was made of, so that it generates text alone: vocabulary and template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.llm.errors import TokenizerError
from openrknn.llm.files.gguf import GgufFile
from openrknn.llm.tokens import Tokenizer
from openrknn.llm.tokens.folder_tokens import files_tokenizer, folder_files
from openrknn.llm.tokens.gguf_tokens import gguf_tokenizer

__all__ = ["assets_of", "tokenizer_in", "vocabulary_assets"]

VOCABULARY = "vocabulary.json"
_PREFIX = "tokenizer."
_MOST = 256 << 20


def assets_of(path: Path) -> dict[str, bytes]:
    """What the compiled file of a GGUF file or of a folder keeps of it."""
    if path.is_dir():
        return folder_files(path)
    return vocabulary_assets(GgufFile(path).metadata)


def vocabulary_assets(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """Of the metadata of a GGUF file."""
    words: dict[str, Any] = {}
    for key, value in metadata.items():
        if key.startswith(_PREFIX):
            is_array = isinstance(value, np.ndarray)
            words[key] = {"numbers": value.tolist(), "type": value.dtype.str} if is_array else value
    return {VOCABULARY: json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()}


def tokenizer_in(assets: Mapping[str, bytes], name: str) -> Tokenizer:
    """The tokenizer of a compiled file; `name` is for messages."""
    if "tokenizer.json" in assets:
        return files_tokenizer(assets)
    data = assets.get(VOCABULARY)
    if data is None:
        raise UnsupportedError(
            f"{name}: the compiled file has no vocabulary; `openrknn llm compile` puts one into what it makes"
        )
    try:
        words = json.loads(data) if len(data) <= _MOST else None
    except (ValueError, RecursionError):
        words = None
    if not isinstance(words, dict):
        raise TokenizerError(f"{name}: {VOCABULARY} is not the vocabulary of a model")
    return gguf_tokenizer({key: _value(key, value) for key, value in words.items()})


def _value(key: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    try:
        kind = np.dtype(str(value["type"]))
        if kind.kind not in "iufb":
            raise TypeError
        return np.array(value["numbers"], kind)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise TokenizerError(f"{VOCABULARY}: {key!r:.80} is no list of numbers") from None
