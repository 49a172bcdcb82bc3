"""A matrix product by our own register commands: memory, jobs, and sizes that the NPU does not take in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.device import Device, DeviceBuffer, Job, PreparedJob
from openrknn.numerics import pack_int4
from openrknn.runtime.matmul import commands, commands_rk3576
from openrknn.runtime.matmul.commands import ENABLE, Addresses, Kind, Product, streams

Array = npt.NDArray[Any]
_K_GROUP = 32
_MOST_K_BYTES = 4096
"""Of one part along K: what the vendor's runtime takes (K 4096 for int8, 2048 for fp16)."""
_MOST_INT4 = 2 * _MOST_K_BYTES
_MOST_N = 4096
_MOST_M = 8192
_LARGEST_PRODUCT, _LARGEST_INT32 = 128 * 128, (1 << 31) - 1
"""(-128)^2 of int8. One part along K sums at most 4096 of them: 2^26, which the NPU's 32 bits hold. The sum of the
parts can exceed them from K = 131072 on; it is made here, in 64 bits."""
_DPU_INTERRUPTS = 0x300
_ALL_INTERRUPTS = 0x1FFFF


_BODIES = {"rk3588": commands.body, "rk3576": commands_rk3576.body}
"""Chips that there are commands for."""


def has_commands(chip: Chip) -> bool:
    """Whether this chip can multiply."""
    return chip.name in _BODIES


def kind_of(chip: Chip, m: int, k: int, *, bits: int, b_bits: int) -> Kind:
    """The formats by which the NPU multiplies A and B of so many bits, 16 being floating point.

    RK3576 takes a B that is narrower than A. On RK3588 both have the format of A, and

    a task of 4-bit numbers multiplies one row, as the vendor's do: with one row it reads half the bytes of int8, and
    with more it reads B again for each. Its int16 sums saturate, so that parts along K cannot be added up.
    """
    name = "fp16" if bits == 16 else "int8"
    if chip.name == "rk3576":
        narrow = f"{name} x int{b_bits}"
        return commands_rk3576.KINDS[narrow if narrow in commands_rk3576.KINDS else name]
    if bits == 4 and m == 1 and k <= _MOST_INT4:
        name = "int4"
    return commands.KINDS[name]


@dataclass(slots=True)
class _Part:
    """A product that fits, its place in the matrices, and its job."""

    product: Product
    rows: slice
    inner: slice
    columns: slice
    a: DeviceBuffer
    b: DeviceBuffer
    c: DeviceBuffer
    work: Job
    ready: PreparedJob | None = None
    """None: B is new. A device may look at weights when a job is prepared."""

    def forget(self) -> None:
        """What was prepared is of another B."""
        if self.ready is not None:
            self.ready.close()
        self.ready = None


