"""CNA's decompressor: what its registers say, and the weights that come out of it.

A lane begins where the one before ends, rounded up to 64 bytes; RK3566 has an address for each. The streams themselves
are `layout.compression`'s.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from openrknn.errors import ExecutionError, UnknownModeError, UnsupportedError
from openrknn.isa import Precision
from openrknn.layout.compression import LANE_ALIGNMENT, SCHEMES, Lane, Scheme, decompress
from openrknn.npu.memory import Bytes, Memory
from openrknn.npu.named import NamedRegisters

__all__ = ["Compression", "Stream", "decompressed", "read_compression"]

MOST_BYTES = 1 << 28
"""Of one task's weights. A few bytes can ask for any number of zeros; no network has that many."""


class _Units(NamedTuple):
    """How DCOMP_REGNUM and DCOMP_AMOUNT count."""

    unit_bytes: int
    header_bits: int
    controls: Mapping[Precision, int]
    """DCOMP_CTRL by number format of the weights."""


_UNITS: Mapping[int, _Units] = MappingProxyType(
    {
        16: _Units(16, 2, {Precision.INT8: 1}),
        8: _Units(8, 3, {Precision.INT8: 1, Precision.FP16: 5}),
        2: _Units(16, 2, {Precision.INT8: 5, Precision.INT16: 5, Precision.FP16: 5}),
    }
)
"""By number of lanes."""


class Stream(NamedTuple):
    """Where one lane lies."""

    address: int
    header_bytes: int
    size: int
    """With the header."""


@dataclass(frozen=True, slots=True)
class Compression:
    """The lanes of one task's weights."""

    scheme: Scheme
    streams: tuple[Stream, ...]

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return sum(stream.size for stream in self.streams)


def read_compression(cna: NamedRegisters, precision: Precision) -> Compression | None:
    """None where weights are stored as they are."""
    amounts = cna.numbered("DCOMP_AMOUNT")
    addresses = [name for name in cna.numbered("DCOMP_ADDR") if name != "DCOMP_ADDR0"]
    if not cna.bits("DCOMP_CTRL"):
        cna.expect_zero("DCOMP_REGNUM", *amounts)
        cna.waive(*addresses)
        return None
    units = _UNITS[len(amounts)]
    if cna.bits("DCOMP_CTRL") != units.controls.get(precision):
        text = f"DCOMP_CTRL = {cna.bits('DCOMP_CTRL'):#x} with {precision.name} weights is not implemented"
        raise UnknownModeError(text, register="DCOMP_CTRL")
    headers, at = cna("DCOMP_REGNUM", "dcomp_regnum"), cna("DCOMP_ADDR0", "decompress_addr0")
    streams: list[Stream] = []
    for number, name in enumerate(amounts):
        if number and addresses:
            at = cna(addresses[number - 1], "address")
        header = (headers >> number * units.header_bits & ((1 << units.header_bits) - 1)) * units.unit_bytes
        size = (cna(name, "amount") + 1) * units.unit_bytes
        streams.append(Stream(at, header, size))
        at += -(-size // LANE_ALIGNMENT) * LANE_ALIGNMENT
    return Compression(SCHEMES[len(amounts)], tuple(streams))


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
    digest = hashlib.blake2b(repr((compression.scheme, size, element_bytes)).encode(), digest_size=16)
    for stream, data in zip(compression.streams, raw, strict=True):
        digest.update(repr((stream.header_bytes, stream.size)).encode())
        digest.update(data.tobytes())
    return digest.digest()
