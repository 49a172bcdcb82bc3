"""Docstrings as the code has them (Markdown's backticks, indented examples) as reStructuredText."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

__all__ = ["as_rst"]

_CODE = re.compile(r"`([^`\n]+)`")
_SPECIAL = re.compile(r"[\\*|]|_(?=\W|$)")


def as_rst(lines: list[str]) -> list[str]:
    """A docstring, line by line."""
    made: list[str] = []
    for block in _blocks(lines):
        if block[0].startswith("    "):
            code = textwrap.dedent("\n".join(block)).splitlines()
            made += [f".. code-block:: {_language(code)}", "", *(f"   {line}".rstrip() for line in code), ""]
        else:
            made += [*_paragraph(block), ""]
    return made


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs; indented ones with only empty lines between them stay together, and leave the text before them."""
    block: list[str] = []
    gap = 0
    for line in lines:
        if not line.strip():
            gap += bool(block)
            continue
        is_code, was_code = line.startswith("    "), bool(block) and block[0].startswith("    ")
        joins = bool(block) and (is_code == was_code) and (not gap or is_code)
        if block and not joins:
            yield block
            block = []
        elif gap:
            block += [""] * gap
        block.append(line if is_code else line.strip())
        gap = 0
    if block:
        yield block


def _language(code: list[str]) -> str:
    try:
        ast.parse("\n".join(code))
    except SyntaxError:
        return "text"
    return "python"


def _paragraph(block: list[str]) -> list[str]:
    """Escaped outside of its code."""
    return _inline("\n".join(block)).split("\n")


def _inline(text: str) -> str:
    made, at = [], 0
    for match in _CODE.finditer(text):
        before, after = text[: match.start()][-1:], text[match.end() :][:1]
        glue = ["\\ " if edge.isalnum() else "" for edge in (before, after)]  # what would not be a border of code
        made += [_escaped(text[at : match.start()]), glue[0], f"``{match[1]}``", glue[1]]
        at = match.end()
    return "".join([*made, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)
