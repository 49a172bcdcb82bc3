"""The errors of the register table, the assembler and the disassembler.

    RknnError
    └── IsaError
        ├── DeclarationError        the table itself is wrong: raised while it is imported
        ├── EncodingError           a natural value does not fit into its field
        ├── UnknownCodeError        a field holds a code that its enumeration does not name
        ├── UnknownRegisterError    no register of that name or place in the map
        └── AssemblyError           a line of assembly text is wrong; has .line and .column
"""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = [
    "AssemblyError",
    "DeclarationError",
    "EncodingError",
    "IsaError",
    "UnknownCodeError",
    "UnknownRegisterError",
]


class IsaError(RknnError):
    """The root of the errors of `openrknn.isa`."""


class DeclarationError(IsaError, TypeError):
    """The register table contradicts itself: overlapping fields, two registers at one offset, and the like."""


class EncodingError(IsaError, ValueError):
    """A natural value does not fit into its field, or the register has no such field."""

    def __init__(self, register: str, field: str, value: object, allowed: str) -> None:
        shown = f"{value:#x}" if isinstance(value, int) and abs(value) > 0xFFFF else repr(value)
        super().__init__(f"{register}.{field} cannot hold {shown}; allowed: {allowed}")
        self.register = register
        self.field = field
        self.value = value
        self.allowed = allowed


class UnknownCodeError(IsaError, ValueError):
    """A field holds a code that its enumeration does not name."""

    def __init__(self, register: str, field: str, code: int, known: str) -> None:
        super().__init__(f"{register}.{field} holds the code {code}, which has no known meaning; known: {known}")
        self.register = register
        self.field = field
        self.code = code


class UnknownRegisterError(IsaError, LookupError):
    """The register map has no register of that name, or none at that place."""


class AssemblyError(IsaError, ValueError):
    """A line of assembly text cannot be understood. `line` and `column` count from one."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column
