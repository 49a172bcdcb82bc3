"""Which chips can run which models, in the vendor's words."""

from __future__ import annotations

import os
from collections import OrderedDict

from openrknn import load
from openrknn.chips import TARGETS

__all__ = ["describe_families", "describe_model", "show"]

_STARS = "*" * 50


def describe_families() -> str:
    """All families; the chips of one run each other's models."""
    rows = [
        f"chip family {number}: {','.join(chip.title for chip in chips)}"
        for number, chips in enumerate(TARGETS.values(), start=1)
    ]
    return "\n".join((_STARS, "All RKNN Toolkit supported target platforms:", *rows, _STARS))


def describe_model(path: str | os.PathLike[str]) -> tuple[OrderedDict[str, list[str]], str]:
    """What the file says it is for, and who can run it."""
    model = load(path)
    filled = [model.platform or model.chip.name]
    supported = [chip.title for chip in TARGETS[model.chip.target]]
    text = (
        f"{_STARS}\n"
        f"Target platforms filled in RKNN model:         {filled}\n"
        f"Target platforms supported by this RKNN model: {supported}\n"
        f"{_STARS}"
    )
    return OrderedDict(filled_target_platform=filled, support_target_platform=supported), text


def show(text: str) -> None:
    """For the few methods whose purpose is to print."""
    print(text)  # noqa: T201
