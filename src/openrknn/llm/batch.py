"""The graph that takes one token of each of several sequences: weights are read once for all of them.

Token n belongs to the n-th cache in the memory of the NPU. Unused tokens are zeros that see no row of a
cache, and what they give is not read. New keys and values of all tokens are multiplied together, with scores that hide
those of others: a sequence gets the same bits at every place and beside any others, as long as all numbers are finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.llm.file import LanguageFile, StepEntry
from openrknn.llm.ports import Ports, mask_pixels
from openrknn.llm.step_inputs import HIDDEN, Masks, Rotations
from openrknn.runtime.binding import Binding

__all__ = ["Batch", "Turn"]


class Turn(NamedTuple):
    """What a sequence brings to a step."""

    row: npt.NDArray[Any]
    """Of the embedding."""
    position: int


class Batch:
    """The graph, and what the CPU writes for it."""

    def __init__(self, file: LanguageFile, entry: StepEntry, bound: Binding, least: int) -> None:
        """`least`: sequences from which on it is used."""
        self.bound, self.sequences, self.tokens, self.least = bound, entry.sequences, entry.tokens, least
        self._atom = file.layout.atom
        config = file.config
        ports, one = file.ports(entry), Ports(config, file.capacity, 1)
        self._rotations = Rotations(ports, bound.inputs, file.layout)
        masks = {name: bound.inputs[name] for name in ("mask", "near_mask") if name in bound.inputs}
        for mask in masks.values():
            mask[...] = HIDDEN
        every, each = config.heads // config.kv_heads * entry.tokens, mask_pixels(config, 1)
        places = [slice(0, every, entry.tokens), *(slice(first, first + each) for first in ports.masks[1:])]
        self._masks = [
            Masks(one, {name: mask[:, :, :, place] for name, mask in masks.items()}, file.layout) for place in places
        ]

    def run(self, turns: Mapping[int, Turn]) -> bool:
        """One token for each of some sequences, by their places; whether all new keys and values are finite."""
        positions = np.zeros(self.tokens)
        x = self.bound.inputs["x"].reshape(-1, self.tokens, self._atom)
        for place in range(self.tokens):
            turn = turns.get(place)
            x[:, place] = 0 if turn is None else turn.row.reshape(-1, self._atom)
            if turn is not None:
                positions[place] = turn.position
            if place < self.sequences:
                self._masks[place].show(0 if turn is None else turn.position)
        self._rotations.write_each(positions)
        self.bound.run()
        return bool(np.isfinite(self.bound.outputs["fresh"]).all())
