"""Dataclasses out of what JSON has, by the types of their fields; the reverse of `dataclasses.asdict`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def from_plain(kind: type[_T], data: Any, optional: Collection[str] = (), **given: Any) -> _T:
    """A dataclass; `optional` fields may be missing at any depth, `given` ones are not in the data.

    Whatever is not of the right form is a KeyError, TypeError, ValueError, AttributeError or OverflowError.
    """
    hints = _hints(kind)
    names = [field.name for field in fields(kind) if field.name not in given]  # type: ignore[arg-type]
    found = {name: _value(hints[name], data[name], optional)
             for name in names if name in data or name not in optional}  # fmt: skip
    return kind(**found, **given)


def _value(hint: Any, value: Any, optional: Collection[str]) -> Any:
    inner = get_args(hint)
    if is_dataclass(hint):
        return from_plain(hint, value, optional)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return tuple(_value(inner[0], one, optional) for one in value)
    if get_origin(hint) is Mapping:
        return {str(name): _value(inner[1], one, optional) for name, one in value.items()}
    if NoneType in inner:  # one of several types stays as it is, another one becomes the last of them
        kinds = [one for one in inner if one is not NoneType]
        return value if value is None or isinstance(value, tuple(kinds)) else kinds[-1](value)
    return hint(value)
