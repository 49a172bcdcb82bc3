"""Go's text/template, as much of it as the chart uses: from text to a tree. What it does not know it refuses."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Call", "Chain", "Constant", "If", "Node", "Pipe", "Range", "TemplateError", "Text", "With", "parse"]


class TemplateError(Exception):
    """A template that is wrong, or that uses what the renderer does not know."""


@dataclass
class Constant:
    """A string, number or bool."""

    value: object


@dataclass
class Chain:
    """`.a.b`, `$x.a`, `name` (a function) or `(pipe).a`."""

    start: str | Pipe
    fields: list[str] = field(default_factory=list)


@dataclass
class Call:
    """A function or value with its arguments."""

    words: list[Constant | Chain]


@dataclass
class Pipe:
    """Calls joined by `|`; `names` are the variables that get the result."""

    calls: list[Call]
    names: list[str] = field(default_factory=list)
    is_new: bool = False


@dataclass
class Text:
    """Goes out as it is."""

    text: str


@dataclass
class If:
    """Conditions with their parts; the last condition is None for `else`."""

    arms: list[tuple[Pipe | None, list[Node]]]


@dataclass
class With:
    """The dot is something else inside."""

    pipe: Pipe
    inside: list[Node]
    otherwise: list[Node]


@dataclass
class Range:
    """Once for each item."""

    pipe: Pipe
    inside: list[Node]
    otherwise: list[Node]


Node = Text | Pipe | If | With | Range

_ACTION = re.compile(
    r'\{\{(-(?=\s))?((?:/\*.*?\*/|"(?:[^"\\]|\\.)*"|`[^`]*`|(?!\}\})[^"`])*?)((?<=\s)-)?\}\}', re.DOTALL
)
_WORD = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])
    |(?P<chain>(?=[.$A-Za-z_])\$?[A-Za-z_]?\w*(?:\.[A-Za-z_]\w*)*\.?)(?=[\s|),]|$)|(?P<sign>:=|[|(),=]))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@functools.lru_cache
def parse(text: str, where: str) -> tuple[list[Node], dict[str, list[Node]]]:
    """The tree of a file, and the templates that it defines."""
    parser = _Parser(list(_pieces(text)), where)
    nodes = parser.block(())
    return nodes, parser.defined


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Text and actions by turns, with the white space that `{{-` and `-}}` take away gone."""
    at, trim = 0, False
    for match in _ACTION.finditer(text):
        before = text[at : match.start()]
        before = before.lstrip() if trim else before
        yield False, before.rstrip() if match.group(1) else before
        inside = match.group(2).strip()
        if not (inside.startswith("/*") and inside.endswith("*/")):
            yield True, inside
        at, trim = match.end(), bool(match.group(3))
    rest = text[at:]
    if "{{" in rest:
        raise TemplateError("an action without an end")
    yield False, rest.lstrip() if trim else rest


