"""Sections of docs/benchmarks.md: each script writes its own and leaves the others."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["kept", "put"]

_SECTION = re.compile(r"<!-- (?P<name>\w+): begin -->\n.*?<!-- (?P=name): end -->\n", re.DOTALL)


def kept(page: Path) -> str:
    """All sections of a page, for whoever writes the rest of it again."""
    text = page.read_text() if page.is_file() else ""
    return "".join(f"\n{found[0]}" for found in _SECTION.finditer(text))


def put(page: Path, name: str, lines: list[str]) -> None:
    """Write one section again, or at the end for the first time."""
    section = "\n".join([f"<!-- {name}: begin -->", *lines, f"<!-- {name}: end -->", ""])
    text = page.read_text()
    for found in _SECTION.finditer(text):
        if found["name"] == name:
            page.write_text(text[: found.start()] + section + text[found.end() :])
            return
    page.write_text(text.rstrip("\n") + "\n\n" + section)
