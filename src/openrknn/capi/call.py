"""One call of a C program, as the engine sees it: the request and the reply; `handlers` says who answers it.

Refusals are raised: `CallError` with the code that the C API documents and a reason, or any other error of openrknn,
which `code_of` gives a code.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from openrknn.capi.wire import Operation
from openrknn.errors import BudgetError, DeviceError, ExecutionError, FormatError, RknnError, UnsupportedError


class Code(IntEnum):
    """The codes that calls return; texts are in `openrknn.vendor.tables.codes`."""

    SUCC = 0
    FAIL = -1
    TIMEOUT = -2
    DEVICE_UNAVAILABLE = -3
    MALLOC_FAIL = -4
    PARAM_INVALID = -5
    MODEL_INVALID = -6
    CTX_INVALID = -7
    INPUT_INVALID = -8
    OUTPUT_INVALID = -9
    DEVICE_UNMATCH = -10
    INCOMPATILE_PRE_COMPILE_MODEL = -11
    INCOMPATILE_OPTIMIZATION_LEVEL_VERSION = -12
    TARGET_PLATFORM_UNMATCH = -13


class CallError(RknnError):
    """A call is refused: the code for the program, the reason for the person."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Channel(Protocol):
    """Where the call came from; during a run it carries callbacks."""

    def call_back(self, reply: Reply) -> int:
        """Send a reply with `is_callback` set, and wait for CALLBACK_DONE: what the C function returned."""


@dataclass(slots=True)
class Call:
    """A request."""

    operation: Operation
    context: int = 0
    memory: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    payload: bytes | memoryview = b""
    descriptors: list[int] = field(default_factory=list)
    """To keep one, remove it with `take`; the rest is closed after the call."""
    channel: Channel | None = None

    def take(self) -> int:
        """The next descriptor; from now on it is the caller's to close."""
        if not self.descriptors:
            raise CallError(Code.PARAM_INVALID, f"{self.operation.name} came without its descriptor")
        return self.descriptors.pop(0)


@dataclass(slots=True)
class Reply:
    """An answer. Descriptors stay the engine's: they are duplicated on their way."""

    code: int = 0
    value: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    payload: bytes = b""
    reason: str = ""
    descriptors: tuple[int, ...] = ()
    is_callback: bool = False


OK = Reply()
"""The answer of most calls, to be returned as it is: the channel has its bytes ready."""


_LOG = logging.getLogger(__name__)
_LOADING = frozenset({Operation.INIT, Operation.DUP_CONTEXT})


def code_of(error: BaseException, operation: Operation | None = None) -> tuple[Code, str]:
    """The code that a C program sees, and the reason that a person reads.

    The codes follow the vendor's habits: the log lines of runtime 1.5.2 beside each code in
    `openrknn.vendor.tables.codes`. Unexpected errors go into the engine's log with its traceback.
    """
    if isinstance(error, CallError):
        return error.code, str(error)
    if isinstance(error, RknnError):
        return _own(error, operation), str(error)
    if isinstance(error, MemoryError):
        return Code.MALLOC_FAIL, str(error) or "there is not enough memory"
    if isinstance(error, ValueError | TypeError):
        return Code.PARAM_INVALID, str(error)
    if isinstance(error, OSError):
        return _of_errno(error.errno), f"{error.strerror or error}"
    _LOG.error("%s failed", operation.name if operation else "a call", exc_info=error)
    return Code.FAIL, f"{type(error).__name__}: {error} (a fault of openrknn: please report it)"


def _own(error: RknnError, operation: Operation | None) -> Code:
    if isinstance(error, DeviceError):
        if error.errno is not None:
            return _of_errno(error.errno, Code.DEVICE_UNAVAILABLE if operation in _LOADING else Code.FAIL)
        return Code.DEVICE_UNAVAILABLE if operation in _LOADING else Code.FAIL
    if isinstance(error, FormatError):
        return Code.MODEL_INVALID
    if isinstance(error, UnsupportedError | BudgetError | ExecutionError) and operation in _LOADING:
        return Code.MODEL_INVALID
    return Code.FAIL


def _of_errno(number: int | None, otherwise: Code = Code.FAIL) -> Code:
    if number == errno.ENOMEM:
        return Code.MALLOC_FAIL
    if number == errno.ETIMEDOUT:
        return Code.TIMEOUT
    return otherwise
