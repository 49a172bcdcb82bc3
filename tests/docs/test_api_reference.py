"""Every public name has a docstring, and an entry in the API reference (docs/api)."""

from __future__ import annotations

import enum
import importlib.util
import inspect
import re
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest

from tests.docs.code_blocks import ROOT

ENTRY = re.compile(r"^\.\. auto(\w+):: (openrknn\.[\w.]+)$", re.MULTILINE)
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
SKIPPED = {"openrknn.torch"} if importlib.util.find_spec("torch") is None else set()
"""Packages that cannot be imported here."""


def extension(name: str) -> ModuleType:
    """A module of docs/_ext."""
    path = ROOT / "docs" / "_ext" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLIC = extension("public_names")


def entries() -> dict[str, str]:
    """Name -> the kind of its entry."""
    return {name: kind for page in PAGES for kind, name in ENTRY.findall(page.read_text())}


def test_every_public_name_has_an_entry() -> None:
    """By one of the ways to it: `openrknn.DeviceError` and `openrknn.errors.DeviceError` are the same."""
    found, short = set(entries()), {name.rpartition(".")[2] for name in entries()}
    wanted = PUBLIC.public_names()
    missing = [
        f"{package}.{name}"
        for package, names in wanted.items()
        for name in names
        if f"{package}.{name}" not in found and not (package in {"openrknn.errors", "openrknn.chips"} and name in short)
    ]
    assert missing in ([], ["openrknn.compiler.compile_onnx"])  # it is `openrknn.compile`
    unknown = [name for name in found if name.rpartition(".")[2] not in wanted.get(name.rpartition(".")[0], ())]
    assert unknown == []


def members(cls: type) -> list[tuple[str, Any]]:
    kinds = (property, cached_property, classmethod, staticmethod)
    return [
        (name, value)
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    ]


@pytest.mark.parametrize("package", PUBLIC.PACKAGES)
def test_every_public_name_has_a_docstring(package: str) -> None:
    if package in SKIPPED:
        pytest.skip("PyTorch is not installed")
    without = []
    for name, value in PUBLIC.public_objects_of(package).items():
        if not callable(value):
            continue
        text = (inspect.getdoc(value) or "").strip()
        if not text or text.startswith(f"{name.rpartition('.')[2]}("):  # what a dataclass gives itself
            without.append(name)
        if isinstance(value, type) and not issubclass(value, enum.Enum):
            without += [f"{name}.{part}" for part, member in members(value) if not documented(value, part, member)]
    assert without == []


def documented(owner: type, name: str, member: Any) -> bool:
    """Its own text, or that of what it overrides."""
    found = member if isinstance(member, property | cached_property) else getattr(owner, name)
    return bool(inspect.getdoc(found) or inspect.getdoc(getattr(owner, name)))


@pytest.mark.parametrize("name", ["Session", "SessionPool"])
def test_every_way_to_run_is_shown(name: str) -> None:
    """Their members are listed one by one, the important ones first."""
    import openrknn

    text = (ROOT / "docs" / "api" / "session.md").read_text()
    block = text.partition(f".. autoclass:: openrknn.{name}\n")[2].partition("```")[0]
    shown = set(re.findall(r"^   \.\. auto\w+:: (\w+)$", block, re.MULTILINE))
    parts = {part for cls in getattr(openrknn, name).__mro__[:-1] for part, _ in members(cls)}
    assert parts - shown == set()


def test_signatures_are_those_of_the_constructor() -> None:
    import openrknn

    for cls in (openrknn.Session, openrknn.SessionPool, openrknn.Decoder):
        names = list(inspect.signature(cls).parameters)
        assert names[0] == "model"
        assert {"max_memory", "self"} & set(names) == {"max_memory"}


def test_the_tree_of_errors_is_complete() -> None:
    tree = (ROOT / "docs" / "api" / "errors.md").read_text().partition("```text\n")[2].partition("```")[0]
    words = set(re.findall(r"\w+", tree))
    for package in PUBLIC.PACKAGES:
        for name in PUBLIC.public_names()[package]:
            if name.endswith(("Error", "Warning")):
                assert name in words, f"{package}.{name}"


@pytest.mark.parametrize(
    ("text", "rst"),
    [
        ("Takes `x` and *y*.", ["Takes ``x`` and \\*y\\*.", ""]),
        ("Several `Session`s of `a`.", ["Several ``Session``\\ s of ``a``.", ""]),
        ("Text:\n\n    f(1)\n\n    g(2)\n\nend_", [
            "Text:", "", ".. code-block:: python", "", "   f(1)", "", "   g(2)", "", "end\\_", ""]),
        ("Table\n\n    a   b c\n", ["Table", "", ".. code-block:: text", "", "   a   b c", ""]),
    ],
)  # fmt: skip
def test_docstrings_become_rst(text: str, rst: list[str]) -> None:
    assert extension("docstrings").as_rst(text.split("\n")) == rst
