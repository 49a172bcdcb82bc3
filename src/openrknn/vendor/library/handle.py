"""What a context and a matrix multiplication have in common: a number that the library gave out, and its life.

The library crashes when a number is used after it was destroyed, or when memory is freed below a running job. So each
number lives in a `Handle`, which is destroyed once it was closed *and* is no longer needed: no array over its
memory, no context that shares its weights. Calls on one handle take turns; calls on different handles run side by side,
as ctypes gives up the GIL.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import RLock
from typing import Any

from openrknn.backports import Self
from openrknn.closing import Closing
from openrknn.vendor.errors import ClosedError, call_error
from openrknn.vendor.library.library import Library

_log = logging.getLogger(__name__)


class Handle:
    """A number of the library, and who still needs it."""

    def __init__(self, library: Library, value: int, destroy: str | None, *needs: Handle) -> None:
        self.library = library
        self.value = value
        self.lock = RLock()
        self.kept: list[object] = []
        """What must stay alive until the number is destroyed: callbacks, buffers."""
        self._destroy = destroy
        self._needs = needs
        self._users = 0
        self._closing = False
        for other in needs:
            other.retain()

    @property
    def destroyed(self) -> bool:
        return self._closing and self._users == 0

    def retain(self) -> None:
        """One more user."""
        with self.lock:
            self._users += 1

    def release(self) -> None:
        """One user less; the last one destroys a handle that was closed."""
        with self.lock:
            self._users -= 1
            if not self.destroyed:
                return
            code = self._finish()
        if code < 0:  # nobody is there to catch an exception: this may be the end of an array
            _log.error("%s", call_error(self._destroy or "", code, self.library.version))

    def close(self) -> None:
        """Destroy the number, now or when its last user is gone. Calling it again does nothing."""
        with self.lock:
            if self._closing:
                return
            self._closing = True
            code = self._finish() if self._users == 0 else 0
        if code < 0:
            raise call_error(self._destroy or "", code, self.library.version)

    def _finish(self) -> int:
        code: int = self.library.function(self._destroy)(self.value) if self._destroy else 0
        self.kept.clear()
        for other in self._needs:
            other.release()
        return code


class NativeContext(Closing):
    """The base of `Context` and `Matmul`: closing, and calls with the number as the first argument."""

    _what = "context"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._lock = handle.lock
        self._closed = False
        self._closers: list[Callable[[], None]] = []
        self.library: Library = handle.library

    @property
    def closed(self) -> bool:
        """Whether it was closed. Arrays over its memory stay valid; the library is called when the last one is gone."""
        return self._closed

    def close(self) -> None:
        """Give everything back. Calling it again does nothing."""
        with self._lock:
            if self._closed:
                return
            for closer in list(self._closers):
                closer()
            self._closed = True
            self._on_close()
        self._handle.close()

    def __enter__(self) -> Self:
        self._ensure_open()
        return self

    def _on_close(self) -> None:
        """For derived classes: forget what makes a fast path fast."""

    def _ensure_open(self) -> None:
        if self._closed:
            raise ClosedError(f"this {self._what} was closed; make a new one")

    def _call(self, name: str, *arguments: Any, about: str = "") -> int:
        """A function of the library on this number; an error code raises."""
        with self._lock:
            self._ensure_open()
            return self.library.check(name, self._handle.value, *arguments, about=about)
