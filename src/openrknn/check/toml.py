"""Writes TOML: what a golden.toml needs of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["key_text", "value_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+$")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_DELETE = 0x7F


def key_text(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE.match(key) else value_text(key)


def value_text(value: Any) -> str:
    """A text, number, list or inline table on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_character(letter) for letter in value) + '"'
        case int() | float():
            return f"{value!r}"
        case Mapping():
            return "{ " + ", ".join(f"{key_text(str(key))} = {value_text(item)}" for key, item in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


def _character(letter: str) -> str:
    code = ord(letter)
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    return f"\\u{code:04x}" if code < 0x20 or code == _DELETE else letter
