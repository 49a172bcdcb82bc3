"""What can go wrong between an ONNX file and a `.rknn`; each message says what, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from openrknn.errors import RknnError, UnsupportedError


class CompileError(RknnError):
    """The root of what the compiler raises.

    `operators` are the names of the operators or values that it is about, the most telling first; callers need not
    parse the text. None of them: it is about the model as a whole.
    """

    def __init__(self, *args: object, operators: Iterable[str] = ()) -> None:
        super().__init__(*args)
        self.operators = tuple(dict.fromkeys(name for name in operators if name))


class OptionError(CompileError, ValueError):
    """An option of the compilation that cannot be, whatever the model is."""


class ModelError(CompileError):
    """The ONNX file is not what it should be: damaged, without shapes, with NaN in its weights."""


class CalibrationError(CompileError):
    """The calibration data are missing, unreadable, or do not fit the model's inputs."""


class MisfitError(CalibrationError):
    """A calibration array has another shape than the input."""


class UnsupportedOperatorError(CompileError, UnsupportedError):
    """The model needs an operator, or a form of one, that the compiler does not have."""


class SequenceError(CompileError, UnsupportedError):
    """A decoder whose step cannot be rewritten to a cache of fixed capacity."""


class WrongResultError(CompileError):
    """The file that was made does not compute what the model does: a mistake of the compiler, found in time."""


@contextmanager
def about(*names: str) -> Iterator[None]:
    """Errors from within that name no operators are about these."""
    try:
        yield
    except CompileError as error:
        if not error.operators:
            error.operators = tuple(dict.fromkeys(name for name in names if name))
        raise


def in_terms_of(error: CompileError, known: Collection[str]) -> None:
    """Say `operators`, and tensors in the text, with names that the given model has.

    What the compiler writes in place of an operator begins with its name. Text: what stands in quotes, or is advised as
    a place to cut (--outputs).
    """
    found: dict[str, None] = {}
    for name in error.operators:
        start = name
        while start and start not in known:
            start = start.rpartition("_")[0]
        if start:
            found[start] = None
    error.operators = tuple(found)
    if error.args and isinstance(error.args[0], str):
        error.args = (_NAMED.sub(lambda match: _in_text(match, known), error.args[0]), *error.args[1:])


_NAMED = re.compile(r"(?P<before>--outputs )(?P<cut>[^\s();,]*[^\s();,.])|'(?P<quoted>[^'\n]+)'")


def _in_text(match: re.Match[str], known: Collection[str]) -> str:
    name = match["cut"] or match["quoted"]
    start = name
    while start and start not in known:
        start = start.rpartition("_")[0]
    if match["cut"]:
        return f"{match['before']}{name if name == 'heads' or name in known else start or 'NAME'}"
    return f"'{start}'" if start else match[0]
