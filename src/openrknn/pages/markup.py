"""HTML and SVG without accidents: what comes from a model file is text and stays text.

Only `tag` and `join` make `Markup`; every other string that goes into them is escaped. Model files are hostile: names
are cut to a readable length, and characters that one cannot see (control, bidirectional, surrogate) become `\\u202e`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

__all__ = ["Content", "Markup", "breakable", "clean", "coded", "join", "tag"]

_MAX_CHARACTERS = 240
_VOID = frozenset({"img", "input", "line", "meta", "path", "rect", "wbr"})
_BREAKS = re.compile(r"(?<=[/:.×])(?=\w)")


class Markup(str):
    """A piece of HTML or SVG that is safe to put into a page."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int | None"


def clean(text: str, limit: int = _MAX_CHARACTERS) -> str:
    """A text from a file as people can read it: no invisible characters, at most `limit` characters."""
    if len(text) > limit:
        kept = limit - 1
        text = f"{text[: kept - kept // 3]}…{text[-(kept // 3) :]}"
    return _visible(text)


def breakable(path: str) -> Markup:
    """A name that may be broken after a slash, a colon, a dot or a times sign."""
    return join(_BREAKS.split(path), between="<wbr>")


def coded(text: str) -> Markup:
    """Our own text, with `commands` between backquotes as code."""
    return join(tag("code", part) if place % 2 else part for place, part in enumerate(text.split("`")))


def tag(name: str, /, *children: Content, **attributes: str | float | bool | None) -> Markup:
    """One element: `tag("a", "text", href="#x", class_="y")`. None and False leave an attribute out."""
    written = "".join(
        f" {_attribute_name(key)}" if value is True else f' {_attribute_name(key)}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[Content], between: str = "") -> Markup:
    """Several pieces as one; plain strings are escaped."""
    return Markup(between.join(_text(part) for part in parts if part is not None))


def _text(part: str | float) -> str:
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return escape(_visible(part))
    return str(part) if isinstance(part, int) else f"{part:.6g}"


def _attribute_name(key: str) -> str:
    """`class_` -> class, `aria_label` -> aria-label, `viewBox` stays."""
    return key.rstrip("_").replace("_", "-")


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark == "\n" else f"\\u{ord(mark):04x}" for mark in text)
