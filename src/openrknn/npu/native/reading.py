"""Which fields of a step's configuration its translation reads: a kernel must not pass over what a field says.

The translation sees a step through views that note every field it reads. Afterwards each field that was not read must
have its default, which means "as ever" in a configuration; a field without a default must have been read. Otherwise the
kernel declines the step, and NumPy does it. So a block may learn something new without a word here: until the
translation reads the new field, steps that use it are left to NumPy.

A step can be computed in several ways, which read different fields: a `Way` notes those of one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Generic, TypeVar

from openrknn.npu.task import Step

T = TypeVar("T")
S = TypeVar("S", bound=Step)
_PLACE = frozenset(field.name for field in fields(Step))
"""Which task a step is, not what it does."""


class RefusedError(Exception):
    """No kernel fits this step; NumPy does it. The text says why."""


class Way:
    """What was read on one way, in addition to what was read on the way that it begins with."""

    def __init__(self, before: Way | None = None) -> None:
        self._before = before
        self._views: dict[int, Any] = {}
        self._finished: set[int] = set()
        """Configurations of which nothing is unread."""

    def view(self, config: T) -> T:
        """The configuration, or whatever a field holds, so that reading its fields is noted."""
        found = self._views.get(id(config))  # which keeps it alive: no other object has this number
        if found is not None:
            return found  # type: ignore[no-any-return]
        kind = type(config)
        if kind is tuple:
            return tuple(map(self.view, config)) if config else config  # type: ignore[call-overload, return-value]
        if kind in _KINDS:
            return self.view(config._original)  # type: ignore[attr-defined, no-any-return]
        if not _fields_of(kind):
            return config
        found = self._views[id(config)] = object.__new__(_VIEWS.get(kind) or _view_of(kind))
        members: dict[str, Any] = found.__dict__
        members["_original"], members["_read"], members["_way"] = config, 0, self
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._views.clear()
        self._finished.clear()

    def has_read(self, config: object) -> int:
        """The bits of the fields of this very object that were read; see `_bits_of`."""
        read = 0
        way: Way | None = self
        while way is not None:
            view = way._views.get(id(config))
            if view is not None:
                read |= view.__dict__["_read"]
            way = way._before
        return read

    def unread(self, config: object) -> Iterator[str]:
        """The fields, of what it holds as well, that are set and were not read."""
        found: list[str] = []
        self._find_unread(config, found)
        if not found and isinstance(config, tuple):
            self._finished.update(map(id, config))
        return iter(found)

    def _find_unread(self, config: object, found: list[str]) -> None:
        if id(config) in self._finished:
            return
        kind: Any = type(config)
        if not _fields_of(kind):
            for value in config if isinstance(config, tuple) else ():
                self._find_unread(value, found)
            return
        for name, default, is_read in _left(kind, self.has_read(config)):
            value = getattr(config, name)
            if is_read:
                if type(value) not in _SIMPLE:
                    self._find_unread(value, found)
            elif default is MISSING or value != default:
                found.append(f"{kind.__module__.rpartition('.')[2]}: {name} = {value!r}")


class Reading(Generic[S]):
    """The reading of one step; `step` is what translations look at."""

    def __init__(self, original: S) -> None:
        self.original = original
        self.shared = Way()
        """What every way needs."""
        self.general, self.chain, self.table = Way(self.shared), Way(self.shared), Way(self.shared)
        """The stages of the DPU: in their general form, as a chain, as one table."""
        self.used = self.shared
        self.step = self.shared.view(original)

    def refuse_unread(self) -> None:
        """RefusedError where the step says something that the way it goes has not heard of."""
        for field in self.used.unread(self.original):
            raise RefusedError(f"no kernel knows {field}")

    def forget(self) -> None:
        """The views and what was noted: each knows the other, which would be left to the garbage collector."""
        for way in (self.shared, self.general, self.chain, self.table):
            way.clear()


def ignore(config: object, *names: str) -> None:
    """Fields that change nothing here: the NumPy code does not look at them in this case either."""
    if type(config) in _KINDS:
        view: Any = config
        kind: Any = type(view._original)
        view.__dict__["_read"] |= _bits_of(kind, names)


def whole(config: T) -> T:
    """The configuration itself, for code of the blocks, which knows every field: all of it counts as read."""
    if type(config) not in _KINDS:
        return config
    original: Any = config._original  # type: ignore[attr-defined]
    kind: Any = type(original)
    ignore(config, *_names_of(kind))
    return original  # type: ignore[no-any-return]


_KINDS: set[type] = set()
"""The types of views."""
_VIEWS: dict[type, type] = {}
_CONFIGS: dict[type, tuple[tuple[str, Any], ...]] = {}
_SIMPLE: set[type] = {int, bool, float, type(None)}
"""Types without fields, where they were met: those that most fields have; enumerations, arrays."""


def _fields_of(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a configuration with their defaults; nothing for what is no configuration."""
    found = _CONFIGS.get(kind)
    if found is None:
        described = fields(kind) if is_dataclass(kind) else ()
        found = _CONFIGS[kind] = tuple((field.name, field.default) for field in described)
        if not found and not issubclass(kind, tuple):
            _SIMPLE.add(kind)
    return found


@functools.cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(name for name, _ in _fields_of(kind))


@functools.cache
def _bits_of(kind: type, names: tuple[str, ...]) -> int:
    """Two bits for each of these fields: it was read, and its value counts as read to its innermost field."""
    known = _names_of(kind)
    return sum(3 << 2 * known.index(name) for name in names)


@functools.lru_cache(1 << 12)
def _left(kind: type, read: int) -> tuple[tuple[str, Any, bool], ...]:
    """The fields to look at where these bits are set: name, default and whether it was read.

    Steps that take the same way through the translation have read the same: few numbers are met.
    """
    states = [(name, default, read >> 2 * number & 3) for number, (name, default) in enumerate(_fields_of(kind))]
    return tuple((name, default, bool(bits)) for name, default, bits in states
                 if bits == 1 or (not bits and name not in _PLACE))  # fmt: skip


def _view_of(kind: type) -> type:
    """A type like `kind` whose fields tell that they are read."""
    members: dict[str, Any] = {name: _Noted(name, 1 << 2 * number) for number, name in enumerate(_names_of(kind))}
    members["__init__"] = _refuse_copy
    view = _VIEWS[kind] = type(kind.__name__, (kind,), members)
    _KINDS.add(view)
    return view


def _refuse_copy(self: object, *_: object, **_more: object) -> None:
    """`replace` of a view would be a configuration whose reads are not recorded."""
    raise AttributeError("a view of a configuration cannot be copied; copy what it shows")


class _Noted:
    """A field of a view. What was read is in the `__dict__` of the view, where the next look finds it."""

    def __init__(self, name: str, bit: int) -> None:
        self._name, self._bit = name, bit

    def __get__(self, view: Any, kind: type) -> Any:
        members = view.__dict__
        name = self._name
        value = getattr(members["_original"], name)
        if type(value) not in _SIMPLE:
            value = members["_way"].view(value)
        members["_read"] |= self._bit
        members[name] = value
        return value
