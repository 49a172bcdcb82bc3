"""CNA's decompressor: the lanes that its registers name, and the weights that come out of them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from openrknn.errors import ExecutionError, UnsupportedError
from openrknn.layout.compression import Lane, decompress
from openrknn.npu.memory import Bytes, Memory
from openrknn.task.cna import Compression

__all__ = ["MOST_BYTES", "Compression", "decompressed"]

MOST_BYTES = 1 << 28
"""Of one task's weights. A few bytes can ask for any number of zeros; no network has that many."""


class _Recent:
    """The last results: several tasks share their weights, and without kernels each run asks again."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._found: OrderedDict[bytes, Bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Bytes | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: bytes, weights: Bytes) -> None:
        with self._lock:
            self._found[key] = weights
            while sum(kept.nbytes for kept in self._found.values()) > self._budget:
                self._found.popitem(last=False)


_RECENT = _Recent(1 << 26)


def decompressed(compression: Compression, memory: Memory, size: int, element_bytes: int) -> Bytes:
    """The first `size` bytes of the weights, in the order in which they would be stored."""
    if size > MOST_BYTES:
        raise ExecutionError(f"{size} bytes of compressed weights in one task", register="WEIGHT_SIZE0")
    raw = [memory.view(stream.address, stream.size, "CNA compressed weights") for stream in compression.streams]
    key = _key(compression, raw, size, element_bytes)
    weights = _RECENT.get(key)
    if weights is None:
        lanes = [
            Lane(data[: stream.header_bytes], data[stream.header_bytes :])
            for stream, data in zip(compression.streams, raw, strict=True)
        ]
        try:
            weights = decompress(lanes, size, compression.scheme, element_bytes)
        except UnsupportedError as error:
            raise ExecutionError(str(error), register="DCOMP_ADDR0") from None
        weights.flags.writeable = False
        _RECENT.put(key, weights)
    return weights


def _key(compression: Compression, raw: list[Bytes], size: int, element_bytes: int) -> bytes:
    import hashlib  # here: few models are compressed, and it brings OpenSSL

    digest = hashlib.blake2b(repr((compression.scheme, size, element_bytes)).encode(), digest_size=16)
    for stream, data in zip(compression.streams, raw, strict=True):
        digest.update(repr((stream.header_bytes, stream.size)).encode())
        digest.update(data.tobytes())
    return digest.digest()
