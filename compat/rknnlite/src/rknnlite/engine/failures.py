"""How the methods of the vendor's classes fail: a value that stands for the error, and the reason in the log.

With OPENRKNN_LITE_RAISE=1 in the environment the error itself comes out instead.
"""

from __future__ import annotations

import os
from typing import TypeVar

from rknnlite.api.rknn_log import LOGGER

__all__ = ["NOT_INITIALIZED", "RAISE_VARIABLE", "failed"]

RAISE_VARIABLE = "OPENRKNN_LITE_RAISE"
NOT_INITIALIZED = "Runtime environment is not inited, please call init_runtime to init it first!"

_T = TypeVar("_T")


def failed(result: _T, message: str, error: BaseException | None = None) -> _T:
    """Log, and give `result` back, or raise if that is wanted. The traceback is in the log at level DEBUG."""
    LOGGER.error("%s", message if error is None else f"{message} {type(error).__name__}: {error}")
    if error is not None:
        LOGGER.debug("where it happened", exc_info=error)
    if os.environ.get(RAISE_VARIABLE, "0") not in ("", "0"):
        raise error if error is not None else RuntimeError(message)
    return result
