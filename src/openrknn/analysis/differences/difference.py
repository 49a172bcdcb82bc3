"""One difference between two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from openrknn.backports import StrEnum

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"


class Section(StrEnum):
    """Where a difference belongs, in the order in which they are reported."""

    MODEL = "model"
    INTERFACE = "inputs and outputs"
    OPERATORS = "operators"
    TENSORS = "tensors"
    WEIGHTS = "weights"
    COMMANDS = "commands"
    MEMORY = "memory"
    TEXTS = "texts"


@dataclass(frozen=True, slots=True)
class Difference:
    """`what` of `subject` was `before` and is `after`; or, where `words` are given, what they say."""

    section: Section
    subject: str
    what: str
    before: Value = None
    after: Value = None
    words: str = ""

    def __str__(self) -> str:
        subject = f"{self.subject}: " if self.subject else ""
        if self.words:
            return f"{subject}{self.words}"
        return f"{subject}{self.what} {_shown(self.before)} -> {_shown(self.after)}{_percent(self.before, self.after)}"


def changes(section: Section, subject: str, before: dict[str, Value], after: dict[str, Value]) -> Iterator[Difference]:
    """A difference for every entry that is not the same on both sides."""
    for what in (*before, *(what for what in after if what not in before)):
        if before.get(what) != after.get(what):
            yield Difference(section, subject, what, before.get(what), after.get(what))


def only_in_one(section: Section, subject: str, in_first: bool) -> Difference:
    """Something that one side has and the other has not."""
    where = "only in the first" if in_first else "only in the second"
    return Difference(section, subject, "presence", in_first, not in_first, where)


def _shown(value: Value) -> str:
    match value:
        case None:
            return "(none)"
        case str():
            return value if value.isprintable() and value and " " not in value else repr(value)
        case float():
            return f"{value:.6g}"
        case list():
            return "[" + ",".join(_shown(entry) for entry in value) + "]"
        case dict():
            return "{" + ", ".join(f"{name}: {_shown(entry)}" for name, entry in value.items()) + "}"
        case _:
            return str(value)


def _percent(before: Value, after: Value) -> str:
    """How much a real number grew or shrank; other numbers are codes and sizes, where it says little."""
    if not isinstance(before, float) or not isinstance(after, float) or not before:
        return ""
    return f" ({100 * (after - before) / abs(before):+.3g} %)"
