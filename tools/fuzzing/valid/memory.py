"""Memory of a task: noise of the wanted kind at fixed addresses, and exactly the bytes that NumPy touches.

NumPy runs first, in large buffers that note what it asks for. Native kernels then run in buffers that hold those bytes
and not one more, each an allocation of its own: one byte beyond is a finding of the address sanitizer.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from openrknn import numerics
from openrknn.npu.memory import Buffer, Bytes, Memory

__all__ = ["CHANNELS", "OPERAND", "SOURCE", "TARGET", "WEIGHTS", "Recording", "recording"]

SOURCE, OPERAND, TARGET, WEIGHTS, CHANNELS = 0x1000_0000, 0x2000_0000, 0x3000_0000, 0x4000_0000, 0x5000_0000
_SIZES = {SOURCE: 8 << 20, OPERAND: 8 << 20, TARGET: 8 << 20, WEIGHTS: 4 << 20}
_NAMES = {SOURCE: "source", OPERAND: "operand", TARGET: "target", WEIGHTS: "weights", CHANNELS: "channels"}
_OFFSETS = 1 << 16
"""Where in the noise a buffer may begin, in atoms."""
_PERIOD = (1 << 20) + 48
"""Bytes after which noise repeats: more would take workers seconds to begin."""


class Recording(Memory):
    """Large buffers that note which of their bytes were asked for."""

    def __init__(self, buffers: list[Buffer], noise: Bytes) -> None:
        super().__init__(buffers)
        self.extents: dict[int, tuple[int, int]] = {}
        self._noise = noise
        """What the target held before the task ran."""

    def at(self, address: int, size: int, what: str) -> Buffer:
        buffer = super().at(address, size, what)
        first, end = self.extents.get(buffer.address, (address, address))
        self.extents[buffer.address] = min(first, address), max(end, address + size)
        return buffer

    def cut(self) -> Memory:
        """Buffers of exactly the noted bytes, as they were before the task ran."""
        found = Memory()
        for buffer in self:
            if buffer.address in self.extents:
                first, end = self.extents[buffer.address]
                data = self._noise if buffer.address == TARGET else buffer.data
                part = data[first - buffer.address : end - buffer.address].copy()
                found.add(Buffer(first, part, buffer.name, buffer.constant))
        return found

    def written(self) -> Bytes:
        """The noted bytes of the target after the task ran; the buffer becomes what it was."""
        if TARGET not in self.extents:
            return np.zeros(0, np.uint8)
        first, end = (address - TARGET for address in self.extents[TARGET])
        target = super().at(TARGET, 1, "target").data
        result = target[first:end].copy()
        target[first:end] = self._noise[first:end]
        return result


def recording(
    kinds: dict[int, str], channels: Bytes, seed: int, *, constant: bool, weights: Bytes | None = None
) -> Recording:
    """Noise of these kinds by address (see `_noise`), operands per channel; `constant`: the weights never change."""
    rng = np.random.default_rng(seed)
    buffers = [Buffer(CHANNELS, channels, _NAMES[CHANNELS], constant=True)]
    for address, size in _SIZES.items():
        if address == TARGET:
            data = _target(kinds[SOURCE])
        elif address == WEIGHTS and weights is not None:
            data = weights
        else:
            skip = int(rng.integers(0, _OFFSETS)) * 16
            data = _noise(kinds.get(address, kinds[SOURCE]))[skip : skip + size]
        buffers.append(Buffer(address, data, _NAMES[address], constant and address == WEIGHTS))
    return Recording(buffers, _noise(kinds[SOURCE]))


@cache
def _target(kind: str) -> Bytes:
    return _noise(kind)[: _SIZES[TARGET]].copy()


@cache
def _noise(kind: str) -> Bytes:
    """Read-only noise: bytes, or numbers of a format; "usual", "hard" or "wild" ones.

    Usual numbers have everyday sizes; some are zero, of either sign. Hard ones are powers of two, some with one more
    bit far behind: sums cancel, and end in the middle of two numbers. Wild ones are any bits: infinities and NaN too.
    """
    form, _, style = kind.partition(" ")
    rng = np.random.default_rng(28)
    whole = max(_SIZES.values()) + _OFFSETS * 16
    size = _PERIOD
    if form == "bytes" or style == "wild":
        data = rng.integers(0, 256, size, np.uint8)
    elif form == "int32":
        data = rng.integers(-(1 << 16), 1 << 16, size // 4).astype(np.int32).view(np.uint8)
    elif form == "int16":
        data = rng.integers(-2000, 2000, size // 2).astype(np.int16).view(np.uint8)
    else:
        count = size // (4 if form == "fp32" else 2)
        values = rng.normal(0, 3, count) * rng.choice([1, 1, 1, 0, -0.0, 1e-5], count)
        if style == "hard":
            values = rng.choice([-1, 1, 1 + 2.0**-7], count) * 2.0 ** rng.integers(-12, 12, count)
        single = values.astype(np.float32)
        encoders = {"fp16": numerics.encode_fp16, "bf16": numerics.encode_bf16}
        data = (encoders[form](single) if form in encoders else single).view(np.uint8)
    data = np.resize(data, whole)
    data.flags.writeable = False
    return data
