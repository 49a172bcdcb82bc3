"""Names of classes from files: given on the command line, or found beside the model."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openrknn.cli.common.files import os_problem
from openrknn.cli.common.output import CommandError

if TYPE_CHECKING:
    from openrknn.container.model import Model

__all__ = ["Labels", "find_labels", "labels_in", "read_labels"]

_LARGEST_LABEL_FILE = 1 << 24


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of classes, and where they come from."""

    names: tuple[str, ...]
    path: str


def read_labels(path: str, classes: int | None) -> Labels:
    """One name per line; their number must be that of the classes."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST_LABEL_FILE)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    names = tuple(text.removesuffix("\n").split("\n"))
    names = tuple(name.strip() for name in names)
    if classes is not None and len(names) != classes:
        raise CommandError(f"{path}: {len(names)} lines for {classes} classes; give one name per line")
    return Labels(names, path)


def labels_in(model: Model, shapes: Sequence[tuple[int, ...]]) -> Labels | None:
    """Names that training wrote into the model, if it has as many classes."""
    from openrknn.container.metadata import metadata_of

    names = metadata_of(model).names
    return Labels(names, str(model.path)) if names and {len(names)} == _classes(shapes) else None


def _classes(shapes: Sequence[tuple[int, ...]]) -> set[int]:
    found = {max(shape, default=0) for shape in shapes if sum(size != 1 for size in shape) == 1}
    return found if len(shapes) == 1 else set()


def find_labels(model_path: str, shapes: Sequence[tuple[int, ...]]) -> Labels | None:
    """A file of names beside the model with as many lines as the model has classes; None if none or several fit."""
    classes = _classes(shapes)
    if not classes:
        return None
    folder, name = os.path.split(model_path)
    stem = os.path.join(folder, os.path.splitext(name)[0])
    others = sorted(glob.glob(os.path.join(glob.escape(folder), "*_labels.txt")))
    fitting = []
    for path in dict.fromkeys((f"{stem}_labels.txt", os.path.join(folder, "labels.txt"), *others)):
        if os.path.isfile(path) and os.path.getsize(path) < _LARGEST_LABEL_FILE:
            labels = read_labels(path, None)
            if len(labels.names) in classes:
                fitting.append(labels)
    # The two names that are meant for this model win; among all others only a single one can be trusted.
    meant = [labels for labels in fitting if labels.path in {f"{stem}_labels.txt", os.path.join(folder, "labels.txt")}]
    return meant[0] if meant else fitting[0] if len(fitting) == 1 else None
