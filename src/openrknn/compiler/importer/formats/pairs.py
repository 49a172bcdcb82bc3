"""Networks of two files: one that says the layers (text), and one with the weights.

Either file can be given; the other is then looked for beside it, with the same stem. If its name differs, both are
given as a pair: `openrknn.compile(("net.cfg", "other.weights"))`, `openrknn compile net.cfg --weights other.weights`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from openrknn.compiler.errors import ModelError

Part: TypeAlias = "str | os.PathLike[str] | bytes"
Source: TypeAlias = "Part | tuple[Part, Part]"

_MOST_BYTES = (1 << 31) - 1
_MOST_NAMED = 4
_PAIRS = {"darknet": {".cfg", ".weights"}, "caffe": {".prototxt", ".caffemodel"}}
"""Reader -> the suffixes of its files."""


def kind_of_pair(source: Sequence[Part]) -> str:
    """Which reader takes two files: their names say it, or what is inside."""
    suffixes = {_suffix(part) for part in source}
    for kind, known in _PAIRS.items():
        if suffixes & known:
            return kind
    for part in source:
        head = _head(part)
        if head.lstrip().startswith((b"[net", b"#", b"[")):
            return "darknet"
    return "caffe"


def pair_of(source: Source, first: tuple[str, ...], second: tuple[str, ...], what: str) -> tuple[Part, Part]:
    """Layers and weights, in this order, whatever was given; `first` and `second` are their suffixes."""
    if isinstance(source, tuple | list):
        if len(source) != 2:
            raise ModelError(f"{what} has two files, {first[0]} and {second[0]}; {len(source)} were given")
        layers, weights = source
        if _suffix(layers) in second or _suffix(weights) in first:
            return weights, layers
        return layers, weights
    if isinstance(source, bytes | bytearray | memoryview):
        raise ModelError(f"{what} has two files, {first[0]} and {second[0]}; give both as a pair")
    path = Path(source)
    wanted = first if path.suffix.lower() in second else second
    other = next((found for suffix in wanted if (found := _beside(path, suffix)) is not None), None)
    if other is None:
        raise ModelError(_missing(path, wanted, what))
    return (other, path) if wanted is first else (path, other)


def name_of(part: Source) -> str:
    """For messages: a pair is named by its first file."""
    if isinstance(part, tuple | list):
        return name_of(part[0])
    return "the model" if isinstance(part, bytes | bytearray | memoryview) else str(part)


def read_bytes(part: Part, most: int = _MOST_BYTES) -> bytes:
    """A file, or what a program has of it."""
    if isinstance(part, bytes | bytearray | memoryview):
        data = bytes(part)
    else:
        try:
            size = Path(part).stat().st_size
            data = Path(part).read_bytes() if size <= most else b""
        except OSError as error:
            raise ModelError(f"{part} cannot be read: {error.strerror}") from None
        if size > most:
            raise ModelError(f"{part} has {size} bytes; more than {most} cannot be")
    if not data:
        raise ModelError(f"{name_of(part)} is empty")
    return data


def _suffix(part: Part) -> str:
    return "" if isinstance(part, bytes | bytearray | memoryview) else Path(part).suffix.lower()


def _head(part: Part) -> bytes:
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part[:64])
    try:
        with Path(part).open("rb") as file:
            return file.read(64)
    except OSError:
        return b""


def _beside(path: Path, suffix: str) -> Path | None:
    """The file of the same stem; its suffix may be in capitals."""
    exact = path.with_suffix(suffix)
    return exact if exact.exists() else next((p for p in (path.with_suffix(suffix.upper()),) if p.exists()), None)


def _missing(path: Path, wanted: tuple[str, ...], what: str) -> str:
    is_structure = wanted[0] in {".cfg", ".prototxt"}
    try:
        found = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix.lower() in wanted)
    except OSError:
        found = []
    text = f"{path} is one of the two files of {what}; {path.with_suffix(wanted[0]).name} is not beside it"
    if found:
        more = " ..." if len(found) > _MOST_NAMED else ""
        text += f" (there are {', '.join(found[:_MOST_NAMED])}{more})"
    if is_structure:
        return f"{text}. Give both: openrknn compile NET{wanted[0]} --weights {path}"
    return f"{text}. Give both: openrknn compile {path} --weights FILE{wanted[0]}"
