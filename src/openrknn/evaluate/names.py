"""Classes of a model and classes of a dataset: which is which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openrknn.evaluate.datasets.classes import synsets
from openrknn.evaluate.errors import EvaluationError
from openrknn.evaluate.truth import Array, Dataset
from openrknn.vision.labels import name_of

_SAME = {"motorbike": "motorcycle", "aeroplane": "airplane", "sofa": "couch", "tvmonitor": "tv", "television": "tv"}
"""Darknet's and VOC's names -> COCO's."""
_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class ClassMap:
    """From the model's numbers to the dataset's."""

    names: tuple[str, ...]
    """Of the dataset's classes, by number."""
    table: Array
    """[model's classes] -> the dataset's number, or -1."""
    notes: tuple[str, ...] = ()

    def __call__(self, numbers: Array) -> Array:
        """Numbers of the model's classes as the dataset's."""
        inside = (numbers >= 0) & (numbers < len(self.table))
        return np.where(inside, self.table[np.where(inside, numbers, 0)], -1)


def class_map(dataset: Dataset, labels: Sequence[str] | None, count: int, largest: int) -> ClassMap:
    """By ImageNet's identifiers, by names, or by numbers, in this order.

    `labels` and `count` are the model's; `largest` is the largest number in the dataset.
    """
    count = max(count, len(labels) if labels else 0, largest + 1 if not count else 0)
    if dataset.names is None:
        if largest >= count:
            raise EvaluationError(
                f"{dataset.path}: it has the class {largest}, and the model {count} classes; numbers count from 0"
            )
        names = tuple(name_of(tuple(labels) if labels else None, number) for number in range(count))
        return ClassMap(names, np.arange(count))
    if dataset.keys is not None and count in (len(synsets()), len(synsets()) + 1):
        return _by_synsets(dataset, dataset.keys, labels, count)
    if labels:
        return _by_names(dataset, labels, count)
    table = np.where(np.arange(count) < len(dataset.names), np.arange(count), -1)
    notes = () if count == len(dataset.names) else (
        f"the model has {count} classes without names, the dataset {len(dataset.names)}: taken by number",
    )  # fmt: skip
    return ClassMap(dataset.names, table, notes)


def _by_synsets(dataset: Dataset, keys: Sequence[str], labels: Sequence[str] | None, count: int) -> ClassMap:
    at = {key: number for number, key in enumerate(synsets())}
    background = count - len(synsets())
    table = np.full(count, -1)
    names = []
    for number, key in enumerate(keys):
        place = at.get(key, -1)
        if place >= 0:
            table[place + background] = number
        names.append(f"{labels[place + background]} ({key})" if labels and place >= 0 else key)
    missing = [key for key in keys if key not in at]
    notes = (f"not among ImageNet's 1000 classes, counted as wrong: {_listed(missing)}",) if missing else ()
    return ClassMap(tuple(names), table, notes)


def plain(name: str) -> str:
    """A name without capitals, blanks, underscores and hyphens; of synonyms one."""
    word = re.sub(r"[\s_\-]+", "", name.strip().lower())
    return _SAME.get(word, word)


def _by_names(dataset: Dataset, labels: Sequence[str], count: int) -> ClassMap:
    names = dataset.names or ()
    at = {plain(name): number for number, name in enumerate(names)}
    table = np.full(count, -1)
    for number, label in enumerate(labels[:count]):
        table[number] = at.get(plain(label), -1)
    missing = [name for number, name in enumerate(names) if number not in set(table.tolist())]
    if len(missing) == len(names):
        if len(names) == count:
            shown = f"{names[0]!r} is taken for {labels[0]!r} and so on"
            return ClassMap(tuple(names), np.arange(count), (f"no name of a class is in both: by number, {shown}",))
        raise EvaluationError(
            f"{dataset.path}: none of its {len(names)} classes ({_listed(names)}) is one of the model's {count} "
            f"({_listed(labels)}); give the model's names with --labels"
        )
    notes = (f"the model does not know {_listed(missing)}: counted as missed",) if missing else ()
    return ClassMap(tuple(names), table, notes)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name[:40] for name in names[:_SHOWN]) + more
