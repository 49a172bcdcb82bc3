"""What training tools write into an ONNX file about the model: names of classes, task, picture size, stride.

Ultralytics' exports have them in `metadata_props`, as texts of Python values. The compiler keeps them in the notes of a
`.rknn`, under "metadata"; `openrknn.vision` uses them. Both are strangers' texts: they are read with bounds, nothing in
them is executed, and what is not as it should be is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.container.model import Model
from openrknn.container.notes import Note, parse
from openrknn.errors import BadTextError

TASKS = ("detect", "segment", "classify", "pose", "obb")
_KEY = "metadata"
_MOST_NAMES, _LONGEST_NAME, _LONGEST_TEXT = 65_536, 256, 4 << 20
_LARGEST_SIZE = 65_536


@dataclass(frozen=True, slots=True)
class Metadata:
    """Nothing where a file does not say."""

    names: tuple[str, ...] = ()
    """Of the classes, by their number."""
    task: str = ""
    imgsz: tuple[int, int] | None = None
    """Height and width of the pictures that it was exported for."""
    stride: int = 0

    def as_notes(self) -> str:
        """The notes of a `.rknn` that has these facts and no others."""
        found: dict[str, Any] = {"names": list(self.names), "task": self.task, "stride": self.stride}
        found["imgsz"] = list(self.imgsz or ())
        kept = {name: value for name, value in found.items() if value}
        return repr({_KEY: kept} if kept else {})


def read_metadata(entries: Mapping[str, str]) -> tuple[Metadata, list[str]]:
    """From the properties of an ONNX file, and what was left out of them, in words."""
    found: dict[str, Note] = {}
    problems = []
    for key in ("names", "imgsz", "stride"):
        text = entries.get(key, "")
        try:
            if len(text) > _LONGEST_TEXT:
                raise BadTextError(f"{len(text)} characters")
            if text.strip():
                found[key] = parse(f"{{'value': {text}}}")["value"]
        except (BadTextError, KeyError) as error:
            problems.append(f"metadata {key!r} is not a Python value and is ignored: {error}")
    found["task"] = entries.get("task", "")
    metadata, others = _checked(found)
    return metadata, problems + others


def metadata_in(notes: Mapping[str | int | float, Note]) -> Metadata:
    """From the notes of a `.rknn`."""
    found = notes.get(_KEY)
    return _checked({str(key): value for key, value in found.items()} if isinstance(found, dict) else {})[0]


def metadata_of(model: Model) -> Metadata:
    """What a `.rknn` says; nothing where its notes are damaged."""
    try:
        return metadata_in(model.notes)
    except BadTextError:
        return Metadata()


def _checked(found: Mapping[str, Note]) -> tuple[Metadata, list[str]]:
    problems: list[str] = []
    values: dict[str, Any] = {}
    readers = {"names": _names, "task": _task, "imgsz": _imgsz, "stride": _stride}
    for key, read in readers.items():
        value = found.get(key)
        if value in (None, "", [], {}):
            continue
        try:
            values[key] = read(value)
        except ValueError as error:
            problems.append(f"metadata {key!r} is ignored: {error}")
    return Metadata(**values), problems


def _names(value: Note) -> tuple[str, ...]:
    if isinstance(value, dict):
        if set(value) != set(range(len(value))):
            raise ValueError(f"the classes are not numbered from 0 to {len(value) - 1}")
        value = [value[number] for number in range(len(value))]
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError("it is not a list of names")
    if len(value) > _MOST_NAMES or any(len(str(name)) > _LONGEST_NAME for name in value):
        raise ValueError(f"more than {_MOST_NAMES} names, or a name of more than {_LONGEST_NAME} characters")
    return tuple("".join(letter if letter.isprintable() else "?" for letter in str(name)) for name in value)


def _task(value: Note) -> str:
    if value not in TASKS:
        raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(TASKS)}")
    return str(value)


def _imgsz(value: Note) -> tuple[int, int]:
    sizes = [value, value] if isinstance(value, int) else value
    if not isinstance(sizes, list | tuple) or len(sizes) != 2 or not all(map(_is_size, sizes)):
        raise ValueError(f"it is not a height and a width from 1 to {_LARGEST_SIZE}")
    return int(str(sizes[0])), int(str(sizes[1]))


def _stride(value: Note) -> int:
    if not _is_size(value):
        raise ValueError(f"it is not a number from 1 to {_LARGEST_SIZE}")
    return int(str(value))


def _is_size(value: Note) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_SIZE
