"""Files of datasets: read with bounds, and never outside of the dataset's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openrknn.evaluate.errors import DatasetError
from openrknn.pictures import SUFFIXES as IMAGES

SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
_LARGEST_JSON = 1 << 30
_LARGEST_TEXT = 256 << 20
_MOST_FILES = 5_000_000
_DEEPEST = 5


def read_text(path: Path, most: int = _LARGEST_TEXT) -> str:
    """A text file; damaged characters become U+FFFD."""
    try:
        if path.stat().st_size > most:
            raise DatasetError(f"{path}: larger than {most >> 20} MiB; split the dataset")
        return path.read_text("utf-8-sig", "replace")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_json(path: Path) -> Any:
    """A JSON file."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise DatasetError(f"{path}: larger than {_LARGEST_JSON >> 20} MiB; split the dataset")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not JSON: {str(error)[:200]}") from None


def inside(root: Path, name: str, where: str) -> Path:
    """A file that a dataset names: relative, and not outside of its folder."""
    parts = Path(name.replace("\\", "/")).parts
    if not name or "\0" in name or len(name) > 4096:
        raise DatasetError(f"{where}: {name!r:.80} is not the name of a file")
    if Path(name).is_absolute() or ".." in parts:
        raise DatasetError(f"{where}: the file {name!r:.120} is outside of {root}; names have to be relative to it")
    return root.joinpath(*parts)


def is_image(path: Path | str) -> bool:
    """By its suffix."""
    return os.path.splitext(path)[1].lower() in IMAGES


def is_sound(path: Path | str) -> bool:
    """By its suffix."""
    return os.path.splitext(path)[1].lower() in SOUNDS


def walk(root: Path, deepest: int = _DEEPEST) -> Iterator[Path]:
    """All files below a folder, by name; links to folders are not followed."""
    count = 0
    start = len(root.parts)
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        folders.sort()
        if len(here.parts) - start >= deepest:
            folders.clear()
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                raise DatasetError(f"{root}: more than {_MOST_FILES} files; give the folder of one split")
            yield here / name


def images_in(root: Path) -> list[Path]:
    """All images below a folder."""
    return [path for path in walk(root) if is_image(path)]


def name_in(root: Path, path: Path) -> str:
    """The path as the report shows it: without the folder of the dataset."""
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return path.name
