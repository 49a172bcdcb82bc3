"""The kinds of register fields. A kind owns its coding: code outside this file sees natural values only.

    kind          natural value                              stored as
    Unsigned      0 .. 2**n - 1                              itself
    Signed        -2**(n-1) .. 2**(n-1) - 1                  two's complement of the field's width
    Size          1 .. 2**n                                  minus one
    Atoms         a count of atoms; SignedAtoms: signed      itself; two's complement
    Address       a byte address                             without the low bits that the field leaves out
    Flag          False, True                                one bit
    Bits          a BitPattern: a float or an integer,       itself
                  as the precision of the block says
    Choice        a member of an IntEnum                     its code
    Mask          members of an IntFlag, or-ed               itself

A field is declared in the body of a `Register` and is a descriptor: on the class it is the field itself, on an
instance it is the natural value.

    class ConvCon1(Register, offset=0x100C, name="CONV_CON1"):
        conv_mode = Choice(3, 0, ConvMode, "Kind of convolution.")

    ConvCon1.conv_mode.mask          -> 0xf
    ConvCon1(0x3).conv_mode          -> ConvMode.DEPTHWISE
"""

from __future__ import annotations

import functools
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from openrknn.backports import Self
from openrknn.isa.errors import DeclarationError, EncodingError, UnknownCodeError
from openrknn.isa.evidence import check_evidence
from openrknn.isa.values import BitPattern, UnknownCode

if TYPE_CHECKING:
    from openrknn.isa.registers import Register

__all__ = [
    "Address",
    "Atoms",
    "Bits",
    "Choice",
    "Field",
    "Flag",
    "Mask",
    "Signed",
    "SignedAtoms",
    "Size",
    "Unsigned",
]

WORD_BITS = 32

T = TypeVar("T", bound=int)
E = TypeVar("E", bound=IntEnum)
F = TypeVar("F", bound=IntFlag)


class Field(Generic[T]):
    """Bits `high`..`low` of a register, with a natural value of type `T`."""

    kind: ClassVar[str] = "field"

    def __init__(self, high: int, low: int, text: str, *, evidence: str = "", notes: str = "") -> None:
        if not 0 <= low <= high < WORD_BITS:
            raise DeclarationError(f"bits {high}:{low} are not inside a {WORD_BITS}-bit register")
        self.high = high
        self.low = low
        self.text = text
        self.notes = notes
        self.evidence = check_evidence(evidence)
        self.name = ""
        self.width = high - low + 1
        self.code_mask = (1 << self.width) - 1
        self.mask = self.code_mask << low

    def __set_name__(self, owner: type[Register], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Register]) -> Self: ...
    @overload
    def __get__(self, instance: Register, owner: type[Register]) -> T: ...
    def __get__(self, instance: Register | None, owner: type[Register]) -> Self | T:
        if instance is None:
            return self
        value = self.decode((instance.value >> self.low) & self.code_mask, owner.name)
        # A register value does not change: the next look finds this without coming here.
        instance.__dict__[self.name] = value
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name} {self.bits})"

    @property
    def bits(self) -> str:
        """The place of the field as people write it: "31:16", or "4" for one bit."""
        return str(self.low) if self.width == 1 else f"{self.high}:{self.low}"

    @property
    def allowed(self) -> str:
        """The natural values in words."""
        raise NotImplementedError

    def code_in(self, value: int) -> int:
        """The field's bits in a register's value, shifted down."""
        return (value >> self.low) & self.code_mask

    def natural(self, code: int) -> T | UnknownCode:
        """The natural value of a code. Never fails: a code without a meaning becomes an `UnknownCode`."""
        raise NotImplementedError

    def decode(self, code: int, register: str = "?") -> T:
        """The natural value of a code, or `UnknownCodeError`."""
        value = self.natural(code)
        if isinstance(value, UnknownCode):
            raise UnknownCodeError(register, self.name, code, self.allowed)
        return value

    def fits(self, value: int) -> bool:
        """Whether the field can hold this natural value."""
        return 0 <= value <= self.code_mask

    def encode(self, value: int, register: str = "?") -> int:
        """The code of a natural value, or `EncodingError`."""
        if not self.fits(value):
            raise EncodingError(register, self.name, value, self.allowed)
        return int(value) & self.code_mask

    def format(self, value: int) -> str:
        """The natural value as assembly text."""
        return str(int(value))

    def parse(self, text: str) -> int:
        """The natural value that assembly text names, or `ValueError`."""
        return int(text, 0)


class _Number(Field[int]):
    """A field whose natural values are numbers: `lowest`..`highest` in steps of `step`."""

    @property
    def lowest(self) -> int:
        return min(self._corners)

    @property
    def highest(self) -> int:
        return max(self._corners)

    @property
    def step(self) -> int:
        return abs(self.natural(1) - self.natural(0))

    @functools.cached_property
    def _corners(self) -> tuple[int, ...]:
        half = 1 << (self.width - 1)
        return tuple(self.natural(code) for code in (0, half - 1, half, self.code_mask))

    def natural(self, code: int) -> int:
        return code

    def decode(self, code: int, register: str = "?") -> int:
        """The natural value; every code has one."""
        return self.natural(code)

    @property
    def allowed(self) -> str:
        low, high = (hex(n) if self.width > 16 else str(n) for n in (self.lowest, self.highest))
        return f"{low}..{high}" + (f", multiples of {self.step}" if self.step > 1 else "")

    def fits(self, value: int) -> bool:
        return self.lowest <= value <= self.highest and value % self.step == 0