class _Parser:
    def __init__(self, pieces: list[tuple[bool, str]], where: str) -> None:
        self._pieces, self._at, self._where = pieces, 0, where
        self.defined: dict[str, list[Node]] = {}
        self.ended_by = ""

    def block(self, ends: tuple[str, ...]) -> list[Node]:
        """Up to one of `ends`, which is then in `ended_by`."""
        found: list[Node] = []
        while self._at < len(self._pieces):
            is_action, text = self._pieces[self._at]
            self._at += 1
            if not is_action:
                if text:
                    found.append(Text(text))
                continue
            word = text.split(maxsplit=1)[0] if text else ""
            if word in ends:
                self.ended_by = text
                return found
            node = self._action(word, text[len(word) :])
            if node is not None:
                found.append(node)
        if ends:
            raise TemplateError(f"{self._where}: {' or '.join(ends)} is missing")
        return found

    def _action(self, word: str, rest: str) -> Node | None:
        if word == "if":
            return self._if(rest)
        if word in {"with", "range"}:
            pipe = self._pipe(rest)
            inside = self.block(("else", "end"))
            otherwise: list[Node] = []
            if self.ended_by != "end":
                self._must(self.ended_by == "else", f"{self.ended_by!r} after {word}")
                otherwise = self.block(("end",))
            return (With if word == "with" else Range)(pipe, inside, otherwise)
        if word == "define":
            name = rest.strip().strip('"')
            self._must(name not in self.defined, f"{name} is defined twice")
            self.defined[name] = self.block(("end",))
            return None
        self._must(word not in {"else", "end", "template", "block", "break", "continue"}, f"{word!r} here")
        return self._pipe(word + rest)

    def _if(self, condition: str) -> If:
        arms: list[tuple[Pipe | None, list[Node]]] = []
        pipe: Pipe | None = self._pipe(condition)
        while True:
            inside = self.block(("else", "end"))
            arms.append((pipe, inside))
            if self.ended_by == "end":
                return If(arms)
            self._must(pipe is not None, "two else")
            words = self.ended_by.split(maxsplit=2)
            self._must(len(words) == 1 or words[1] == "if", f"{self.ended_by!r} is not known here")
            pipe = self._pipe(words[2]) if len(words) > 1 else None

    def _must(self, is_so: bool, text: str) -> None:
        if not is_so:
            raise TemplateError(f"{self._where}: {text}")

    def _pipe(self, text: str) -> Pipe:
        words = _Words(text, self._where)
        pipe = words.pipe()
        self._must(words.peek() is None, f"{text!r}: what follows the pipe?")
        return pipe


class _Words:
    """The inside of an action."""

    def __init__(self, text: str, where: str) -> None:
        self._where, self._text = where, text
        self._all: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _WORD.match(text, at)
            if match is None or match.end() == at or match.lastgroup is None:
                raise TemplateError(f"{where}: {text[at:]!r} is not known here")
            self._all.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        self._at = 0

    def peek(self) -> tuple[str, str] | None:
        return self._all[self._at] if self._at < len(self._all) else None

    def _sign(self, *signs: str) -> str | None:
        found = self.peek()
        if found is None or found[0] != "sign" or found[1] not in signs:
            return None
        self._at += 1
        return found[1]

    def pipe(self) -> Pipe:
        names, is_new = self._names()
        calls = [self._call()]
        while self._sign("|"):
            calls.append(self._call())
        return Pipe(calls, names, is_new)

    def _names(self) -> tuple[list[str], bool]:
        start, names = self._at, []
        while (word := self.peek()) and word[0] == "chain" and re.fullmatch(r"\$\w+", word[1]):
            names.append(word[1])
            self._at += 1
            if not self._sign(","):
                break
        sign = self._sign(":=", "=") if names else None
        if sign is None:
            self._at = start
            return [], False
        return names, sign == ":="

    def _call(self) -> Call:
        words: list[Constant | Chain] = []
        while (found := self.peek()) is not None:
            kind, text = found
            if kind == "sign":
                if not self._sign("("):
                    break
                inner = self.pipe()
                if not self._sign(")"):
                    raise TemplateError(f"{self._where}: {self._text!r} lacks a parenthesis")
                words.append(Chain(inner))
                continue
            self._at += 1
            words.append(_chain(text) if kind == "chain" else Constant(_constant(kind, text)))
        if not words:
            raise TemplateError(f"{self._where}: {self._text!r}: a call of nothing")
        return Call(words)



def _constant(kind: str, text: str) -> object:
    if kind == "number":
        return float(text) if "." in text else int(text)
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match.group(1)], text[1:-1])


def _chain(text: str) -> Constant | Chain:
    if text in {"true", "false"}:
        return Constant(text == "true")
    if text in {".", "$"}:
        return Chain(text)
    first, *fields = text.split(".")
    if any(not one for one in fields):
        raise TemplateError(f"{text!r} ends with a dot")
    return Chain(first or ".", fields)
