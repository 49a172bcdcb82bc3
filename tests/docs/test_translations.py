"""Chinese pages have the structure, the code and the links of the English ones. Evidence: the English pages."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT

PAIRS = {
    "README.md": "README.zh-CN.md",
    "docs/guides/board-owner.md": "docs/zh/board-owner.md",
    "docs/guides/no-board.md": "docs/zh/no-board.md",
    "docs/vision.md": "docs/zh/vision.md",
    "docs/voice.md": "docs/zh/voice.md",
    "docs/llm.md": "docs/zh/llm.md",
    "docs/troubleshooting.md": "docs/zh/troubleshooting.md",
}
BLOCK = re.compile(r"^ *```.*?^ *```", re.M | re.S)


def headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", BLOCK.sub("", text), re.M)]


def rows(text: str) -> list[int]:
    """The number of cells of each row of each table, in order."""
    lines = BLOCK.sub("", text).splitlines()
    return [line.replace("\\|", "").count("|") for line in lines if line.startswith("|")]


def links(text: str, page: str) -> list[str]:
    """The files that a page links to, seen from the root; of a Chinese page, the English page that it translates."""
    back = {chinese: english for english, chinese in PAIRS.items()}
    folder = posixpath.dirname(page)
    found = re.findall(r"\]\((?!\w+:)([^)#\s]+)", BLOCK.sub("", text))
    return sorted(back.get(path, path) for path in (posixpath.normpath(posixpath.join(folder, one)) for one in found))


@pytest.mark.parametrize("english", PAIRS)
def test_a_translation_follows_its_page(english: str) -> None:
    chinese = PAIRS[english]
    original, translated = ((ROOT / name).read_text(encoding="utf-8") for name in (english, chinese))
    assert BLOCK.findall(translated) == BLOCK.findall(original)
    assert headings(translated) == headings(original)
    assert rows(translated) == rows(original)
    assert links(translated, chinese) == links(original, english)


def test_every_chinese_page_has_an_original() -> None:
    found = {str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "zh").glob("*.md")} - {"docs/zh/index.md"}
    assert found | {"README.zh-CN.md"} == set(PAIRS.values())
    assert all(Path(ROOT / name).is_file() for name in PAIRS)
