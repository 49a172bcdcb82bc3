"""Constants in device memory. Several sessions can share one copy, and with it the device that it is on."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import hashlib
import mmap
import os
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from openrknn.compute import processors
from openrknn.container.bundle import forget_pages
from openrknn.container.model import Model
from openrknn.container.parts import Kind, Tensor
from openrknn.device import Device, DeviceBuffer
from openrknn.device.protocol import Bytes
from openrknn.errors import UnsupportedError
from openrknn.folders import cache_base
from openrknn.forks import renew_in_child
from openrknn.npu.budget import UNLIMITED, Budget

_ALIGNMENT = 64
_MANY_BYTES, _LARGE = 64 << 20, 64 << 10
"""Of so many constants, those of so many bytes are copied when somebody reads them, where the device knows how."""
_HASHED_AT_ONCE, _MOST_HASHING = 1 << 20, 8
"""Bytes, and threads that do."""
_ELSEWHERE = {Kind.COMMANDS, Kind.TASKS, Kind.REGISTER_LIST}
"""Each session has its own: they hold addresses of its inputs and outputs. Register lists are read into commands."""


class WeightStore:
    """The constants of a model on a device. Counts its users; the last one gives everything back."""

    def __init__(self, model: Model, device: Device, *, owns_device: bool, budget: Budget = UNLIMITED) -> None:
        _check(model)
        self.model = model
        self.device = device
        self.size_bytes, self.offsets = _places(model)
        self.buffer: DeviceBuffer | None = None
        self._owns_device = owns_device
        self._users = 1
        self._digest, self._token = b"", os.urandom(32)
        self.is_exposed = False
        """Somebody else has the memory of the constants, and could write it."""
        self._lock = threading.Lock()
        renew_in_child(self, "_lock", threading.Lock)
        self.ranges: Sequence[tuple[int, int]] = ()
        """Of constants that are copied when somebody reads them; see `LateConstants`."""
        self._late: dict[int, memoryview] = {}
        """Those that do not stay in memory yet, by place."""
        self._fetched: dict[int, int] = {}
        """Those of them that are there, with their sizes; what was asked for last is the last."""
        budget.check_memory(self.size_bytes, "constants")
        if self.size_bytes:
            self.buffer = device.allocate(self.size_bytes, "weights")
            if self.size_bytes >= _MANY_BYTES and getattr(device, "takes_late_constants", False):
                self._late = {start: data for start, data in self._constants() if len(data) >= _LARGE}
                self.ranges = [(start, start + len(data)) for start, data in self._late.items()]
            self._fill(self.buffer)

    def complete(self, starts: Collection[int] | None = None) -> None:
        """Copy what was left for later, or those constants of it that start there; they stay."""
        with self._lock:
            for start in list(self._late) if starts is None else self._late.keys() & set(starts):
                self._copy(start)
                del self._late[start], self._fetched[start]

    def fetch(self, start: int, end: int) -> None:
        """Copy what was left for later of these places; it stays until it is trimmed."""
        first = bisect.bisect_right(self.ranges, start, key=lambda one: one[1])
        for number in range(first, len(self.ranges)):
            place = self.ranges[number][0]
            if place >= end:
                break
            with self._lock:
                if place in self._late:
                    self._copy(place)

    def trim(self, most_bytes: int = 0) -> None:
        """Give the memory of what was fetched back, down to so many bytes."""
        with self._lock:
            while sum(self._fetched.values()) > most_bytes and self.buffer is not None:
                start, size = next(iter(self._fetched.items()))
                del self._fetched[start]
                _release(self.buffer.array[start : start + size])

    def _copy(self, start: int) -> None:
        data, size = self._late[start], self._fetched.pop(start, 0)
        if not size and self.buffer is not None:
            self.buffer.array[start : start + len(data)] = np.frombuffer(data, np.uint8)
            forget_pages([data])
        self._fetched[start] = len(data)

    @property
    def address(self) -> int:
        return self.buffer.address if self.buffer is not None else 0

    @property
    def users(self) -> int:
        """How many sessions hold it."""
        return self._users

    def join(self, model: Model) -> None:
        """One more user, with the same constants."""
        if not _same_constants(self.model, model):
            raise ValueError(
                "sessions share weights only between models with the same constants in the same places; "
                "load the file once and give the same Model to both"
            )
        with self._lock:
            if not self._users:
                raise ValueError("the session to share weights with is closed")
            self._users += 1

    def can_move(self, memory: Bytes) -> bool:
        """Whether the constants can be kept in this memory: the device sees it, and no other session has them."""
        is_seen = hasattr(self.device, "adopt") and self.buffer is not None
        return is_seen and self._users == 1 and memory.nbytes >= self.size_bytes

    def move(self, memory: Bytes) -> None:
        """Keep the constants there from now on. No program may be there that has their old address."""
        if not self.can_move(memory) or self.buffer is None:
            raise ValueError(f"{memory.nbytes} bytes of memory cannot hold the {self.size_bytes} of the constants here")
        adopt: Callable[[Bytes, str], DeviceBuffer] = getattr(self.device, "adopt")  # noqa: B009 - not every device
        self.is_exposed = True
        self.ranges, self._late, self._fetched = (), {}, {}
        before, self.buffer = self.buffer, adopt(memory, "weights")
        self.device.free(before)
        self._fill(self.buffer)

    def digest(self) -> bytes:
        """SHA-256 of the constants in their places; anything that no other store has, where nothing is kept."""
        if not self.is_exposed and (self._digest or cache_base() is None):
            return self._digest or self._token
        if self.is_exposed and self.buffer is not None:
            self._digest = _digest_of([(0, self.buffer.array[: self.size_bytes].data)])
        else:
            self._digest = _digest_of(self._constants())
        return self._digest

    def is_intact(self) -> bool:
        """Whether the constants are what the model says: tasks can write them as well as any other memory."""
        self.complete()
        buffer = self.buffer
        return buffer is None or all(
            np.array_equal(buffer.array[start : start + len(data)], np.frombuffer(data, np.uint8))
            for start, data in self._constants()
        )

    def release(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        if self.buffer is not None:
            self.device.free(self.buffer)
        if self._owns_device:
            self.device.close()

    def _fill(self, buffer: DeviceBuffer) -> None:
        """All but those that are copied later."""
        for start, data in self._constants():
            if start not in self._late:
                buffer.array[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def _constants(self) -> Iterator[tuple[int, memoryview]]:
        """Where each constant is kept, in order, and what it is in the model."""
        for graph in self.model.graphs:
            offsets = self.offsets[graph.index]
            for tensor in graph.tensors:
                if tensor.data and tensor.kind not in _ELSEWHERE:
                    yield offsets[tensor.name], tensor.data


def _digest_of(constants: Iterable[tuple[int, memoryview]]) -> bytes:
    """SHA-256 of the places, sizes and SHA-256 of pieces, which several threads hash: another program is kept for other
    constants, so that nothing less will do."""
    pieces = [(start + at, data[at : at + _HASHED_AT_ONCE])
              for start, data in constants for at in range(0, max(len(data), 1), _HASHED_AT_ONCE)]  # fmt: skip
    found = [b""] * len(pieces)
    count = min(processors.cores(), _MOST_HASHING, len(pieces) or 1)

    def hash_some(first: int) -> None:
        for number in range(first, len(pieces), count):
            start, data = pieces[number]
            found[number] = struct.pack("<QQ", start, len(data)) + hashlib.sha256(data).digest()
            if len(data) >= _LARGE:
                forget_pages([data])

    threads = [threading.Thread(target=hash_some, args=(first,), daemon=True) for first in range(1, count)]
    with contextlib.suppress(RuntimeError):  # no more threads
        for thread in threads:
            thread.start()
    hash_some(0)
    for first, thread in enumerate(threads, 1):
        if thread.ident is None:
            hash_some(first)
        else:
            thread.join()
    if not all(found):
        raise MemoryError("no memory to hash the constants of a model in")
    return hashlib.sha256(b"".join(found)).digest()


def _release(memory: Bytes) -> None:
    """Give whole pages of anonymous memory back: they are zeros when somebody looks again."""
    advice = getattr(mmap, "MADV_DONTNEED", None)
    start = -(-memory.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    size = (memory.ctypes.data + memory.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - start
    if advice is not None and size > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice)


def _check(model: Model) -> None:
    names = {tensor.name for tensor in model.graphs[0].tensors if tensor.data}
    missing = [
        tensor.name
        for graph in model.graphs
        for tensor in graph.tensors
        if tensor.kind is Kind.WEIGHT and not tensor.data and tensor.name not in names
    ]
    if missing:
        raise UnsupportedError(
            f"the file has no weights ({missing[0]!r} and {len(missing) - 1} more): it was converted with remove_weight"
        )


def _places(model: Model) -> tuple[int, tuple[Mapping[str, int], ...]]:
    """Size of the memory and, per graph, tensor name -> offset in it.

    One behind the other, as in `container.link`, but without the commands. Graphs of dynamic shapes have empty blobs
    for what they share with graph 0.
    """
    offset = 0
    graphs: list[Mapping[str, int]] = []
    for graph in model.graphs:
        places = {}
        for tensor in graph.tensors:
            if tensor.data is None or tensor.kind in _ELSEWHERE:
                continue
            if not tensor.data and graphs and tensor.name in graphs[0]:
                places[tensor.name] = graphs[0][tensor.name]
                continue
            places[tensor.name] = offset
            offset += -(-len(tensor.data) // _ALIGNMENT) * _ALIGNMENT
        graphs.append(places)
    return offset, tuple(graphs)


def _same_constants(ours: Model, theirs: Model) -> bool:
    if ours is theirs:
        return True
    return _constants(ours) == _constants(theirs)


def _constants(model: Model) -> list[tuple[str, memoryview | None]]:
    def wanted(tensor: Tensor) -> bool:
        return tensor.data is not None and tensor.kind not in _ELSEWHERE

    return [(tensor.name, tensor.data) for graph in model.graphs for tensor in graph.tensors if wanted(tensor)]
