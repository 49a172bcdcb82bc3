"""Models in memory. Runtimes of the same file share the bytes, the parsed model and the weights on the device.

A pool of three runtimes (one per core, or one per thread) so needs the memory of one.
"""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TypeAlias
from weakref import WeakSet, WeakValueDictionary

from openrknn import Model, Session, load
from openrknn.runtime import ClosedError

__all__ = ["Source", "read_source"]

_Key: TypeAlias = tuple[int, int, int, int]


class Source:
    """The bytes of a model, parsed when somebody needs it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str, str], WeakSet[Session]] = {}

    @cached_property
    def model(self) -> Model:
        return load(self.data)

    def open_session(self, device: str, core_mask: int) -> Session:
        """A session of its own, with the weights of the others on the same device."""
        with self._lock:
            # What "auto" means may have changed since the others were opened.
            place = (device, os.environ.get("OPENRKNN_DEVICE", ""), os.environ.get("OPENRKNN_NPU", ""))
            others = self._sessions.setdefault(place, WeakSet())
            session = self._share(others, core_mask) or Session(self.model, device, core_mask=core_mask)
            others.add(session)
            return session

    def _share(self, others: WeakSet[Session], core_mask: int) -> Session | None:
        for other in list(others):
            try:
                return Session(self.model, core_mask=core_mask, share_weights_with=other)
            except ClosedError:
                others.discard(other)
        return None


_SOURCES: WeakValueDictionary[_Key, Source] = WeakValueDictionary()
_LOCK = threading.Lock()


def read_source(path: str | os.PathLike[str]) -> Source:
    """Read a file, or find it among those that are in use. A changed file is another one."""
    with _LOCK, open(path, "rb") as file:
        state = os.fstat(file.fileno())
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        source = _SOURCES.get(key)
        if source is None:
            source = _SOURCES[key] = Source(file.read())
        return source
