"""From an error to the code that a C program sees, and the reason that a person reads.

The codes follow the vendor's habits: the log lines of runtime 1.5.2 beside each code in `openrknn.vendor.tables.codes`.
"""

from __future__ import annotations

import errno
import logging

from openrknn.capi.call import CallError, Code
from openrknn.capi.wire import Operation
from openrknn.errors import BudgetError, DeviceError, ExecutionError, FormatError, RknnError, UnsupportedError

__all__ = ["code_of"]

_LOG = logging.getLogger(__name__)
_LOADING = frozenset({Operation.INIT, Operation.DUP_CONTEXT})


def code_of(error: BaseException, operation: Operation | None = None) -> tuple[Code, str]:
    """The code and the reason. What nobody expected goes into the engine's log with its traceback."""
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
