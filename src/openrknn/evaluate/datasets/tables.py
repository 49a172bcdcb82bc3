"""Tables of files: CSV, TSV and PaddleOCR's text files, with or without a header."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from openrknn.evaluate.datasets.files import is_image, is_sound, read_text
from openrknn.evaluate.errors import DatasetError

SUFFIXES = (".csv", ".tsv", ".txt")
_FILE = ("file", "path", "filename", "file_name", "image", "audio", "wav", "audio_filepath", "imageid", "image_id")
_CLASS = ("class", "label", "category", "class_id", "label_id", "target", "labels")
_TEXT = ("text", "sentence", "transcript", "transcription", "words")
_LARGEST_FIELD = 1 << 20


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of (file, what is expected), and what the second column is called."""

    path: Path
    rows: tuple[tuple[str, str], ...]
    column: str
    """class, text, or nothing where there is no header."""
    is_sound: bool
    is_tabbed: bool


def read_table(path: Path) -> Table | None:
    """The table in a file; None if its first column names neither images nor recordings."""
    text = read_text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    mark = "\t" if "\t" in first else "," if "," in first else " "
    rows = _split(text, mark, path)
    if not rows:
        return None
    head = [word.strip().lower() for word in rows[0]]
    file_at = next((at for at, word in enumerate(head) if word in _FILE), None)
    value_at, column = next(
        ((at, kind) for kind, known in (("class", _CLASS), ("text", _TEXT)) for at, word in enumerate(head)
         if word in known),
        (1, ""),
    )  # fmt: skip
    if file_at is not None:
        rows = rows[1:]
    else:
        file_at, column, value_at = 0, "", 1
    names = [row[file_at].strip() for row in rows[:20] if len(row) > file_at]
    if not names or not (all(map(is_image, names)) or all(map(is_sound, names))):
        return None
    pairs = []
    for number, row in enumerate(rows, 1):
        if len(row) <= max(file_at, value_at):
            raise DatasetError(f"{path}: row {number} has {len(row)} columns; a file and what is expected are needed")
        pairs.append((row[file_at].strip(), row[value_at].strip()))
    return Table(path, tuple(pairs), column, is_sound(names[0]), mark == "\t")


def _split(text: str, mark: str, path: Path) -> list[list[str]]:
    if mark != ",":
        # Text may hold quotation marks, so that these files have no quoting.
        limit = 1 if mark == " " else -1
        return [line.split(mark, limit) for line in text.splitlines() if line.strip()]
    csv.field_size_limit(_LARGEST_FIELD)
    try:
        return [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:
        raise DatasetError(f"{path}: not CSV: {error}") from None
