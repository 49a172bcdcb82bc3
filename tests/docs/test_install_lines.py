"""Lines that install openrknn work today: there is no release on PyPI, and the version has one owner."""

from __future__ import annotations

import re
from pathlib import Path

import openrknn
from openrknn.extras import SOURCE

ROOT = Path(openrknn.__file__).parents[2]
_INSTALL = re.compile(r"pip install[^\n|]*?[\"' ](openrknn(?:\[[\w,]+\])?)(?=[\"' \n])([^\n]*)")
_WHEEL = re.compile(r"openrknn(?:_lite|_toolkit)?-(\d[\w.]*?)(?=-py3|\.tar|-cp3)")
_INSTALLED_ALREADY = "Where openrknn is installed already"


def _pages() -> list[Path]:
    places = ("docs/**/*.md", "examples/**/*.py", "examples/**/*.md", "deploy/**/*.y*ml", ".github/**/*.yml")
    found = [path for place in places for path in sorted(ROOT.glob(place))]
    return [ROOT / "README.md", ROOT / ".pre-commit-hooks.yaml", *found]


def test_nothing_is_installed_from_pypi() -> None:
    """docs/ci.md and others said `pip install 'openrknn[images]'`: no such package."""
    wrong, found = [], 0
    for path in _pages():
        text = path.read_text(encoding="utf-8")
        for match in _INSTALL.finditer(text):
            found += 1
            before = text[: match.start()].rpartition("\n\n")[0]
            known = _INSTALLED_ALREADY in before[-400:] or "**not yet**" in match[2]
            later = "release" in text[match.start() - 120 : match.start()]
            if not known and not later and f"@ {SOURCE}" not in match[2]:
                wrong.append(f"{path.relative_to(ROOT)}: {match[0]}")
    assert wrong == []
    assert found > 5


def test_the_address_and_the_version_have_one_owner() -> None:
    """install.md named a wheel of a version that is not built."""
    assert f'Repository = "{SOURCE.removeprefix("git+")}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = {
        (str(path.relative_to(ROOT)), version)
        for path in _pages()
        for version in _WHEEL.findall(path.read_text(encoding="utf-8"))
    }
    assert {version for _, version in named} <= {openrknn.__version__}, named
