"""Spelling, anchors and images of the pages. Links between pages are checked by Sphinx (test_pages.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.code_blocks import ROOT

PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs",
    "src",
    "tools",
    "packaging",
    "examples",
    "deploy",
)
BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[(?P<text>[^]]*)\]\((?P<path>[^)\s]+)\)")
FRONT = ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "SECURITY.md")


def _pages() -> list[Path]:
    return [
        *(ROOT / name for name in FRONT),
        *(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts),
    ]


def _text(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.skipif(find_spec("codespell_lib") is None, reason="needs codespell (the extra `test`)")
def test_no_word_is_misspelt() -> None:
    command = [sys.executable, "-m", "codespell_lib", *PLACES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "a name of somebody else: see [tool.codespell]"


def anchors(text: str) -> set[str]:
    """The anchors of a page, as GitHub and myst make them from headings."""
    found = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in found}


@pytest.mark.parametrize("name", FRONT)
def test_anchors_of_the_front_pages_exist(name: str) -> None:
    """Sphinx does not read these pages."""
    text = _text(ROOT / name)
    links = re.findall(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)", text)
    missing = []
    for path, anchor in links:
        target = ROOT / path if path else ROOT / name
        if not target.is_file() or anchor not in anchors(_text(target)):
            missing.append(f"{path}#{anchor}")
    assert missing == []


def test_images_exist_and_say_what_they_show() -> None:
    wrong, used = [], set()
    for page in _pages():
        for match in IMAGE.finditer(_text(page)):
            target = (page.parent / match["path"]).resolve()
            used.add(target)
            if not target.is_file() or len(match["text"]) < 5:
                wrong.append(f"{page.relative_to(ROOT)}: {match[0]}")
    assert wrong == []
    for page in _pages():  # a gallery links to large ones
        used |= {(page.parent / path).resolve() for path in re.findall(r"\]\(([^)#\s]+)\)", _text(page))}
    kept = {path for folder in ("images", "gallery") for path in (ROOT / "docs" / folder).glob("*.*")}
    assert sorted(path.name for path in kept - used) == [], "no page shows these"
