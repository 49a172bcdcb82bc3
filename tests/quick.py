"""`--quick`: tests that take no time, of every folder, and of tests over many models one model per kind.

What is left out is what tests/durations.json names as slow (times.py writes it), so a new test is part of the quick
ones until it is recorded as slow. Those of the vendor's runtime are left out too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from os import PathLike

import pytest

from tests.times import RECORD, function_of

__all__ = ["add_option", "choose", "kind_of"]

OPTION = "--quick"
_KIND = re.compile(r"(?:rk|rv)\d{4}b?_[a-z0-9]+")
"""Names of models end in the chip and the precision."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="leave out slow tests, and try one model per chip and precision")


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those of `items` that are quick."""
    if not config.getoption(OPTION):
        return
    slow = frozenset(json.loads(RECORD.read_text()))
    seen: set[tuple[str, ...]] = set()
    kept, left = [], []
    for item in items:
        is_out = item.get_closest_marker("witness") is not None or function_of(item.nodeid) in slow
        key = None if is_out else kind_of(item)
        if is_out or key in seen:
            left.append(item)
            continue
        kept.append(item)
        if key is not None:
            seen.add(key)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def kind_of(item: pytest.Item) -> tuple[str, ...] | None:
    """The test with its parameters, models only by their kind; nothing for a test without models."""
    call = getattr(item, "callspec", None)
    if call is None:
        return None
    words = [*_words(call.params.values())]
    kinds = [(_KIND.search(word) or word) for word in words]
    if all(isinstance(kind, str) for kind in kinds):
        return None
    return (function_of(item.nodeid), *(kind if isinstance(kind, str) else kind[0] for kind in kinds))


def _words(values: Iterable[object]) -> Iterable[str]:
    return (str(value) if isinstance(value, str | int | PathLike) else repr(value) for value in values)
