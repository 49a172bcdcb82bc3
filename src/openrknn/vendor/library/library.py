"""The vendor's library, loaded: its version, its functions with their types, and what it does not have.

    library = Library()                      # found as `openrknn.vendor.library.find` says
    library.version, library.path, library.exports
    library.rknn_run(context, None)          # any function by its C name: raw, with typed arguments
    library.check("rknn_run", context, None) # the same, and an error code becomes an exception
"""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from openrknn.backports import flags_in
from openrknn.chips import Chip, chip_named
from openrknn.errors import UnsupportedError
from openrknn.vendor.errors import LibraryNotFoundError, call_error
from openrknn.vendor.library.find import find_library, why_not
from openrknn.vendor.library.structs import STRUCT_POINTERS, Structs, c_type, structs_for
from openrknn.vendor.tables.enums import InitFlag, QueryCommand
from openrknn.vendor.tables.functions import FUNCTIONS, Function, Signature
from openrknn.vendor.tables.names import Member, c_name, since
from openrknn.vendor.tables.platforms import refusal, this_chip
from openrknn.vendor.tables.versions import ABI_VARIABLE, KNOWN_VERSIONS, Version, is_open_library, version_in_file


class Library:
    """One librknnrt.so or librknnmrt.so in this process.

    `path` is a file or a folder; None looks in the usual places. `version` overrides what the file says of itself.
    `chip` is the name of the chip, "auto" (the device tree decides; unknown elsewhere) or None. With `check_platform`
    calls that the vendor's tables exclude for that chip raise `UnsupportedError` before they are made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        version: Version | str | None = None,
        chip: Chip | str | None = "auto",
        check_platform: bool = True,
    ) -> None:
        self.path: Path = find_library(path)
        self._cdll = _load(self.path)
        self.version: Version = self._find_version(version)
        self.structs: Structs = structs_for(self.version)
        self.chip: Chip | None = _find_chip(chip)
        self.check_platform = check_platform
        self._bound: dict[str, Any] = {}

    def __repr__(self) -> str:
        chip = f", {self.chip.name}" if self.chip else ""
        return f"<Library {self.path} {self.version}{chip}>"

    @property
    def kind(self) -> str:
        """librknnrt or librknnmrt."""
        return "librknnmrt" if "rknnmrt" in self.path.name else "librknnrt"

    @cached_property
    def is_open(self) -> bool:
        """Whether it is openrknn's own library and not the vendor's."""
        return is_open_library(self.path)

    @cached_property
    def exports(self) -> frozenset[str]:
        """The functions of the table that this library has, by their names in v2.3.2."""
        return frozenset(name for name, function in FUNCTIONS.items() if self._symbol(function) is not None)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("rknn_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.function(name)

    def function(self, name: str) -> Any:
        """A C function with argument and result types; `UnsupportedError` if the library does not export it."""
        bound = self._bound.get(name)
        if bound is None:
            bound = self._bound[name] = self._bind(name)
        return bound

    def check(self, name: str, *arguments: Any, about: str = "") -> int:
        """Call a function; a negative result raises `CallError`."""
        code: int = self.function(name)(*arguments)
        if code < 0:
            raise call_error(name, code, self.version, about)
        return code

    def require(
        self,
        function: str,
        *,
        query: QueryCommand | None = None,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        chip: Chip | None = None,
    ) -> None:
        """Raise `UnsupportedError`, with the reason, if library or chip do not have a function, a query or a flag.

        `chip` is what a model says of itself; without one the library's own counts.
        """
        for member in (query, *flags_in(flags)):
            if member is not None:
                self.require_value(member)
        chip = chip or self.chip
        if chip and self.check_platform and (reason := refusal(chip, function, query, flags)):
            raise UnsupportedError(reason)
        self.function(function)

    def require_value(self, member: Member) -> None:
        """Raise `UnsupportedError` if this version does not know a flag, a command or a type yet."""
        first = since(member)
        if first is not None and first > self.version:
            raise UnsupportedError(f"{c_name(member)} needs {self.kind} {first} or newer; {self._who}")

    @property
    def _who(self) -> str:
        return f"{self.path} is {self.version}"

    def _find_version(self, given: Version | str | None) -> Version:
        if given is not None:
            return Version.parse(given) if isinstance(given, str) else given
        if self.is_open and (wanted := os.environ.get(ABI_VARIABLE)):
            return _abi(wanted)
        return version_in_file(self.path) or self._version_by_exports()

    def _version_by_exports(self) -> Version:
        """The oldest version that has everything that this one exports."""
        first: dict[str, Version] = {}
        for function in FUNCTIONS.values():
            for signature in function.signatures:  # a new signature under the same name cannot be told from outside
                first.setdefault(signature.name, signature.since)
        found = [since for name, since in first.items() if hasattr(self._cdll, name)]
        if not found:
            raise LibraryNotFoundError(f"{self.path} exports no function of the RKNN C API: another library?")
        return max(found)

    def _symbol(self, function: Function) -> Signature | None:
        """The signature under which the library exports a function."""
        wanted = function.signature(self.version)
        others = [signature for signature in reversed(function.signatures) if signature.name != wanted.name]
        return next((found for found in (wanted, *others) if hasattr(self._cdll, found.name)), None)

    def _bind(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"the C API has no function {name!r}")
        function = FUNCTIONS[name]
        signature = self._symbol(function)
        if signature is None:
            raise UnsupportedError(self._missing(function))
        bound = getattr(self._cdll, signature.name)
        bound.argtypes = [self._argument_type(item.type) for item in signature.parameters]
        bound.restype = self._result_type(signature.returns)
        return bound

    def _missing(self, function: Function) -> str:
        if function.since > self.version:
            return f"{function.name} needs {self.kind} {function.since} or newer; {self._who}"
        return f"{function.name} is not in {self.path}, although {self.kind} {self.version} could have it"

    def _argument_type(self, text: str) -> Any:
        pointed = text.removesuffix("*")
        if pointed != text and pointed in STRUCT_POINTERS:
            return ctypes.POINTER(getattr(self.structs, pointed))
        return ctypes.c_char_p if text == "char*" else c_type(text, self.version)

    def _result_type(self, text: str) -> Any:
        if text == "void":
            return None
        return self._argument_type(text)


def _abi(text: str) -> Version:
    """As openrknn's library reads it: "1.5" is the last known 1.5.x."""
    try:
        wanted = Version.parse(text)
    except ValueError as error:
        raise UnsupportedError(f"{ABI_VARIABLE}: {error}") from None
    known = [version for version in KNOWN_VERSIONS if version[:2] == wanted[:2]]
    return known[-1] if known and text.count(".") == 1 else wanted


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        reason = why_not(path) or str(error)
        raise LibraryNotFoundError(f"{path} cannot be loaded: {reason}", ((str(path), reason),)) from error


def _find_chip(chip: Chip | str | None) -> Chip | None:
    if chip == "auto":
        return this_chip()
    return chip_named(chip) if isinstance(chip, str) else chip


_default: Library | None = None
_default_lock = Lock()


def default_library() -> Library:
    """The library for everybody who does not name one; loaded once."""
    global _default  # noqa: PLW0603
    with _default_lock:
        if _default is None:
            _default = Library()
        return _default
