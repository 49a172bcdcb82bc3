"""Names of classes. `data/README.md` says where each list comes from."""

from __future__ import annotations

from functools import cache
from importlib import resources

LISTS = {"coco": 80, "coco90": 90, "imagenet": 1000, "voc": 21, "cityscapes": 19, "dota": 15}
"""Name of a list -> how many classes it has."""

_ALONE = {
    "retinaface": ("face",), "landmarks-hand": ("hand",), "landmarks-face": ("face",),
    "blaze-face": ("face",), "blaze-palm": ("palm",), "blaze-person": ("person",),
    "mask": ("background", "foreground"),
}  # fmt: skip
"""Families whose models all have the same classes."""


@cache
def names_of(which: str) -> tuple[str, ...]:
    """A list by its name."""
    if which not in LISTS and which != "ppocr":
        raise ValueError(f"there is no list of names {which!r}; there are {', '.join(LISTS)}")
    text = resources.files("openrknn.vision").joinpath(f"data/{which}.txt").read_text("utf-8")
    return tuple(text.removesuffix("\n").split("\n"))


def names_for(task: str, count: int, family: str = "") -> tuple[str, ...] | None:
    """The list that a model with this many classes most probably means; None where there is none."""
    if family in _ALONE:
        return _ALONE[family]
    if task == "pose" and count == 1:
        return ("person",)
    if task == "classify" and count == LISTS["imagenet"] + 1:
        return ("background", *names_of("imagenet"))
    known = {
        "classify": ("imagenet",),
        "detect": ("dota",) if "obb" in family else ("coco", "coco90"),
        "segment": ("coco", "cityscapes", "voc"),
    }
    return next((names_of(which) for which in known.get(task, ()) if LISTS[which] == count), None)


def name_of(names: tuple[str, ...] | None, number: int) -> str:
    """The name of a class, or its number where it has none."""
    return names[number] if names is not None and 0 <= number < len(names) else f"class {number}"


@cache
def ppocr_characters() -> tuple[str, ...]:
    """The characters of PP-OCR after the blank: the list, and the space that its training adds."""
    return (*names_of("ppocr"), " ")
