"""What files with models say about themselves, read without the models: names in a header, a type in a `config.json`.

Families of speech-to-text models look alike from outside (`encoder_model.onnx` beside a tokenizer), so a folder is
told by what is in it. Everything here may be given any file: what cannot be read says nothing.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable
from pathlib import Path

_LARGEST_CONFIG = 1 << 22
_MOST_FILES = 2000
_ENCODERS = ("encoder_model*.onnx", "encoder_model*.ort", "*encoder*.onnx", "*encode*.ort")


def model_types(source: Path) -> set[str]:
    """`model_type` of every `config.json` in a folder, or beside a file."""
    found = set()
    for path in _below(source if source.is_dir() else source.parent, ("config.json",)):
        row = _json(path)
        if isinstance(row, dict) and isinstance(row.get("model_type"), str):
            found.add(row["model_type"].lower())
    return found


def told_type(source: Path) -> str:
    """For an error: which type the folder's own `config.json` names."""
    types = sorted(model_types(source))
    return f" (its config.json says {', '.join(types)})" if types else ""


def mentions(path: Path, *names: bytes) -> bool:
    """Whether a file holds one of these byte strings: names of inputs are stored as they are in ONNX and ORT files."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(name) >= 0 for name in names)
    except (OSError, ValueError):
        return False


def encoders(source: Path) -> list[Path]:
    """ONNX or ORT files that are called an encoder."""
    return list(_below(source, _ENCODERS)) if source.is_dir() else []


def is_moonshine(source: Path) -> bool | None:
    """Moonshine takes raw sound (`input_values`, or `audio`); others take spectra."""
    types = model_types(source)
    if types:
        return "moonshine" in types
    if any(mentions(path, b"input_features", b"n_audio_state") for path in encoders(source)):
        return False
    return None


def _below(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found: list[Path] = []
    for pattern in patterns:
        for path in folder.rglob(pattern):
            if path.is_file() and path not in found:
                found.append(path)
            if len(found) >= _MOST_FILES:
                return found
    return found


def _json(path: Path) -> object:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
