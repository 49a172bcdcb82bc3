"""Which golden folder belongs to which model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.golden import FILE, Golden, load_golden
from openrknn.voice.sets import FILE as VOICE_FILE

_SUFFIXES = (".rknn", ".rknnz")
BESIDE = ".golden"
"""Without --golden: model.golden/ beside model.rknn."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A model and its folder, or why there is none."""

    model: str
    golden: Golden | None
    problem: GoldenError | None = None


def models_in(words: Sequence[str]) -> list[str]:
    """Files and voices as they are; of other folders, all models below them, by name."""
    found: list[str] = []
    for word in words:
        path = Path(word)
        if not path.is_dir() or (path / VOICE_FILE).is_file():
            found.append(word)
            continue
        below = sorted(str(item) for item in path.rglob("*") if item.suffix in _SUFFIXES and item.is_file())
        if not below:
            raise CannotCheckError(f"{word}: there is no .rknn in this folder")
        found += below
    return list(dict.fromkeys(found))


def pairs(words: Sequence[str], golden: str | None) -> list[Pair]:
    """Each model with its golden. A golden of a folder of them that no model asks for is a problem, too.

    Otherwise a model that is not built any more would always pass.
    """
    models = models_in(words)
    found = [golden_for(model, golden) for model in models]
    if golden is None or (Path(golden) / FILE).is_file() or Path(golden).name == FILE:
        return found
    used = {str(pair.golden.folder) for pair in found if pair.golden is not None}
    is_whole = any(Path(word).is_dir() and not (Path(word) / VOICE_FILE).is_file() for word in words)
    for folder in _folders(Path(golden)) if is_whole else ():
        if str(folder) not in used:
            error = GoldenError("no model belongs to it; remove it, or build its model", path=str(folder))
            found.append(Pair("", None, error))
    return found


def golden_for(model: str, golden: str | None = None) -> Pair:
    """The folder that is given; the one in it that has the model's name; or model.golden beside the model."""
    try:
        return Pair(model, load_golden(_folder(model, golden)))
    except GoldenError as error:
        return Pair(model, None, error)


def _folder(model: str, golden: str | None) -> Path:
    path = Path(model)
    stem = path.name if path.is_dir() else path.stem
    if golden is None:
        beside = path.with_name(stem + BESIDE)
        if not (beside / FILE).is_file():
            raise GoldenError(
                f"there is no {beside}; give --golden DIR, or make it from a model that is good: "
                f"openrknn check {model} --record {beside}"
            )
        return beside
    root = Path(golden)
    if root.name == FILE or (root / FILE).is_file():
        return root
    if not root.is_dir():
        raise GoldenError(f"no such folder; make it: openrknn check {model} --record {root}", path=str(root))
    for name in (path.name, stem, stem + BESIDE):
        if (root / name / FILE).is_file():
            return root / name
    for folder in _folders(root):
        if load_golden(folder).model == path.name:
            return folder
    raise GoldenError(
        f"none of its folders is for {path.name}; make one: openrknn check {model} --record {root / stem}",
        path=str(root),
    )


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(entry for entry in root.iterdir() if (entry / FILE).is_file())
    except OSError as error:
        raise GoldenError(os.strerror(error.errno or 0), path=str(root)) from None
