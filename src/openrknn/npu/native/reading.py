"""Which fields of a step's configuration its translation reads: a kernel must not pass over what a field says.

The translation sees a step through views that note every field it reads. Afterwards each field that was not read must
have its default, which means "as ever" in a configuration; a field without a default must have been read. Otherwise the
kernel declines the step, and NumPy does it. So a block may learn something new without a word here: until the
translation reads the new field, steps that use it are left to NumPy.

A step can be computed in several ways, which read different fields: a `Way` notes those of one of them.
"""

from __future__ import annotations

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
        kind = type(config)
        if kind is tuple:
            return tuple(map(self.view, config)) if config else config  # type: ignore[call-overload, return-value]
        if kind in _KINDS:
            return self.view(config._original)  # type: ignore[attr-defined, no-any-return]
        if not _fields_of(kind):
            return config
        found = self._views.get(id(config))
        if found is None:
            found = self._views[id(config)] = object.__new__(_VIEWS.get(kind) or _view_of(kind))
            found.__dict__.update(_original=config, _passed=set(), _way=self)
        return found  # type: ignore[no-any-return]

    def has_read(self, config: object) -> set[str]:
        """The names of the fields of this very object that were read."""
        read: set[str] = set()
        way: Way | None = self
        while way is not None:
            view = way._views.get(id(config))
            if view is not None:
                read.update(view.__dict__, view._passed)
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
        described = _fields_of(type(config))
        if id(config) in self._finished:
            return
        if not described:
            for value in config if isinstance(config, tuple) else ():
                self._find_unread(value, found)
            return
        read = self.has_read(config)
        for name, default in described:
            value = getattr(config, name)
            if name in read:
                if type(value) not in _PLAIN and type(value) not in _LEAVES and _WHOLE + name not in read:
                    self._find_unread(value, found)
            elif name not in _PLACE and (default is MISSING or value != default):
                found.append(f"{type(config).__module__.rpartition('.')[2]}: {name} = {value!r}")


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


def ignore(config: object, *names: str) -> None:
    """Fields that change nothing here: the NumPy code does not look at them in this case either."""
    if type(config) in _KINDS:
        view: Any = config
        view._passed.update(names, [_WHOLE + name for name in names])


def whole(config: T) -> T:
    """The configuration itself, for code of the blocks, which knows every field: all of it counts as read."""
    if type(config) not in _KINDS:
        return config
    ignore(config, *(name for name, _ in _fields_of(type(config._original))))  # type: ignore[attr-defined]
    return config._original  # type: ignore[attr-defined, no-any-return]


_WHOLE = "* "
"""Before the name of a field whose value counts as read to its innermost field."""
_KINDS: set[type] = set()
"""The types of views."""
_VIEWS: dict[type, type] = {}
_CONFIGS: dict[type, tuple[tuple[str, Any], ...]] = {}
_LEAVES: set[type] = set()
"""Types without fields: enumerations, arrays."""


def _fields_of(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a configuration with their defaults; nothing for what is no configuration."""
    found = _CONFIGS.get(kind)
    if found is None:
        described = fields(kind) if is_dataclass(kind) else ()
        found = _CONFIGS[kind] = tuple((field.name, field.default) for field in described)
        if not found and not issubclass(kind, tuple):
            _LEAVES.add(kind)
    return found


def _view_of(kind: type) -> type:
    """A type like `kind` whose fields tell that they are read."""
    members: dict[str, Any] = {name: _Noted(name) for name, _ in _fields_of(kind)}
    members["__init__"] = _refuse_copy
    view = _VIEWS[kind] = type(kind.__name__, (kind,), members)
    _KINDS.add(view)
    return view


def _refuse_copy(self: object, *_: object, **_more: object) -> None:
    """`replace` of a view would be a configuration whose reads are not recorded."""
    raise AttributeError("a view of a configuration cannot be copied; copy what it shows")


class _Noted:
    """A field of a view. What was read is in the `__dict__` of the view, where the next look finds it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, view: Any, kind: type) -> Any:
        members = view.__dict__
        value = getattr(members["_original"], self._name)
        if type(value) not in _PLAIN:
            value = members["_way"].view(value)
        members[self._name] = value
        return value


_PLAIN = {int, bool, float, type(None)}
"""Types that most fields have."""
