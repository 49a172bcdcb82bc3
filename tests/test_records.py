"""`openrknn.records.dataclass` beside the one of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from openrknn import inits, records

Decorator = Callable[..., Any]
KINDS: list[dict[str, bool]] = [
    {}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"eq": False},
    {"frozen": True, "slots": True, "eq": False},
]  # fmt: skip


def make(decorator: Decorator, **options: bool) -> Any:
    class Base:
        """A class with every kind of field."""

        first: int
        second: str = "two"
        hidden: int = dataclasses.field(default=3, repr=False)
        many: list[int] = dataclasses.field(default_factory=list)
        named: int = dataclasses.field(kw_only=True, default=5)
        fixed: int = dataclasses.field(default=6, init=False)
        shared: ClassVar[int] = 7

    return decorator(**options)(Base)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_objects_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = make(records.dataclass, **options), make(dataclasses.dataclass, **options)
    for values, names in (((1,), {}), ((1, "x", 4, [5]), {"named": 9}), ((), {"first": 0, "many": [1]})):
        mine, other = ours(*values, **names), theirs(*values, **names)
        assert repr(mine) == repr(other)
        assert [one.name for one in dataclasses.fields(mine)] == [one.name for one in dataclasses.fields(other)]
        assert dataclasses.asdict(mine) == dataclasses.asdict(other)
        assert (mine == ours(*values, **names)) is (other == theirs(*values, **names))
        assert mine != ours(77)
        assert mine != other
        assert repr(dataclasses.replace(mine, first=8)) == repr(dataclasses.replace(other, first=8))
        assert repr(copy.copy(mine)) == repr(mine)
    assert ours(1).many is not ours(1).many
    assert hasattr(ours(1), "__dict__") is hasattr(theirs(1), "__dict__")
    assert ours.__match_args__ == theirs.__match_args__


class Unlike:
    """Without a field that `__init__` does not take."""

    first: int
    second: str = "two"
    many: list[int] = dataclasses.field(default_factory=list)
    named: int = dataclasses.field(kw_only=True, default=5)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_every_kind_of_argument_is_taken_alike(options: dict[str, bool]) -> None:
    def fresh(decorator: Decorator) -> Any:
        return decorator(**options)(type("Unlike", (), {**vars(Unlike)}))

    ours, theirs = fresh(records.dataclass), fresh(dataclasses.dataclass)
    for number in range(3):
        for values, names in (((1,), {}), ((1, "x", [5]), {"named": number}), ((), {"first": 0, "second": "b"}),
                              ((), {"first": 1, "second": "c", "many": [2], "named": 3})):  # fmt: skip
            assert repr(ours(*values, **names)) == repr(theirs(*values, **names))
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1, "x", [], 4), {}), ((1,), {"other": 1}), ((1,), {"first": 1}),
        ((), {"second": "x", "many": [], "named": 1, "other": 1}),
    ]  # fmt: skip
    for values, names in wrong:
        with pytest.raises(TypeError) as other:
            theirs(*values, **names)
        with pytest.raises(TypeError) as mine:
            fresh(records.dataclass)(*values, **names)
        assert str(mine.value) == str(other.value)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("count", range(len(inits.BY_SETTER) + 2))
def test_any_number_of_fields_is_set(count: int, options: dict[str, bool]) -> None:
    names = [f"field_{number}" for number in range(count)]
    shape = {"__annotations__": dict.fromkeys(names, "int"), **dict.fromkeys(names[-1:], "usual")}
    ours: Any = records.dataclass(**options)(type("Wide", (), {**shape}))
    theirs: Any = dataclasses.dataclass(**options)(type("Wide", (), {**shape}))
    by_name = dict(zip(names[::-1], range(count), strict=True))
    for values, more in ((range(count), {}), ((), by_name), (range(max(count - 1, 0)), {})):
        assert repr(ours(*values, **more)) == repr(theirs(*values, **more))
    assert [*inspect.signature(ours).parameters] == names
    with pytest.raises(TypeError):
        ours(*range(count + 1))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_wrong_arguments_are_refused_alike(options: dict[str, bool]) -> None:
    ours, theirs = make(records.dataclass, **options), make(dataclasses.dataclass, **options)
    for values, names in (((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"other": 1}), ((1,), {"fixed": 1})):
        with pytest.raises(TypeError) as mine:
            ours(*values, **names)
        with pytest.raises(TypeError) as other:
            theirs(*values, **names)
        assert str(mine.value) == str(other.value)


def test_what_is_frozen_does_not_change() -> None:
    for slots in (False, True):
        one = make(records.dataclass, frozen=True, slots=slots)(1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
            one.first = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
            del one.first


def test_frozen_classes_inherit_from_frozen_ones_of_both_kinds() -> None:
    for first, second in ((records.dataclass, dataclasses.dataclass), (dataclasses.dataclass, records.dataclass)):
        base = make(first, frozen=True)
        derived: Any = second(frozen=True)(type("Derived", (base,), {"__annotations__": {"more": "int"}, "more": 1}))
        assert (derived(1).first, derived(1).more) == (1, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            derived(1).more = 2
        with pytest.raises(TypeError, match="non-frozen"):
            second(type("Open", (base,), {}))


def test_hashes_follow_the_standard_library() -> None:
    @records.dataclass(frozen=True)
    class Frozen:
        first: int
        second: str = ""

    @records.dataclass
    class Open:
        first: int

    assert hash(Frozen(1, "a")) == hash(Frozen(1, "a"))
    assert len({Frozen(1), Frozen(1), Frozen(2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_classes_inherit_fields_and_keep_their_own_methods() -> None:
    @records.dataclass
    class First:
        one: int
        checked: bool = dataclasses.field(default=False, init=False)

        def __post_init__(self) -> None:
            self.checked = True

    @records.dataclass
    class Second(First):
        two: int = 2

        def __repr__(self) -> str:
            return "mine"

    assert First(1).checked
    assert Second(1, 3).checked
    assert (Second(1).one, Second(1).two, Second(5, 6).two) == (1, 2, 6)
    assert repr(Second(1)) == "mine"
    assert First(1) != Second(1)


@records.dataclass(frozen=True, slots=True)
class Stored:
    """For pickle, which finds classes by name."""

    first: int
    second: str = "two"


def test_objects_survive_pickle() -> None:
    assert pickle.loads(pickle.dumps(Stored(4, "x"))) == Stored(4, "x")
