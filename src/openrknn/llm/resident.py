"""Memory of the NPU that holds keys and values of one sequence, and the graphs that read it there.

The cache is weights of products: keys [layers, heads, groups of rows, ...], values [layers, heads, ..., blocks of
rows, ...]. Rows up to a position are whole groups and blocks, so that a sequence moves out and in as a few large
pieces, without a change of layout; `rows` gives single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.device import DeviceBuffer
from openrknn.llm.errors import NumberRangeError
from openrknn.llm.file import LanguageFile
from openrknn.llm.ports import Ports
from openrknn.llm.range_guard import wrong_rows
from openrknn.llm.step_inputs import Masks, Rotations
from openrknn.runtime.binding import Binding

Half = npt.NDArray[np.float16]


class Parked(NamedTuple):
    """Keys and values in the layout of NPU memory. They are never written to, so copies share them."""

    keys: Half
    values: Half
    is_finite: bool
    """Whether all of them are known to be."""


class Resident:
    """One place for a sequence: its memory, and a binding of each graph to it, when it is needed."""

    def __init__(
        self, file: LanguageFile, number: int, memory: npt.NDArray[Any], bind: Callable[[], Mapping[int, Binding]],
        owned: DeviceBuffer | None = None,
    ) -> None:  # fmt: skip
        """`memory`: of the cache; `owned`: the same, where the engine has to give it back."""
        self.number, self.owned, self._bind, self._file = number, owned, bind, file
        self._layout, self._heads, self._size = file.layout, file.config.kv_heads, file.config.head_size
        config, layout, capacity = file.config, file.layout, file.capacity
        memory = memory.reshape(config.layers, 2, -1)
        self._keys = memory[:, 0].reshape(
            config.layers, self._heads, capacity // layout.kernels, self._size // layout.key_channels, layout.kernels,
            layout.key_channels,
        )  # fmt: skip
        self._values = memory[:, 1].reshape(
            config.layers, self._heads, self._size // layout.kernels, capacity // layout.value_channels,
            layout.kernels, layout.value_channels,
        )  # fmt: skip
        memory[...] = 0
        self._is_finite = True
        """Whether all numbers of the memory are known to be."""
        self.begun: set[int] = set()
        """Graphs that ran here."""

    @cached_property
    def graphs(self) -> Mapping[int, Binding]:
        """By tokens, of one sequence."""
        return self._bind()

    @cached_property
    def masks(self) -> dict[int, Masks]:
        ports = {tokens: Ports(self._file.config, self._file.capacity, tokens) for tokens in self.graphs}
        return {one: Masks(ports[one], bound.inputs, self._layout) for one, bound in self.graphs.items()}

    @cached_property
    def rotations(self) -> dict[int, Rotations]:
        ports = {tokens: Ports(self._file.config, self._file.capacity, tokens) for tokens in self.graphs}
        return {one: Rotations(ports[one], bound.inputs, self._layout) for one, bound in self.graphs.items()}

    def clear_behind(self, position: int) -> None:
        """Remove infinite numbers from rows that are hidden: they are multiplied by 0, which is no number then."""
        if self._is_finite:
            return
        group, lane = divmod(position, self._layout.kernels)
        self._keys[:, :, group + 1 :] = 0
        self._keys[:, :, group : group + 1, :, lane:] = 0
        block, lane = divmod(position, self._layout.value_channels)
        self._values[:, :, :, block + 1 :] = 0
        self._values[:, :, :, block : block + 1, :, lane:] = 0
        self._is_finite = bool(np.isfinite(self._keys).all() and np.isfinite(self._values).all())

    def write(self, keys: npt.NDArray[Any], values: npt.NDArray[Any], position: int) -> None:
        """[layers, heads, rows, size] from a position on."""
        layout, shape, size = self._layout, keys.shape[:3], self._size
        self._is_finite &= bool(np.isfinite(keys).all() and np.isfinite(values).all())
        rows = position + np.arange(keys.shape[2])
        group, lane = np.divmod(rows, layout.kernels)
        self._keys[:, :, group, :, lane] = np.moveaxis(
            keys.reshape(*shape, size // layout.key_channels, layout.key_channels), 2, 0
        )
        block, lane = np.divmod(rows, layout.value_channels)
        self._values[:, :, :, block, :, lane] = np.moveaxis(
            values.reshape(*shape, size // layout.kernels, layout.kernels), 2, 0
        )

    def store(
        self, bound: Binding, size: int, position: int, count: int, first: int = 0
    ) -> NumberRangeError | None:
        """What a step made: new rows of all layers, of `count` tokens from `first` on, to their places.

        Gives what is wrong with them.
        """
        heads, layers, atom = self._heads, len(self._keys), self._layout.atom
        fresh = bound.outputs["fresh"][0, :, 0].reshape(layers, 2, -1, size, atom)[:, :, :, first : first + count]
        if size == 1:
            keys = fresh[:, 0].reshape(layers, heads, 1, -1)
        else:  # numbers of a head lie `heads` atoms apart
            keys = fresh[:, 0].reshape(layers, -1, heads, count, atom).transpose(0, 2, 3, 1, 4)
        values = fresh[:, 1].reshape(layers, heads, -1, count, atom).transpose(0, 1, 3, 2, 4)
        self.write(keys.reshape(layers, heads, count, -1), values.reshape(layers, heads, count, -1), position)
        return wrong_rows(fresh, self._file.first, position)

    def park(self, count: int) -> Parked:
        """A copy of the rows before `count`, and of the rest of their groups."""
        groups, blocks = -(-count // self._layout.kernels), -(-count // self._layout.value_channels)
        keys, values = np.array(self._keys[:, :, :groups]), np.array(self._values[:, :, :, :blocks])
        return Parked(keys, values, self._is_finite)

    def unpark(self, parked: Parked, count: int) -> None:
        """Rows before `count`, of at least as many that were parked."""
        groups, blocks = -(-count // self._layout.kernels), -(-count // self._layout.value_channels)
        self._is_finite &= parked.is_finite
        self._keys[:, :, :groups] = parked.keys[:, :, :groups]
        self._values[:, :, :, :blocks] = parked.values[:, :, :, :blocks]

    def rows(self, count: int, parked: Parked | None = None) -> Half:
        """[layers, 2, heads, tokens, size]: of what is here, or of what was parked."""
        layout, at = self._layout, np.arange(count)
        keys, values = (self._keys, self._values) if parked is None else parked[:2]
        made = np.empty((len(self._keys), 2, self._heads, count, self._size), np.float16)
        group, lane = np.divmod(at, layout.kernels)
        made[:, 0] = np.moveaxis(keys[:, :, group, :, lane], 0, 2).reshape(made[:, 0].shape)
        block, lane = np.divmod(at, layout.value_channels)
        made[:, 1] = np.moveaxis(values[:, :, :, block, :, lane], 0, 2).reshape(made[:, 1].shape)
        return made
