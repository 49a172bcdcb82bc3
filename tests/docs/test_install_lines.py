"""Lines that install openrknn work today and after the upload to PyPI (one switch), and the version has one owner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from packing import pages

import openrknn
from openrknn.extras import SOURCE

ROOT = Path(openrknn.__file__).parents[2]
_INSTALL = re.compile(r"pip install[^\n|]*?[\"' ](openrknn(?:\[[\w,]+\])?)(?=[\"' \n])([^\n]*)")
_WHEEL = re.compile(r"openrknn(?:_lite|_toolkit)?-(\d[\w.]*?)(?=-py3|\.tar|-cp3)")
_INSTALLED_ALREADY = "Where openrknn is installed already"
_LATER = re.compile(r"<!-- after the upload:\n.*?-->\n", re.DOTALL)


def _pages() -> list[Path]:
    places = ("deploy/**/*.y*ml", ".github/**/*.yml")
    found = [path for place in places for path in sorted(ROOT.glob(place))]
    return [*pages.pages(ROOT), ROOT / ".pre-commit-hooks.yaml", *found]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Lines that install the package itself: the line, and what follows the name."""
    for match in _INSTALL.finditer(text):
        before = text[: match.start()].rpartition("\n\n")[0]
        if _INSTALLED_ALREADY not in before[-400:]:
            yield match[0], match[2]


def test_the_lines_fit_what_is_on_pypi() -> None:
    """docs/ci.md and others said `pip install 'openrknn[images]'` when there was no such package."""
    is_there = pages.is_published(ROOT)
    found = [
        (f"{path.relative_to(ROOT)}: {line}", f"@ {SOURCE}" in rest)
        for path in _pages()
        for line, rest in _lines(_LATER.sub("", path.read_text(encoding="utf-8")))
    ]
    assert [line for line, from_source in found if from_source == is_there] == []
    assert len(found) > 5


@pytest.mark.skipif(pages.is_published(ROOT), reason="the pages are those after the upload")
def test_after_the_switch_every_line_installs_from_pypi() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in pages.pages(ROOT)}
    after = {path: pages.published(text, "0.2.0") for path, text in texts.items()}
    changed = {path.name for path in texts if after[path] != texts[path]}
    assert {"README.md", "README.zh-CN.md", "install.md", "ci.md", "compiler.md", "ray_batch.py"} <= changed
    lines = [line for text in after.values() for line in _lines(text)]
    assert [line for line in lines if SOURCE in line[0] + line[1]] == []
    assert len(lines) > 5
    for path, text in after.items():
        assert "not on PyPI" not in text, path
        assert "尚未发布到 PyPI" not in text, path
        assert pages.published(text, "0.2.0") == text, path
    assert "    rev: v0.2.0\n" in after[ROOT / "docs/ci.md"]


def test_the_address_and_the_version_have_one_owner() -> None:
    """install.md named a wheel of a version that is not built. packages.md and releases/ report what was tried."""
    assert f'Repository = "{SOURCE.removeprefix("git+")}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = {
        (str(path.relative_to(ROOT)), version)
        for path in _pages()
        if path.name != "packages.md" and path.parent.name != "releases"
        for version in _WHEEL.findall(path.read_text(encoding="utf-8"))
    }
    assert {version for _, version in named} <= {openrknn.__version__}, named
