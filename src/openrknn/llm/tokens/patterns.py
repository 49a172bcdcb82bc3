"""Regular expressions of a tokenizer.json: those that can take exponential time are refused.

The `tokenizers` library tries alternatives one after the other and cannot be interrupted. A repetition is taken if its
body is a character, a class or a sequence of fixed length, which is all that published tokenizers need: then there is
one way only to cut a text into its repetitions.
"""

from __future__ import annotations

import re
from typing import Any

from openrknn.llm.errors import TokenizerError

__all__ = ["check_pattern", "check_patterns"]

_LONGEST = 20_000
_DEEPEST = 40
_MANY = 64
"""Repetitions that count as without an end."""
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_ESCAPE = re.compile(r"\\(?:[pPxuNgk]\{[^}]*\}|[gk]<[^>]*>|.)", re.DOTALL)
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_OPENING = re.compile(r"\?(?:[:=!>|]|<[=!]|P?<\w+>|'\w+'|[imsxnU^-]*:)")
_FLAGS = re.compile(r"\(\?[imsxnU-]+\)")
_COMMENT = re.compile(r"\(\?#[^)]*\)")


def check_patterns(said: dict[str, Any]) -> None:
    """All of a file. TokenizerError names the one that is refused."""
    waiting = [said.get(name) for name in _PARTS]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("Regex"), str):
                check_pattern(one["Regex"])
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def check_pattern(pattern: str) -> None:
    """TokenizerError: it may take time that grows exponentially with the text, or it is no regular expression."""
    if len(pattern) > _LONGEST:
        raise TokenizerError(f"tokenizer.json has a regular expression of {len(pattern)} characters (most: {_LONGEST})")
    _Reader(pattern).read()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text, self._at, self._depth = pattern, 0, 0

    def read(self) -> None:
        self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("a ')' that closes nothing")

    def _wrong(self, why: str) -> TokenizerError:
        return TokenizerError(f"tokenizer.json: the regular expression {self._text[:120]!r} has {why}, at {self._at}")

    def _alternatives(self) -> bool:
        """Up to the end of the group; whether everything in it has one length."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(f"groups in more than {_DEEPEST} groups")
        is_fixed, text = True, self._text
        while self._at < len(text) and text[self._at] != ")":
            if text[self._at] == "|":
                is_fixed = False
                self._at += 1
            else:
                is_fixed = self._item() and is_fixed
        self._depth -= 1
        return is_fixed

    def _item(self) -> bool:
        start = self._at
        is_fixed = self._atom()
        repeat = self._quantifier()
        if repeat is None:
            return is_fixed
        least, most, is_possessive = repeat
        if (most is None or most > _MANY) and not is_fixed and not is_possessive:
            inside = self._text[start : min(self._at, start + 60)]
            raise self._wrong(f"a repetition of what has several lengths or alternatives, {inside!r}: too slow to run")
        return (is_fixed and least == most) or is_possessive

    def _atom(self) -> bool:
        text, sign = self._text, self._text[self._at]
        for form in (_FLAGS, _COMMENT):
            found = form.match(text, self._at)
            if found:
                self._at = found.end()
                return True
        if sign == "\\":
            found = _ESCAPE.match(text, self._at)
            if found is None:
                raise self._wrong("a backslash at its end")
            self._at = found.end()
            return not text.startswith(("\\R", "\\X", "\\g", "\\k"), found.start())
        if sign == "[":
            self._class()
            return True
        self._at += 1
        if sign != "(":
            return True
        found = _OPENING.match(text, self._at)
        opening = found.group() if found else ""
        self._at += len(opening)
        is_fixed = self._alternatives()
        if self._at >= len(text):
            raise self._wrong("a group without its end")
        self._at += 1
        return is_fixed or opening == "?>"

    def _class(self) -> None:
        text, depth = self._text, 0
        while self._at < len(text):
            sign = text[self._at]
            if sign == "\\":
                self._at += 1
            elif sign == "[":
                depth += 1
                # A bracket right behind the first one is a character of the class.
                self._at += text.startswith("^", self._at + 1)
                self._at += text.startswith("]", self._at + 1)
            elif sign == "]":
                depth -= 1
                if not depth:
                    self._at += 1
                    return
            self._at += 1
        raise self._wrong("a class without its end")

    def _quantifier(self) -> tuple[int, int | None, bool] | None:
        """(least, most, possessive)."""
        text, found = self._text, None
        sign = text[self._at : self._at + 1]
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (1, 1))
        if sign == "{":
            found = _COUNT.match(text, self._at)
            if found is None or not (found[1] or found[3]):
                return None
            least = int(found[1] or 0)
            most = int(found[3]) if found[3] else None if found[2] else least
        elif sign not in ("*", "+", "?") or not sign:
            return None
        self._at = found.end() if found else self._at + 1
        sign = text[self._at : self._at + 1]
        if sign in ("?", "+") and sign:
            self._at += 1
        return least, most, sign == "+" and found is None
