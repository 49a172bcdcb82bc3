"""Which kind of file holds a Whisper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openrknn.llm.files.safetensors import INDEX, WHOLE
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.content import encoders, mentions, model_types
from openrknn.voice.make.whisper import ctranslate, exported, folder, ggml, openai
from openrknn.voice.make.whisper.checkpoint import Checkpoint

_OPENAI = b"model_state_dict"
_HEAD = 1 << 20
_MOST_PARTS = 100


def is_whisper(source: Path) -> bool:
    """For `voice get`: what the content says. Names alone say nothing: others have encoders and tokens, too."""
    if source.is_dir():
        types = model_types(source)
        if types and "whisper" not in types:
            return False
        if "whisper" in types or _files(source):
            return True
        return any(mentions(path, b"input_features") for path in encoders(source))
    return bool(_kind(source))


def _kind(path: Path) -> str:
    """Of one file: "ggml", "ctranslate", "openai", or "" if it is none of them."""
    try:
        with path.open("rb") as file:
            start = file.read(_HEAD)
    except OSError:
        return ""
    if start[:4] == ggml.MAGIC:
        return "ggml"
    if ctranslate.is_model(path):
        return "ctranslate"
    return "openai" if start[:2] == b"PK" and _OPENAI in start else ""


def _files(place: Path) -> list[tuple[str, Path]]:
    """Files of a folder that are a Whisper by themselves; later parts of one belong to the first."""
    found = []
    for pattern in ("*.bin", "*.pt", "*.part1", "*.bin.part*1"):
        for path in sorted(place.rglob(pattern)):
            kind = _kind(path) if path.is_file() else ""
            if kind and (kind, path) not in found:
                found.append((kind, path))
    return found


def open_checkpoint(source: Path, more: Sequence[Path] = ()) -> Checkpoint:
    """The weights of a file or folder; `more` are folders with the other parts of a file in parts."""
    if source.is_file():
        kind = _kind(source)
        if not kind:
            raise VoiceSetError(
                f"{source}: no Whisper: neither OpenAI's checkpoint (.pt), nor whisper.cpp's (ggml), nor CTranslate2's"
            )
        return _open(kind, source, [source.parent, *more])
    for name in (INDEX, WHOLE, folder.PICKLED):
        if found := sorted(source.rglob(name)):
            return folder.read(found[0].parent)
    files = _files(source)
    if len({path.parent for _, path in files}) > 1 or len(files) > 1:
        names = ", ".join(path.name for _, path in files[:8])
        raise VoiceSetError(f"{source}: has several models ({names}); name one of them")
    if files:
        return _open(*files[0], [source, *more])
    return exported.read(source)


def _open(kind: str, path: Path, places: Sequence[Path]) -> Checkpoint:
    if kind == "ggml":
        return ggml.read(path)
    if kind == "openai":
        return openai.read(path)
    return ctranslate.read(_pieces(path, places))


def _pieces(path: Path, places: Sequence[Path]) -> list[Path]:
    """`model.bin.part1` and those behind it, wherever they are."""
    if not path.name.endswith(".part1"):
        return [path]
    stem, found = path.name.removesuffix("1"), [path]
    for number in range(2, _MOST_PARTS):
        following = [one for place in places for one in sorted(place.rglob(f"{stem}{number}")) if one.is_file()]
        if not following:
            break
        found.append(following[0])
    return found
