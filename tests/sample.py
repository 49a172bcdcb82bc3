"""`--all`: every test. Without it, of tests that are marked `sample(n)` every n-th and one of each kind of model.

The mark is for tests of the same thing with many models that cost much in sum: most of what they find, a part of them
finds. Of property-based tests that do not say how many examples they need, half as many are tried. All of that runs
every night (.github/workflows/nightly.yml). Who names tests or selects them by `-k` gets them.
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from tests.quick import kind_of
from tests.times import function_of

__all__ = ["add_option", "choose", "is_all"]

OPTION = "--all"
MARK = "sample"
VARIABLE = "OPENRKNN_CORPUS"
"""`all` has the same effect, and tests that choose from the shared corpus by themselves look at it."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="leave out nothing: takes more than an hour")


def is_all(config: pytest.Config) -> bool:
    """Whether nothing is left out; asked before any test is imported, since some look at the variable."""
    if config.getoption(OPTION):
        os.environ[VARIABLE] = "all"
    return os.environ.get(VARIABLE) in ("all", "whole")


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those of `items` that are to run."""
    is_named = bool(config.getoption("keyword")) or any("::" in word for word in config.args)
    if is_named or is_all(config):
        return
    counts: dict[str, int] = defaultdict(int)
    seen: set[tuple[str, ...]] = set()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is None:
            kept.append(item)
            continue
        function = function_of(item.nodeid)
        kind = kind_of(item)
        is_new = kind is not None and kind not in seen
        is_next = counts[function] % mark.args[0] == 0
        counts[function] += 1
        (kept if is_new or is_next else left).append(item)
        if kind is not None:
            seen.add(kind)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
