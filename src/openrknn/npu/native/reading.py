"""Which fields of a step's configuration its translation reads: a kernel must not pass over what a field says.

The translation sees a step through views that note every field it reads. Afterwards each field that was not read must
have its default, which means "as ever" in a configuration; a field without a default must have been read. Otherwise the
kernel declines the step, and NumPy does it. So a block may learn something new without a word here: until the
translation reads the new field, steps that use it are left to NumPy.

A step can be computed in several ways, which read different fields: a `Way` notes those of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
            found = object.__new__(_view_of(kind))
            for name, value in (("_original", config), ("_read", set()), ("_way", self)):
                object.__setattr__(found, name, value)
            self._views[id(config)] = found
        return found  # type: ignore[no-any-return]

    def has_read(self, config: object) -> set[str]:
        """The names of the fields of this very object that were read."""
        view = self._views.get(id(config))
        read: set[str] = set() if view is None else view._read
        return read if self._before is None else read | self._before.has_read(config)

    def unread(self, config: object) -> Iterator[str]:
        """The fields, of what it holds as well, that say something and that nobody read."""
        if isinstance(config, tuple):
            for value in config:
                yield from self.unread(value)
        described = _fields_of(type(config))
        if not described:
            return
        read = self.has_read(config)
        for name, default in described:
            value = getattr(config, name)
            if name in read:
                if type(value) not in _PLAIN and _WHOLE + name not in read:
                    yield from self.unread(value)
            elif name not in _PLACE and (default is MISSING or value != default):
                yield f"{type(config).__module__.rpartition('.')[2]}: {name} = {value!r}"


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
        view._read.update(names, (_WHOLE + name for name in names))


def whole(config: T) -> T:
    """The configuration itself, for code of the blocks, which knows every field: all of it counts as read."""
    if type(config) not in _KINDS:
        return config
    ignore(config, *(field.name for field in fields(config)))  # type: ignore[arg-type]
    return config._original  # type: ignore[attr-defined, no-any-return]


_WHOLE = "* "
"""Before the name of a field whose value counts as read to its innermost field."""
_KINDS: set[type] = set()
"""The types of views."""
_VIEWS: dict[type, type] = {}
_CONFIGS: dict[type, tuple[tuple[str, Any], ...]] = {}


def _fields_of(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a configuration with their defaults; nothing for what is no configuration."""
    found = _CONFIGS.get(kind)
    if found is None:
        described = fields(kind) if is_dataclass(kind) else ()
        found = _CONFIGS[kind] = tuple((field.name, field.default) for field in described)
    return found


def _view_of(kind: type) -> type:
    """A type like `kind` whose fields tell that they are read."""
    if kind not in _VIEWS:
        members: dict[str, Any] = {field.name: property(_getter(field.name)) for field in fields(kind)}
        view = type(kind.__name__, (kind,), {"__slots__": ("_original", "_read", "_way"), **members})
        _KINDS.add(view)
        _VIEWS[kind] = view
    return _VIEWS[kind]


def _getter(name: str) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        self._read.add(name)
        value = getattr(self._original, name)
        return value if type(value) in _PLAIN else self._way.view(value)

    return get


_PLAIN = {int, bool, float, type(None)}
"""Types that most fields have."""
