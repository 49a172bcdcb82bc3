"""`normalised`: a text in words, for the language that it is spoken in."""

from __future__ import annotations

import re

from openrknn.voice.text.english import english
from openrknn.voice.text.german import german

_RAW = re.compile(r"(\[\[.*?\]\])", re.DOTALL)
_SPACES = re.compile(r"[\u00a0\u2007\u202f\u2009]")
LANGUAGES = ("en", "de")
"""Languages with rules; of others the spaces alone are changed, and espeak-ng reads their numbers."""


def normalised(text: str, language: str) -> str:
    """`language`: a tag or a voice of espeak-ng (`en-us`, `de`). `[[ phonemes ]]` stay as they are."""
    found = []
    for part in _RAW.split(text):
        if part.startswith("[[") and part.endswith("]]"):
            found.append(part)
            continue
        plain = _SPACES.sub(" ", part)
        tag = language.lower().replace("_", "-")
        if tag.startswith("en"):
            plain = english(plain, is_british="us" not in tag and tag != "en")
        elif tag.startswith("de"):
            plain = german(plain)
        found.append(plain)
    return "".join(found)
