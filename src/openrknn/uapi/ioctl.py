"""An ioctl: its number, its argument, and which fields of the argument are pointers or file descriptors.

Facts about the numbers: include/uapi/asm-generic/ioctl.h (x86 and Arm use the generic layout).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from openrknn.uapi.layout import Struct

__all__ = ["READ", "WRITE", "Array", "Descriptor", "Ioctl", "direction_of", "number_of", "size_of", "type_of"]

WRITE = 1
"""The program passes the argument to the kernel."""
READ = 2
"""The kernel passes it back."""
_NUMBER_BITS, _TYPE_BITS, _SIZE_BITS = 8, 8, 14


@dataclass(frozen=True)
class Array:
    """A field that points to an array in the program's memory."""

    pointer: str
    count: str
    """The field that says how many elements there are."""
    element: Struct | int
    """What is in it: structs, or plain values with this many bytes each."""
    stride: str = ""
    """The field that says how far apart the elements are; they lie without gaps if there is none."""
    out: bool = False
    """The kernel writes it (at most `count` elements) instead of reading it."""
    inside: tuple[Array, ...] = ()
    """Pointers inside each element."""
    flags: str = ""
    mask: int = 0
    """The field is a pointer only if the field `flags` has a bit of `mask`; without a mask always."""

    @property
    def element_bytes(self) -> int:
        return self.element if isinstance(self.element, int) else self.element.size


@dataclass(frozen=True)
class Descriptor:
    """A field that holds a file descriptor of the program."""

    field: str
    out: bool = False
    """The kernel opens it for the program; else the program hands it in."""
    when: str = "always"
    """Handed in always, only if it is "positive", or only if the field `flags` has a bit of `mask`."""
    flags: str = ""
    mask: int = 0
    array: Array | None = None
    """The field is one of this array's first element; it has to be the argument's first array."""


@dataclass(frozen=True)
class Ioctl:
    """One request that a driver understands."""

    name: str
    type: str
    number: int
    argument: Struct
    direction: int = READ | WRITE
    arrays: tuple[Array, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    note: str = ""

    @cached_property
    def request(self) -> int:
        """The second argument of ioctl(2)."""
        code = self.direction << _SIZE_BITS | self.argument.size
        return (code << _TYPE_BITS | ord(self.type)) << _NUMBER_BITS | self.number

    @property
    def key(self) -> tuple[int, int]:
        """What a driver recognises it by. The size may differ: programs are older or newer than the kernel."""
        return ord(self.type), self.number

    @cached_property
    def narrow(self) -> Ioctl:
        """This request as programs of 32-bit machines make it."""
        return self if self.argument.narrow is self.argument else self.with_argument(self.argument.narrow)

    def with_argument(self, argument: Struct) -> Ioctl:
        """This request with the argument of another version of the driver."""
        return replace(self, argument=argument)

    def pack(self, values: Mapping[str, int]) -> bytes:
        """The argument as bytes."""
        return self.argument.pack(values)


def number_of(request: int) -> int:
    """_IOC_NR"""
    return request & 0xFF


def type_of(request: int) -> int:
    """_IOC_TYPE"""
    return request >> _NUMBER_BITS & 0xFF


def size_of(request: int) -> int:
    """_IOC_SIZE"""
    return request >> _NUMBER_BITS + _TYPE_BITS & (1 << _SIZE_BITS) - 1


def direction_of(request: int) -> int:
    """_IOC_DIR"""
    return request >> _NUMBER_BITS + _TYPE_BITS + _SIZE_BITS & 3
