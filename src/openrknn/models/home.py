"""Where got models are: NAME-CHIP.rknn, and beside it NAME-CHIP.json with where it is from and under which licence."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from openrknn.folders import data_folder
from openrknn.models.errors import GettingError
from openrknn.wholefiles import write_atomically

__all__ = ["VARIABLE", "Got", "best", "home", "installed", "write_note"]

VARIABLE = "OPENRKNN_VISION"
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Got:
    """One of them."""

    path: Path
    name: str
    task: str
    target: str
    precision: str
    licence: str
    credit: str
    source: str


def home() -> Path:
    """$OPENRKNN_VISION, else openrknn/vision in the user's folder for data."""
    return Path(chosen) if (chosen := os.environ.get(VARIABLE)) else data_folder("vision")


def installed(task: str | None = None) -> list[Got]:
    """What is at home, by name; broken notes are left out."""
    found = (_read(path) for path in sorted(home().glob("*.json")))
    return [got for got in found if got is not None and task in (None, got.task)]


def best(task: str, target: str | None) -> Got | None:
    """The one to take where none is named: for the chip that is here if there is one, else the first."""
    found = installed(task)
    return next((got for got in found if got.target == target), None) or (None if target else next(iter(found), None))


def write_note(got: Got) -> None:
    """Say beside the model where it is from; written last, so that what has a note is complete."""
    row = asdict(got)
    del row["path"]
    path = got.path.with_suffix(".json")
    try:
        write_atomically(path, json.dumps(row, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise GettingError(f"{path}: cannot be written: {error.strerror or error}") from error


def _read(path: Path) -> Got | None:
    model = path.with_suffix(".rknn")
    try:
        if path.stat().st_size > _LARGEST or not model.is_file():
            return None
        row = json.loads(path.read_bytes())
        words = {key: row[key] for key in ("name", "task", "target", "precision", "licence", "credit", "source")}
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return Got(model, **words) if all(isinstance(word, str) for word in words.values()) else None