class Unsigned(_Number):
    """A count: natural value and code are the same."""

    kind = "unsigned"


class Signed(_Number):
    """A number in two's complement of the field's width."""

    kind = "signed"

    def natural(self, code: int) -> int:
        sign = 1 << (self.width - 1)
        return (code ^ sign) - sign


class Size(_Number):
    """A size, stride or length that is stored minus one."""

    kind = "size"

    def natural(self, code: int) -> int:
        return code + 1

    def encode(self, value: int, register: str = "?") -> int:
        super().encode(value, register)
        return value - 1


class Atoms(Unsigned):
    """A distance or length counted in atoms; an atom has 16 bytes unless the register map says otherwise."""

    kind = "atoms"


class SignedAtoms(Signed):
    """A distance counted in atoms that may be negative."""

    kind = "signed atoms"


class Address(_Number):
    """A byte address. A field that starts at bit 4 holds addresses that are multiples of 16."""

    kind = "address"

    def natural(self, code: int) -> int:
        return code << self.low

    def encode(self, value: int, register: str = "?") -> int:
        super().encode(value, register)
        return value >> self.low

    def format(self, value: int) -> str:
        return f"{int(value):#x}"


class Flag(Field[bool]):
    """One bit: off or on."""

    kind = "flag"
    allowed = "0, 1"

    def __init__(self, bit: int, text: str, *, evidence: str = "", notes: str = "") -> None:
        super().__init__(bit, bit, text, evidence=evidence, notes=notes)

    def natural(self, code: int) -> bool:
        return bool(code)

    def decode(self, code: int, register: str = "?") -> bool:
        """The natural value; every code has one."""
        return bool(code)


class Bits(Field[BitPattern]):
    """Raw bits: a float or an integer, as the precision of the block says."""

    kind = "bits"

    @property
    def allowed(self) -> str:
        return f"0x0..{self.code_mask:#x}"

    def natural(self, code: int) -> BitPattern:
        return BitPattern(code)

    def format(self, value: int) -> str:
        return f"{int(value):#x}"


class Choice(Field[E]):
    """One of the members of an enumeration."""

    kind = "choice"

    def __init__(
        self, high: int, low: int, enum: type[E], text: str, *, evidence: str = "", notes: str = ""
    ) -> None:
        super().__init__(high, low, text, evidence=evidence, notes=notes)
        self.enum = enum
        self._by_code: dict[int, E] = {int(member): member for member in enum}
        self._by_text: dict[str, E] = {member.name.lower(): member for member in enum}
        if max(self._by_code) > self.code_mask or min(self._by_code) < 0:
            raise DeclarationError(f"{enum.__name__} has a code that does not fit into bits {self.bits}")

    @property
    def allowed(self) -> str:
        return ", ".join(self._by_text)

    def natural(self, code: int) -> E | UnknownCode:
        member = self._by_code.get(code)
        return UnknownCode(code) if member is None else member

    def fits(self, value: int) -> bool:
        if isinstance(value, UnknownCode):
            return 0 <= value <= self.code_mask
        if isinstance(value, IntEnum):
            return isinstance(value, self.enum)
        return value in self._by_code

    def format(self, value: int) -> str:
        return repr(value) if isinstance(value, UnknownCode) else self._by_code[int(value)].name.lower()

    def parse(self, text: str) -> int:
        if text.startswith("?"):
            return UnknownCode(int(text[1:], 0))
        if text not in self._by_text:
            raise ValueError(f"{text!r} is none of {self.allowed}")
        return self._by_text[text]


class Mask(Field[F]):
    """A set of bits with names. Bits without a name are kept."""

    kind = "mask"

    def __init__(
        self, high: int, low: int, enum: type[F], text: str, *, evidence: str = "", notes: str = ""
    ) -> None:
        super().__init__(high, low, text, evidence=evidence, notes=notes)
        self.enum = enum
        self._by_text = {str(member.name).lower(): int(member) for member in enum}
        if any(code & ~self.code_mask for code in self._by_text.values()):
            raise DeclarationError(f"{enum.__name__} has a bit that does not fit into bits {self.bits}")

    @property
    def allowed(self) -> str:
        return "any of " + ", ".join(self._by_text)

    def natural(self, code: int) -> F:
        return self.enum(code)

    def format(self, value: int) -> str:
        parts = [name for name, code in self._by_text.items() if code & value]
        rest = int(value) & ~sum(self._by_text.values())
        return "|".join([*parts, f"{rest:#x}"] if rest else parts) or "0"

    def parse(self, text: str) -> int:
        total = 0
        for part in text.split("|"):
            total |= self._by_text[part] if part in self._by_text else int(part, 0)
        return total
