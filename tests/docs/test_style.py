"""Pages, `--help`, messages and docstrings avoid the phrases that docs/style.md lists. Evidence: that table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.cli.commands import NAMES
from openrknn.cli.main import build_parser
from tests.docs.code_blocks import ROOT
from tools.command_parsers import subparsers

GUIDE = ROOT / "docs" / "style.md"
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|<!--.*?-->", re.M | re.S)


def phrases() -> list[str]:
    table = GUIDE.read_text(encoding="utf-8").split("| instead of | write |")[1]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    return [phrase.strip() for row in rows for phrase in row.split(",")]


def found_in(text: str) -> list[str]:
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, phrases())) + r")\b", re.I)
    plain = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
    return [
        f"line {number}: {match[0]!r}"
        for number, line in enumerate(plain.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def pages() -> Iterator[str]:
    yield from ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page != GUIDE and "_build" not in page.parts:
            yield f"docs/{page.relative_to(ROOT / 'docs')}"


def test_the_table_is_read() -> None:
    assert len(phrases()) >= 20
    text = "It lies there, and `nobody` of ours\n```\nanew\n```\nwas told."
    assert found_in(text) == ["line 1: 'lies'", "line 1: 'of ours'"]


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_uses_plain_terms(name: str) -> None:
    assert found_in((ROOT / name).read_text(encoding="utf-8")) == [], "see docs/style.md"


def test_help_uses_plain_terms() -> None:
    wrong = {}
    for name, parser in subparsers(build_parser(NAMES)).items():
        for one in (parser, *subparsers(parser).values()):
            if hits := found_in(one.format_help()):
                wrong[name] = hits
    assert wrong == {}, "see docs/style.md"


def texts(path: Path) -> Iterator[str]:
    """The strings of a module: messages, names and docstrings, if any of its lines has a phrase."""
    source = path.read_text(encoding="utf-8")
    if not found_in(source.replace("`", "'")):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_messages_and_docstrings_use_plain_terms() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {hit}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in texts(path)
        for hit in found_in(text)
    ]
    assert wrong == [], "see docs/style.md"
