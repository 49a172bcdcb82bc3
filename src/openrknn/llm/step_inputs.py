"""What the CPU writes before a step: rotations of positions, and what hides rows of the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.llm.file import CacheLayout
from openrknn.llm.ports import Ports

Memory = npt.NDArray[Any]
HIDDEN = -30000.0


class Rotations:
    """Of the positions of a graph's tokens, in the inputs that have them."""

    def __init__(self, ports: Ports, inputs: Mapping[str, Memory], layout: CacheLayout) -> None:
        config, self._tokens, self._atom = ports.config, ports.tokens, layout.atom
        size, rope = config.head_size, config.rope
        self._scale = rope.scale if rope is not None else 1.0
        self._size = size
        layers = {ports.turn_of(layer): layer for layer in range(config.layers)}
        self._each = [
            (inputs[name], np.array(config.rope_frequencies(layer)))
            for name, layer in layers.items()
            if name is not None
        ]
        self._places = None
        if rope is None or ports.tokens > 1:
            return
        self._places = turn_places(size, rope.size, layout.kernels, layout.key_channels)
        rest = np.arange(rope.size, size)
        for memory, _ in self._each:
            memory.reshape(-1)[:] = 0
            memory.reshape(-1)[weight_places(rest, rest, size, layout.kernels, layout.key_channels)] = 1

    def write(self, position: int) -> None:
        """Of this position and those behind it."""
        self.write_each(position + np.arange(self._tokens, dtype=np.float64))

    def write_each(self, positions: npt.NDArray[np.float64]) -> None:
        """Of each token."""
        for memory, frequencies in self._each:
            angles = positions[:, None] * frequencies
            cosines, sines = np.cos(angles) * self._scale, np.sin(angles) * self._scale
            if self._places is not None:
                turns = np.concatenate([cosines[0], cosines[0], -sines[0], sines[0]])
                memory.reshape(-1)[self._places] = turns
                continue
            rest = np.ones((self._tokens, self._size - 2 * cosines.shape[1]))
            angled = np.concatenate([cosines, cosines, rest, sines, sines, 0 * rest], axis=1)
            angled = angled.reshape(self._tokens, -1, self._atom)
            memory.reshape(angled.shape[1], -1, self._tokens, self._atom)[...] = angled.transpose(1, 0, 2)[:, None]


class Masks:
    """Which rows of the cache a graph's tokens see."""

    def __init__(self, ports: Ports, inputs: Mapping[str, Memory], layout: CacheLayout) -> None:
        self._ports, self._atom = ports, layout.atom
        self._whole = inputs["mask"][0, :, 0] if "mask" in inputs else None
        self._near = inputs["near_mask"][0, :, 0] if "near_mask" in inputs else None
        self._shown = 0
        for mask in (self._whole, self._near):
            if mask is not None:
                mask[...] = HIDDEN

    def show(self, length: int) -> None:
        """Rows before `length`, and of these the ones inside of windows."""
        if self._whole is not None:
            before, self._shown = self._shown, length
            rows = np.arange(min(before, length), max(before, length))
            self._whole[rows // self._atom, :, rows % self._atom] = HIDDEN if length < before else 0
        if self._near is not None:
            tokens, pixels = self._ports.tokens, self._near.shape[1]
            window = self._ports.config.window or 0
            position = length + np.arange(pixels) % tokens  # of the token of each pixel
            rows = np.arange(self._ports.capacity)[:, None]
            seen = (rows < length) & (position - rows < window)
            self._near[...] = np.where(seen, 0, HIDDEN).reshape(-1, self._atom, pixels).transpose(0, 2, 1)


def turn_places(size: int, turned: int, kernels: int, channels: int) -> npt.NDArray[np.int64]:
    """Offsets of cosines (of both halves) and sines (of both halves) in the weights of a rotation."""
    low, high = np.arange(turned // 2), np.arange(turned // 2) + turned // 2
    made, read = np.concatenate([low, high, low, high]), np.concatenate([low, high, high, low])
    return weight_places(made, read, size, kernels, channels)


def weight_places(
    made: npt.NDArray[np.int64], read: npt.NDArray[np.int64], size: int, kernels: int, channels: int
) -> npt.NDArray[np.int64]:
    """Where entries (made, read) of a matrix lie that is weights of a product."""
    tile = made // kernels * (size // channels) + read // channels
    places: npt.NDArray[np.int64] = (tile * kernels + made % kernels) * channels + read % channels
    return places
