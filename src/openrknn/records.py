"""`dataclass` of the standard library, made faster to import.

`dataclasses.dataclass` writes and compiles up to six functions for every class while its module is imported; for the
classes that a first run needs this took longer than importing NumPy. Here `__init__` is one of those in `inits` with
other names, compiled only where those do not do, and `__repr__`, `__eq__`, `__hash__` and what freezes an object are
the same functions for all classes.
What they do is what the standard library says, and `fields`, `replace` and `is_dataclass` know these classes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from openrknn import inits

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, with `eq`, `frozen` and `slots`."""
        return (lambda one: _made(one, **options)) if cls is None else _made(cls, **options)


def _made(cls: type, *, eq: bool = True, frozen: bool = False, slots: bool = False) -> type:
    own = vars(cls)
    for name, function in _methods(eq=eq, frozen=frozen, slots=slots).items():
        if name not in own:
            setattr(cls, name, function)
    has_init = "__init__" in own
    frozen_bases: list[Any] = [vars(one)["__dataclass_params__"] for one in cls.__mro__[1:] if _is_frozen(one)]
    if frozen_bases and not frozen:
        raise TypeError("cannot inherit non-frozen dataclass from a frozen one")
    for base in frozen_bases:  # what freezes this class is here, and the standard library must not mind
        base.frozen = False
    try:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    finally:
        for base in frozen_bases:
            base.frozen = True
    made.__dataclass_params__.frozen = frozen
    if not has_init:
        made.__init__ = _written_init(made) or _late_init(made, frozen=frozen)
    return made  # type: ignore[no-any-return]


def _is_frozen(cls: Any) -> bool:
    return "__dataclass_params__" in vars(cls) and bool(cls.__dataclass_params__.frozen)


def _methods(*, eq: bool, frozen: bool, slots: bool) -> dict[str, Any]:
    """By name; what a class has itself it keeps."""
    found: dict[str, Any] = {"__repr__": _repr}
    if eq:
        found |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        found |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if frozen and slots:
        found |= {"__getstate__": _getstate, "__setstate__": _setstate}
    return found


# ------------------------------------------------------------------------------------------------------------ methods


_GETTERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


def _values(instance: Any) -> tuple[Any, ...]:
    """The fields that are compared."""
    get = _GETTERS.get(type(instance))
    if get is None:
        names = [field.name for field in dataclasses.fields(instance) if field.compare]
        # Of one name `attrgetter` gives no tuple: the last one twice changes no comparison.
        get = _GETTERS[type(instance)] = attrgetter(*names, names[-1]) if names else lambda _: ()
    return get(instance)


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash((type(self), _values(self)))


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_USUAL = (object.__setattr__, _refuse_set)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# ----------------------------------------------------------------------------------------------------------- __init__


def _written_init(cls: Any) -> Callable[..., None] | None:
    """One of `inits`, with the names of this class; None where none fits."""
    fields = dataclasses.fields(cls)
    if hasattr(cls, "__post_init__") or len(fields) >= len(inits.BY_SETTER):
        return None
    if not all(one.init and one.default_factory is dataclasses.MISSING for one in fields):
        return None
    fields = tuple(sorted(fields, key=lambda one: one.kw_only is True))  # which keeps the order otherwise
    names = tuple(field.name for field in fields)
    found = [getattr(cls, name, None) for name in names]
    slots = [one for one in found if isinstance(one, MemberDescriptorType)]
    written: Any = inits.BY_SETTER[len(names)]
    code, places = written.__code__, sum(not field.kw_only for field in fields)
    changes: dict[str, Any] = {}
    if names and not slots:
        if any(hasattr(one, "__set__") for one in found) or cls.__setattr__ not in _USUAL:
            return None
        code = (written := inits.BY_NAME[len(names)]).__code__
        changes["co_consts"] = tuple(names if isinstance(one, tuple) else one for one in code.co_consts)
    elif len(slots) < len(names):
        return None
    code = code.replace(co_name="__init__", co_varnames=("self", *names), co_argcount=places + 1,
                        co_kwonlyargcount=len(names) - places, **changes)  # fmt: skip
    defaults = tuple(one.default for one in fields[:places] if one.default is not dataclasses.MISSING)
    setters = {f"s{number}": slot.__set__ for number, slot in enumerate(slots)}
    made = FunctionType(code, setters, "__init__", defaults or None)
    made.__kwdefaults__ = {one.name: one.default for one in fields[places:] if one.default is not dataclasses.MISSING}
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _late_init(cls: Any, *, frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the compiled one into its place when the first object is made."""

    def __init__(self: Any, *values: Any, **more: Any) -> None:  # noqa: N807 - errors about arguments say this name
        made = _init(cls, frozen=frozen)
        cls.__init__ = made
        made(self, *values, **more)

    return __init__


def _setter(cls: Any, name: str, *, frozen: bool) -> Callable[[Any, Any], None]:
    slot: Any = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        return slot.__set__
    return functools.partial(_set if frozen else _assign, name)


def _init(cls: Any, *, frozen: bool) -> Callable[..., None]:
    """The function that sets every field."""
    names: dict[str, Any] = {"_factory": _FACTORY}
    places: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        value = name = field.name
        default = ""
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            default = "=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            continue
        if field.init:
            (by_name if field.kw_only else places).append(name + default)
        elif default.startswith("=_default"):
            value = f"_default_{name}"
        if frozen:
            names[f"_set_{name}"] = _setter(cls, name, frozen=True)
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join(["self", *places, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({arguments}):\n " + "\n ".join(body or ["pass"]), names)
    function: Callable[..., None] = names["__init__"]
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    return function


def _set(name: str, instance: object, value: object) -> None:
    object.__setattr__(instance, name, value)


def _assign(name: str, instance: object, value: object) -> None:
    setattr(instance, name, value)


_FACTORY = object()
"""Instead of a value that a factory makes."""
