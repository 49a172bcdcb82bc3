"""`Register`: one 32-bit register of the NPU. One subclass per register, one instance per value.

Shape and place are separate. A subclass without an offset is a shape that several blocks share; a subclass with
an offset is a register:

    class SPointer(Register):                                            # shape, in common.py
        pointer = Flag(0, "Register group that writes go to.")

    class CnaSPointer(SPointer, offset=0x1004, name="S_POINTER"):        # place, in cna.py
        \"\"\"What the register is for.\"\"\"

A table of many registers has a row for each: `register(0x1010, "CONV_CON2", "?", "What it is for.", grains=...)`.

Bits that no field declares are not lost: `.undeclared` has them, and every listing shows them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from openrknn.backports import Self
from openrknn.isa.errors import DeclarationError, EncodingError
from openrknn.isa.evidence import check_evidence
from openrknn.isa.fields import Field

__all__ = ["Register", "array", "register", "registers_in"]

VALUE_MASK = 0xFFFF_FFFF
UNPLACED = -1
_VALUES = "* values"
"""Where an instance keeps what `values` said; no field is called so."""

AnyField = Field[Any]
R = TypeVar("R", bound="Register")


class Register:
    """A register, and on instances its value in natural units.

    Class keywords: `offset` (in the NPU's register space), `name` (as Mesa and the reference manual spell it),
    `evidence` (for every field that does not say otherwise) and `reset` (the value before the first write).
    """

    offset: ClassVar[int] = UNPLACED
    name: ClassVar[str] = ""
    evidence: ClassVar[str] = ""
    reset: ClassVar[int] = 0
    declared: ClassVar[int] = 0
    """The bits that fields declare."""
    _fields: ClassVar[tuple[AnyField, ...]] = ()
    _by_name: ClassVar[Mapping[str, AnyField]] = {}
    _named: ClassVar[Mapping[str, AnyField]] = {}
    """By the name in the class body, those of the bases included."""

    __slots__ = ("__dict__", "value")
    value: int

    def __init_subclass__(
        cls,
        *,
        offset: int | None = None,
        name: str | None = None,
        evidence: str | None = None,
        reset: int | None = None,
    ) -> None:
        super().__init_subclass__()
        if offset is not None:
            cls.offset = offset
        if name is not None:
            cls.name = name
        if evidence is not None:
            cls.evidence = check_evidence(evidence)
        if reset is not None:
            cls.reset = reset
        cls._collect_fields()

    @classmethod
    def _collect_fields(cls) -> None:
        own = {name: item for name, item in vars(cls).items() if isinstance(item, Field)}
        if not own and len(cls.__bases__) == 1:
            return  # another place of the same register
        found: dict[str, AnyField] = {}
        for base in reversed(cls.__bases__):
            if issubclass(base, Register):
                found.update(base._named)
        found.update(own)
        cls._named = found
        declared = 0
        for field in found.values():
            if hasattr(Register, field.name):
                raise DeclarationError(f"{cls.__name__}: a field cannot be called {field.name!r}")
            if declared & field.mask:
                raise DeclarationError(f"{cls.__name__}: {field.name} overlaps another field")
            declared |= field.mask
        cls.declared = declared
        cls._fields = tuple(sorted(found.values(), key=lambda field: field.low))
        cls._by_name = types.MappingProxyType({field.name: field for field in cls._fields})

    def __init__(self, value: int = 0) -> None:
        if not 0 <= value <= VALUE_MASK:
            raise EncodingError(type(self).name, "value", value, "0x0..0xffffffff")
        object.__setattr__(self, "value", value)

    # ------------------------------------------------------------ the declaration

    @classmethod
    def fields(cls) -> tuple[AnyField, ...]:
        """The declared fields, lowest bit first."""
        return cls._fields

    @classmethod
    def field(cls, name: str) -> AnyField:
        """The field of that name."""
        try:
            return cls._by_name[name]
        except KeyError:
            raise EncodingError(cls.name, name, "anything", f"fields {', '.join(cls._by_name)}") from None

    @classmethod
    def text(cls) -> str:
        """What the register is for."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def placed(cls) -> bool:
        """Whether this is a register with an offset, and not only a shape."""
        return cls.offset != UNPLACED

    @classmethod
    def place(cls, *, offset: int, name: str, evidence: str | None = None, text: str | None = None) -> type[Self]:
        """A register of this shape at another place: same fields, and the same text unless one is given."""
        keywords = {"offset": offset, "name": name, "evidence": evidence}
        body = {"__doc__": text or cls.__doc__, "__module__": cls.__module__}
        return types.new_class(_class_name(name), (cls,), keywords, lambda namespace: namespace.update(body))

    # ------------------------------------------------------------ natural values in and out

    @classmethod
    def encode(cls, values: Mapping[str, int], undeclared: int = 0) -> int:
        """The 32-bit value of natural field values. Fields that are not mentioned are stored as zero bits."""
        if undeclared & cls.declared or not 0 <= undeclared <= VALUE_MASK:
            free = ~cls.declared & VALUE_MASK
            raise EncodingError(cls.name, "undeclared", undeclared, f"bits of {free:#x}")
        word = undeclared
        for name, value in values.items():
            field = cls.field(name)
            word |= field.encode(value, cls.name) << field.low
        return word

    @classmethod
    def of(cls, **values: int) -> Self:
        """The register with these natural field values and zero bits elsewhere."""
        return cls(cls.encode(values))

    @classmethod
    def read(cls, bank: Mapping[int, int]) -> Self:
        """The register out of a bank of values by offset; its reset value if it was never written."""
        return cls(bank.get(cls.offset, cls.reset))

    def replace(self, **values: int) -> Self:
        """A copy with other natural values in some fields."""
        kept = self.value
        for name in values:
            kept &= ~type(self).field(name).mask
        return type(self)(kept | type(self).encode(values))

    def values(self) -> dict[str, int]:
        """The natural value of every field. Codes without a meaning are `UnknownCode`s."""
        found: dict[str, int] | None = self.__dict__.get(_VALUES)
        if found is None:
            found = {field.name: field.natural(field.code_in(self.value)) for field in self._fields}
            self.__dict__[_VALUES] = found
        return dict(found)

    @property
    def undeclared(self) -> int:
        """The bits of the value that no field declares."""
        return self.value & ~self.declared

    # ------------------------------------------------------------ a value like any other

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a register value does not change; use .replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Register):
            return NotImplemented
        return type(self) is type(other) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self), self.value))

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        shown = [f"{name}={self._by_name[name].format(value)}" for name, value in self.values().items()]
        if self.undeclared:
            shown.append(f"undeclared={self.undeclared:#x}")
        return f"{type(self).__name__}({', '.join(shown)})"


