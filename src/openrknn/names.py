"""Suggestions for names that do not exist."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openrknn.backports import Self

_HABITS = {
    "providers": "device= says where a model runs ('auto', 'software', 'rknpu', 'vendor')",
    "sess_options": "cores=, max_work= and max_memory= are arguments of their own",
    "target": "the file says which chip it is for; device='software:rk3588' runs it on that one",
    "output_names": "it is the first argument: run(['logits'], {'image': picture})",
    "input_feed": "it is the second argument: run(None, {'image': picture})",
    "data_format": "layout='nhwc' or 'nchw' says how the arrays lie",
    "inputs_pass_through": "pass_through=True gives the model's own bytes",
}
"""Arguments of ONNX Runtime and of the vendor's toolkit that go by another name here."""


def meant(name: object, known: Iterable[object]) -> str:
    """ "; did you mean 'image'?", or nothing where no name is near."""
    import difflib  # here: only for those who made a mistake

    words = {str(one).lower(): str(one) for one in known}
    close = difflib.get_close_matches(str(name).lower(), words, n=1)
    return f"; did you mean {words[close[0]]!r}?" if close else ""


def refuse_unknown(what: str, options: Mapping[str, object], function: Callable[..., Any]) -> None:
    """Raise TypeError for the first option that the method does not take; `what` says whose options they are."""
    code = getattr(function, "__code__", None)
    if not options or code is None or code.co_flags & inspect.CO_VARKEYWORDS:  # a subclass may take what it likes
        return
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # without self
    unknown = next((name for name in options if name not in known), None)
    if unknown is None:
        return
    hint = f"; {_HABITS[unknown]}" if unknown in _HABITS else meant(unknown, known)
    raise TypeError(f"{what} takes no {unknown}={hint or '; there are ' + ', '.join(known)}")


class OwnSignature:
    """What `inspect`, `help` and editors show of a class that checks its options in `__new__`: those of `__init__`."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        signature = inspect.signature(getattr(owner, "__init__"))  # noqa: B009 - mypy sees an instance
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class NamedOptions:
    """A class whose constructor refuses options that it does not have, with the name that may have been meant."""

    __slots__ = ()
    __signature__ = OwnSignature()

    def __new__(cls, *_arguments: object, **options: object) -> Self:
        """Python's own complaint, before version 3.13, names nothing near."""
        refuse_unknown(cls.__name__, options, cls.__init__)
        return object.__new__(cls)
