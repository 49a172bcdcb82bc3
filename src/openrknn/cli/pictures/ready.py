"""`openrknn detect PICTURE`, without a model: the one that `openrknn models get` has stored."""

from __future__ import annotations

import argparse
import os

from openrknn.cli.common.output import CommandError
from openrknn.quantities import size_text
from openrknn.vision.sources import is_source

__all__ = ["find_model", "find_named"]


def find_model(arguments: argparse.Namespace, task: str) -> None:
    """Put the model and the sources where they belong: the first word may be either."""
    first, words = arguments.model, arguments.sources
    if first is not None and not is_source(first):
        if not words:
            raise CommandError(f"{first}: the model; and the pictures? `openrknn {task} MODEL SOURCE ...`")
        _take(arguments, task, first)
        return
    _take(arguments, task, None)
    arguments.sources = [*([first] if first is not None else []), *words]


def find_named(arguments: argparse.Namespace, task: str) -> None:
    """Replace the name of a model in the catalogue with its file; other words stay as they are."""
    _take(arguments, task, arguments.model)
    if getattr(arguments, "reader", None):
        arguments.reader = _at_home(task, arguments.reader)[0]


def _take(arguments: argparse.Namespace, task: str, name: str | None) -> None:
    """Set the model, and the family where the catalogue has it and none was asked for."""
    from openrknn.models.known import KNOWN

    arguments.model, known = _at_home(task, name)
    if known in KNOWN and getattr(arguments, "family", None) is None:
        arguments.family = KNOWN[known].family


def _at_home(task: str, name: str | None) -> tuple[str, str]:
    """The path of a model: as it is given, or by its name, or the one for this task; and its name in the catalogue."""
    from openrknn.models.home import best, installed
    from openrknn.models.known import KNOWN
    from openrknn.trace.nodes import chip_of_this_board

    here = chip_of_this_board()
    target = here.name if here is not None else None
    if name is not None and (name not in KNOWN or os.path.exists(name)):
        return name, ""
    fitting = [one for one in installed(task) if one.name == name and target in (None, one.target)]
    got = best(task, target) if name is None else next(iter(fitting), None)
    if got is not None:
        return str(got.path), got.name
    which = name or next(other for other, known in KNOWN.items() if known.task == task)
    known = KNOWN[which]
    chip = f" and {target}" if target else ""
    raise CommandError(
        f"no model is here for `{task}`{chip} yet; `openrknn models get {which}` gets one "
        f"({size_text(known.size)} to fetch, {known.licence}), or give yours: `openrknn {task} MODEL SOURCE ...`"
    )