def register(offset: int, name: str, evidence: str, text: str, **fields: AnyField) -> type[Register]:
    """A register as one row of a table: for chips whose registers are read by name, not as attributes."""
    keywords = {"offset": offset, "name": name, "evidence": evidence}
    body = {"__doc__": text, "__module__": __name__, **fields}
    return types.new_class(_class_name(name), (Register,), keywords, lambda namespace: namespace.update(body))


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def array(
    shape: type[R], count: int, *, offset: int, name: str, step: int = 4, first: int = 0
) -> tuple[type[R], ...]:
    """`count` registers of one shape in a row, named `name` + number."""
    return tuple(
        shape.place(offset=offset + step * index, name=f"{name}{first + index}") for index in range(count)
    )


def registers_in(namespace: Mapping[str, object]) -> tuple[type[Register], ...]:
    """Every register that a module declares, in order of offset: `registers_in(globals())`."""
    found: set[type[Register]] = set()
    for item in namespace.values():
        for candidate in item if isinstance(item, tuple) else (item,):
            if isinstance(candidate, type) and issubclass(candidate, Register) and candidate.placed():
                found.add(candidate)
    return tuple(sorted(found, key=lambda register: register.offset))


def offsets(registers: Iterable[type[Register]]) -> dict[int, type[Register]]:
    """Registers by offset; two at one offset are a `DeclarationError`."""
    table: dict[int, type[Register]] = {}
    for register in registers:
        other = table.setdefault(register.offset, register)
        if other is not register:
            raise DeclarationError(f"{register.name} and {other.name} are both at {register.offset:#06x}")
    return table
