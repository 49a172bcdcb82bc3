"""Features of Python 3.11 for Python 3.10; the rest of the package imports them from here.

On newer Pythons these are the standard library's own. Ubuntu 22.04, which many boards run, has 3.10. What only the
server needs, and what would make every import slower, is elsewhere (`openrknn.serve.timeouts`).
"""

from __future__ import annotations

import sys
from enum import Flag
from typing import TYPE_CHECKING, Any, BinaryIO

__all__ = ["Self", "StrEnum", "TypeVar", "Unpack", "add_note", "file_digest", "flags_in"]

_CHUNK_BYTES = 1 << 18

if sys.version_info >= (3, 11):
    from enum import StrEnum
    from typing import Self, Unpack
else:
    from enum import Enum

    if TYPE_CHECKING:
        from typing_extensions import Self, Unpack
    else:
        Self = Unpack = Any  # nobody evaluates the annotations that have them

    class StrEnum(str, Enum):
        """Members that are strings, and print as them."""

        __str__ = str.__str__

        def __format__(self, spec: str) -> str:
            return format(self.value, spec)

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    import typing

    def TypeVar(name: str, *, default: Any = None, **more: Any) -> Any:  # noqa: N802
        """A type variable; only type checkers read its default, which Python 3.13 brought."""
        return typing.TypeVar(name, **more)

_F = TypeVar("_F", bound=Flag)


def flags_in(flags: _F) -> list[_F]:
    """The single flags that are set, in the order in which their class has them."""
    return [flag for flag in type(flags) if flag.value and not flag.value & (flag.value - 1) and flag in flags]


def file_digest(file: BinaryIO, name: str) -> bytes:
    """The digest of a file from here to its end, read in parts."""
    import hashlib

    digest = hashlib.new(name)
    while data := file.read(_CHUNK_BYTES):
        digest.update(data)
    return digest.digest()


def add_note(error: BaseException, text: str) -> None:
    """Something to tell with an error, below its message. Python 3.10 keeps it too, but its tracebacks leave it out."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), text]