class OwnProduct:
    """Cuts the matrices into parts, each with memory and commands of its own. Parts along K are added up here."""

    def __init__(self, device: Device, m: int, k: int, n: int, kind: Kind) -> None:
        self._device = device
        self._shape = (m, k, n)
        self._kind, is_float = kind, kind.result == "fp32"
        self._dtype = np.dtype(np.float16 if is_float else np.int8)
        self._b_dtype = np.dtype(np.float16 if kind.b_bits == 16 else np.int8)
        self._sums = np.dtype({"fp32": np.float32, "int32": np.int32, "int16": np.int16}[kind.result])
        self._totals = self._sums if is_float or k * _LARGEST_PRODUCT <= _LARGEST_INT32 else np.dtype(np.int64)
        self._buffers: list[DeviceBuffer] = []
        self._parts: list[_Part] = []
        step = _MOST_K_BYTES * 8 // kind.bits
        try:
            for rows in _cut(m, _MOST_M):
                for inner in _cut(k, step):
                    a = self._allocate(_rounded(rows, 4) * _rounded(inner, _K_GROUP) * kind.bits // 8, "A")
                    for columns in _cut(n, _MOST_N):
                        self._parts.append(self._part(rows, inner, columns, a))
        except BaseException:
            self.close()
            raise

    def set_a(self, values: Array) -> None:
        """[M, K] as feature maps [K1, M, K2]."""
        done: set[int] = set()
        for part in self._parts:
            if id(part.a) in done:
                continue
            done.add(id(part.a))
            piece = values[part.rows, part.inner]
            if self._kind.bits == 4:  # one row: its maps are the numbers in their order
                row = np.zeros(part.product.k, np.int8)
                row[: piece.size] = piece[0]
                part.a.array[: part.product.k // 2] = pack_int4(row)
                continue
            k2 = 16 // self._dtype.itemsize
            target = part.a.array[: part.product.m * part.product.k * self._dtype.itemsize].view(self._dtype)
            maps = target.reshape(part.product.k // k2, part.product.m, k2)
            whole = piece.shape[1] // k2 * k2
            maps[: whole // k2, : piece.shape[0]] = piece[:, :whole].reshape(len(piece), -1, k2).transpose(1, 0, 2)
            if whole < piece.shape[1]:
                maps[whole // k2, : piece.shape[0], : piece.shape[1] - whole] = piece[:, whole:]

    def set_b(self, values: Array) -> None:
        """[K, N] as weights [N1, K1, N2, K2]."""
        for part in self._parts:
            piece = values[part.inner, part.columns]
            padded = np.zeros((part.product.k, part.product.n), self._b_dtype)
            padded[: piece.shape[0], : piece.shape[1]] = piece
            n2 = part.product.kernel_group
            tiles = padded.reshape(part.product.k // _K_GROUP, _K_GROUP, part.product.n // n2, n2)
            ordered = tiles.transpose(2, 0, 3, 1).reshape(-1)
            stored = pack_int4(ordered) if self._kind.b_bits == 4 else ordered.view(np.uint8)
            part.b.array[: stored.size] = stored
            part.forget()

    def run(self) -> None:
        """Multiply."""
        for part in self._parts:
            if part.ready is None:
                part.ready = self._device.prepare(part.work)
            part.ready.run()

    def get_c(self) -> Array:
        """C [M, N]: float32, int16 of 4-bit numbers, int32, or int64 where 32 bits may not hold a sum of so many."""
        m, _, n = self._shape
        result: Array = np.zeros((m, n), self._totals)
        for part in self._parts:
            size = part.product.m * part.product.n
            lanes = 16 // self._kind.result_bytes
            stored = part.c.array[: size * self._kind.result_bytes].view(self._sums)
            maps: Array = stored.reshape(part.product.n // lanes, part.product.m, lanes)
            sums = maps.transpose(1, 0, 2).reshape(part.product.m, part.product.n)
            target = result[part.rows, part.columns]
            target += sums[: target.shape[0], : target.shape[1]]
        return result

    def close(self) -> None:
        """Give the memory back."""
        for part in self._parts:
            part.forget()
        self._parts.clear()
        while self._buffers:
            self._device.free(self._buffers.pop())

    def _allocate(self, size_bytes: int, name: str) -> DeviceBuffer:
        buffer = self._device.allocate(size_bytes, name)
        self._buffers.append(buffer)
        return buffer

    def _part(self, rows: slice, inner: slice, columns: slice, a: DeviceBuffer) -> _Part:
        group = 256 // self._kind.bits
        product = Product(_rounded(rows, 4), _rounded(inner, _K_GROUP), _rounded(columns, group), self._kind)
        b = self._allocate(product.n * product.kernel_bytes, "B")
        c = self._allocate(product.m * product.n * self._kind.result_bytes, "C")
        places = Addresses(a.address, b.address, c.address)
        of_chip = _BODIES[self._device.chip.name]
        count = len(streams(product, places, 0, of_chip)[0])
        listed = self._allocate(8 * count, "commands")
        words, tasks = streams(product, places, listed.address, of_chip)
        listed.array.view(np.uint64)[: len(words)] = words
        records = tuple(
            Task(0, 0, ENABLE, _DPU_INTERRUPTS, _ALL_INTERRUPTS, 0, amount, 0, listed.address + 8 * first)
            for first, amount in tasks
        )
        job = Job(records, (tuple(range(len(records))),), constants=(b,), buffers=(a, c, listed))
        return _Part(product, rows, inner, columns, a, b, c, job)


def _cut(total: int, most: int) -> list[slice]:
    return [slice(start, min(start + most, total)) for start in range(0, total, most)]


def _rounded(part: slice, step: int) -> int:
    """The length of a part in memory. One row stays one: the NPU then reads a single pixel."""
    length = int(part.stop - part.start)
    return length if length == 1 and step == 4 else -(-length // step) * step
