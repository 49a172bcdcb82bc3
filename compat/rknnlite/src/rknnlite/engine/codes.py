"""Errors and the codes of the C API."""

from __future__ import annotations

from openrknn.errors import DeviceError, FormatError, RknnError, UnsupportedError
from openrknn.runtime import ClosedError
from rknnlite.api import constants as c

__all__ = ["CAUGHT", "CodeError", "code_of"]


class CodeError(Exception):
    """An error of the C API: its code, and why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{c.rknn_runtime_api_ret_code.get(str(code), code)}: {message}")
        self.code = code


CAUGHT = (RknnError, CodeError, OSError, TypeError, ValueError, RuntimeError, MemoryError)
"""What goes wrong in use. Anything else is a mistake of ours and stays loud."""

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (FormatError, c.RKNN_ERR_MODEL_INVALID),
    (UnsupportedError, c.RKNN_ERR_MODEL_INVALID),
    (DeviceError, c.RKNN_ERR_DEVICE_UNAVAILABLE),
    (ClosedError, c.RKNN_ERR_CTX_INVALID),
    (MemoryError, c.RKNN_ERR_MALLOC_FAIL),
    (ValueError, c.RKNN_ERR_PARAM_INVALID),
    (TypeError, c.RKNN_ERR_PARAM_INVALID),
)


def code_of(error: BaseException) -> int:
    """The code that the C API has for such an error."""
    if isinstance(error, CodeError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), c.RKNN_ERR_FAIL)
