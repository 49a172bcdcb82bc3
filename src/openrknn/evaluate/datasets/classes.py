"""Classification: a folder per class (as ImageNet), a table of files and classes, or ImageNet's class in file names.

And segmentation with a class per pixel: images/ and masks/ of the same names.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

from openrknn.evaluate.datasets.files import images_in, inside, name_in
from openrknn.evaluate.datasets.tables import Table
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import AreaTruth, ClassTruth, Dataset, Sample

_SYNSET = re.compile(r"n\d{8}\Z")
_IN_NAME = re.compile(r"(n\d{8})[_-]")
_SPLITS = ("val", "validation", "test", "train")
MASKS = ("masks", "annotations", "labels", "gt", "SegmentationClass")


@cache
def synsets() -> tuple[str, ...]:
    """ImageNet's 1000 classes by number, as WordNet names them: n01440764 is 0, "tench"."""
    text = resources.files("openrknn.evaluate").joinpath("data/synsets.txt").read_text("ascii")
    return tuple(text.split())


def read_class_folders(folder: Path) -> Dataset | None:
    """A folder per class, perhaps below val/; None where that is not what is there."""
    for root in (*(folder / split for split in _SPLITS), folder):
        if not root.is_dir():
            continue
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        found = [(entry.name, images_in(entry)) for entry in folders]
        found = [(name, images) for name, images in found if images]
        if len(found) > 1 and not {name for name, _ in found} & {"images", "labels", *MASKS}:
            samples = [
                Sample(name_in(folder, path), ClassTruth(number), path)
                for number, (_, images) in enumerate(found)
                for path in images
            ]
            return _dataset(folder, "class folders", samples, tuple(name for name, _ in found))
    return None


def read_named_images(folder: Path) -> Dataset | None:
    """Images whose names begin with ImageNet's class: n01440764_tench.JPEG, n01440764_10026.JPEG."""
    images = images_in(folder)
    found = [_IN_NAME.match(path.name) for path in images]
    if not images or not all(found):
        return None
    keys = [match.group(1) for match in found if match]
    names = tuple(sorted(set(keys)))
    at = {name: number for number, name in enumerate(names)}
    samples = [
        Sample(name_in(folder, path), ClassTruth(at[key]), path) for path, key in zip(images, keys, strict=True)
    ]
    return _dataset(folder, "images named by class", samples, names)


def read_class_table(table: Table) -> Dataset:
    """Files and classes: numbers, or names."""
    root = image_folder(table)
    values = [value for _, value in table.rows]
    if all(value.isdigit() for value in values):
        names, numbers = None, [int(value) for value in values]
    else:
        names = tuple(sorted(set(values)))
        at = {name: number for number, name in enumerate(names)}
        numbers = [at[value] for value in values]
    samples = [
        Sample(file, ClassTruth(number), inside(root, file, str(table.path)))
        for (file, _), number in zip(table.rows, numbers, strict=True)
    ]
    return _dataset(table.path, "table of files and classes", samples, names)


def image_folder(table: Table) -> Path:
    """The folder of the images: that of the table, or images/ in it."""
    base = table.path.parent
    name = table.rows[0][0]
    places = (base, base / "images", *(base / split for split in _SPLITS))
    for place in places:
        if inside(place, name, str(table.path)).is_file():
            return place
    raise DatasetError(f"{table.path}: {name!r:.120} is neither beside it nor in images/, val/, test/ or train/ there")


def _dataset(path: Path, kind: str, samples: list[Sample], names: tuple[str, ...] | None) -> Dataset:
    keys = None
    if names is not None and all(map(_SYNSET.match, names)):
        keys = names
    return Dataset(path, kind, "classify", tuple(samples), names, keys)


def read_masks(folder: Path) -> Dataset | None:
    """images/ and masks/ (or annotations/, labels/, gt/): PNG files whose pixels are numbers of classes."""
    pictures = next((folder / name for name in ("images", "JPEGImages") if (folder / name).is_dir()), None)
    for name in MASKS:
        place = folder / name
        if pictures is None or not place.is_dir():
            continue
        masks = {_stem(place, path): path for path in images_in(place) if path.suffix.lower() == ".png"}
        pairs = [(path, masks[_stem(pictures, path)]) for path in images_in(pictures)
                 if _stem(pictures, path) in masks]  # fmt: skip
        if pairs:
            samples = tuple(Sample(name_in(folder, path), AreaTruth(mask), path) for path, mask in pairs)
            return Dataset(folder, "images and masks", "areas", samples)
    return None


def _stem(root: Path, path: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()
