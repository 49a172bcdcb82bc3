"""Memory that the NPU can read and write: `rknn_tensor_mem` as an object, with NumPy views that copy nothing."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from openrknn.backports import Self
from openrknn.closing import Closing
from openrknn.vendor.errors import ClosedError, call_error
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.tables.codes import MALLOC_FAIL
from openrknn.vendor.tables.enums import MemoryOrigin, SyncMode

if TYPE_CHECKING:
    from openrknn.vendor.library.library import Library


class TensorMemory(Closing):
    """A buffer of the device. Make one with `Context.create_memory`, `memory_from_fd` or `memory_from_physical`.

    `array` gives NumPy views without a copy. `close` ends its use at once; while such views are alive the pages stay
    mapped, and the library frees them when the last view is gone.
    """

    def __init__(
        self,
        handle: Handle,
        pointer: Any,
        call: str,
        *,
        origin: MemoryOrigin = MemoryOrigin.ALLOC_INSIDE,
        kept: object = None,
    ) -> None:
        if not pointer:
            raise call_error(call, MALLOC_FAIL, handle.library.version, "it returned NULL")
        raw = pointer.contents
        self.size_bytes: int = raw.size
        self.fd: int = raw.fd
        self.offset: int = raw.offset
        self.physical_address: int = raw.phys_addr
        """Where the NPU sees it; all ones or 0 where the library does not tell."""
        self.virtual_address: int = raw.virt_addr or 0
        self.flags: int = raw.flags
        self.origin = origin
        self.kept = kept
        """What holds the pages, if it is not the library: a view of an mmap or a buffer."""
        self._handle = handle
        self._pointer = pointer
        self._closed = False
        self._views = 0
        self._base: weakref.ref[Any] | None = None
        self._listeners: list[Callable[[TensorMemory], None]] = []

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<TensorMemory {self.size_bytes} bytes, {self.origin.name.lower()}{state}>"

    @property
    def library(self) -> Library:
        """The library that it was made with."""
        return self._handle.library

    @property
    def handle(self) -> Handle:
        """Whose memory it is."""
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether it was released."""
        return self._closed

    @property
    def pointer(self) -> Any:
        """The `rknn_tensor_mem*`, for the library's functions."""
        if self._closed:
            raise ClosedError("this memory was closed; make a new one")
        return self._pointer

    def array(
        self, dtype: npt.DTypeLike = np.uint8, shape: int | tuple[int, ...] | None = None, *, offset: int = 0
    ) -> npt.NDArray[Any]:
        """A view of the memory, from `offset` bytes on: all of it, or as much as `shape` needs."""
        if self._closed:
            raise ClosedError("this memory was closed; make a new one")
        kind = np.dtype(dtype)
        if kind.hasobject or kind.itemsize == 0:
            raise TypeError(f"memory holds plain numbers, not {kind}")
        room = self.size_bytes - offset
        if offset < 0 or room < 0:
            raise ValueError(f"offset {offset} is outside of {self.size_bytes} bytes")
        dims = (room // kind.itemsize,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        if min(dims, default=0) < 0 or int(np.prod(dims, dtype=object)) * kind.itemsize > room:
            raise ValueError(f"{kind} {list(dims)} does not fit into {room} bytes")
        flat = np.frombuffer(self._raw(), np.uint8)[offset:]
        return flat[: int(np.prod(dims)) * kind.itemsize].view(kind).reshape(dims)

    def sync(self, mode: SyncMode = SyncMode.BIDIRECTIONAL) -> None:
        """Bring CPU caches and memory together: TO_DEVICE after writing, FROM_DEVICE before reading."""
        mode = SyncMode(mode)
        with self._handle.lock:
            self.library.require("rknn_mem_sync")
            self.library.check("rknn_mem_sync", self._handle.value, self.pointer, int(mode))

    def close(self) -> None:
        """Give the memory back; a context that it is bound to cannot run until it gets another."""
        with self._handle.lock:
            if self._closed:
                return
            self._closed = True
            for listener in list(self._listeners):
                listener(self)
            self._listeners.clear()
            if self._views == 0:
                self._destroy()

    def __enter__(self) -> Self:
        if self._closed:
            raise ClosedError("this memory was closed; make a new one")
        return self

    def on_close(self, listener: Callable[[TensorMemory], None]) -> None:
        """Call `listener` when the memory is closed."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def _raw(self) -> Any:
        """The ctypes array under all views; its end is the end of the last view."""
        with self._handle.lock:
            base = self._base() if self._base else None
            if base is None:
                if not self.virtual_address:
                    raise ValueError("this memory has no address for the CPU")
                base = (ctypes.c_ubyte * self.size_bytes).from_address(self.virtual_address + max(self.offset, 0))
                self._base = weakref.ref(base)
                self._views += 1
                self._handle.retain()
                weakref.finalize(base, self._view_gone).atexit = False
            return base

    def _view_gone(self) -> None:
        with self._handle.lock:
            self._views -= 1
            if self._closed and self._views == 0:
                self._destroy()
        self._handle.release()

    def _destroy(self) -> None:
        code = self.library.function("rknn_destroy_mem")(self._handle.value, self._pointer)
        self._pointer = None
        self.kept = None
        if code < 0:
            raise call_error("rknn_destroy_mem", code, self.library.version)
