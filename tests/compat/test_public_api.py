"""The vendor's faces stand on openrknn's public names: what they need, other people's programs can use too."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

COMPAT = Path(__file__).parents[2] / "compat"
FILES = sorted(COMPAT.glob("*/src/**/*.py"))
PUBLIC = {
    "openrknn", "openrknn.analysis", "openrknn.chips", "openrknn.compiler", "openrknn.container", "openrknn.errors",
    "openrknn.layout", "openrknn.numerics", "openrknn.runtime", "openrknn.vendor", "openrknn.vision",
}  # fmt: skip


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import of openrknn; the name is empty for `import module`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "openrknn")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "openrknn":
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 20
    assert sum(1 for path in FILES for _ in imported(path)) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(COMPAT)))
def test_only_public_names_are_imported(path: Path) -> None:
    for module, name in imported(path):
        assert module in PUBLIC, f"{path}: {module} is internal"
        if name:
            assert name in importlib.import_module(module).__all__, f"{path}: {module}.{name} is not public"
