"""Pages, `--help` and messages avoid the phrases that docs/style.md lists. Evidence: that table."""

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
NOT_YET = {"hardware", "llm.md", "listen.md", "speak.md", "operators.md", "CHANGELOG.md"}
"""Generated from texts in the source, or being rewritten; every other page is checked."""


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
    yield "README.md"
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = str(page.relative_to(ROOT / "docs"))
        if not NOT_YET & set(page.relative_to(ROOT / "docs").parts) and page != GUIDE:
            yield f"docs/{name}"


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


def messages(path: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings, if any of its lines has a phrase."""
    source = path.read_text(encoding="utf-8")
    if not found_in(source.replace("`", "'")):
        return
    tree = ast.parse(source)
    documentation = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_messages_use_plain_terms() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {hit}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in messages(path)
        for hit in found_in(text)
    ]
    assert wrong == [], "see docs/style.md"
