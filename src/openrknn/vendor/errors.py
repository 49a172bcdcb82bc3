"""The errors of the vendor's library.

    RknnError
    ├── UnsupportedError
    │   └── LibraryNotFoundError    no librknnrt.so or librknnmrt.so that this Python can load; has .attempts
    ├── ClosedError                 a context, memory or matmul was used after it was closed; also a ValueError
    └── VendorError
        └── CallError               a C function returned an error code; has .call, .meaning, .cause and .remedy
            ├── CallTimeoutError    RKNN_ERR_TIMEOUT; also a TimeoutError
            └── CallMemoryError     RKNN_ERR_MALLOC_FAIL; also a MemoryError

What is wrong before a call is made is `TypeError` or `ValueError`; what the library or the chip does not have is
`UnsupportedError`.
"""

from __future__ import annotations

from openrknn.errors import RknnError, UnsupportedError, VendorError
from openrknn.vendor.tables.codes import MALLOC_FAIL, TIMEOUT, explain
from openrknn.vendor.tables.versions import Version


class LibraryNotFoundError(UnsupportedError):
    """No library of the vendor's that this Python can load; `attempts` are (place, why not)."""

    def __init__(self, message: str, attempts: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class ClosedError(RknnError, ValueError):
    """Something was used after it was closed."""


class CallError(VendorError):
    """A function of the C API returned an error code."""

    def __init__(self, call: str, code: int, version: Version, about: str = "") -> None:
        self.call = call
        entry = explain(code, call, version)
        self.meaning = entry.meaning
        self.cause = entry.cause
        self.remedy = entry.remedy
        where = f" ({about})" if about else ""
        message = f"{call} returned {code} {entry.name}{where}: {entry.meaning}; likely {entry.cause}; {entry.remedy}"
        super().__init__(message, code=code, name=entry.name)


class CallTimeoutError(CallError, TimeoutError):
    """RKNN_ERR_TIMEOUT."""


class CallMemoryError(CallError, MemoryError):
    """RKNN_ERR_MALLOC_FAIL, or an allocation that returned NULL."""


def call_error(call: str, code: int, version: Version, about: str = "") -> CallError:
    """The exception for an error code."""
    kind = {TIMEOUT: CallTimeoutError, MALLOC_FAIL: CallMemoryError}.get(code, CallError)
    return kind(call, code, version, about)
