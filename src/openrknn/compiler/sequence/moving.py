"""What a step computes without looking at numbers: sizes, positions, masks.

A traced step knows the size of every value at full capacity, and what depends on the length of the past only. That is
evaluated once for each length, in ONNX Runtime: what never changes is a constant, what changes but keeps its shape
becomes a table of rows by position, and what changes its shape is a mask over the past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from openrknn.compiler.errors import CalibrationError, SequenceError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.net import SHAPE_READERS
from openrknn.compiler.sequence.roles import Roles

LONGEST_MASK = 2048
"""Samples of sound per frame that a mask can have."""
_Shapes: TypeAlias = dict[str, tuple[int, ...]]
_Sizes: TypeAlias = dict[str, tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that depends on the length of the past: the value for each length from 0 to the capacity."""

    values: Sequence[Array]

    @property
    def is_fixed(self) -> bool:
        """Never changes."""
        return all(np.array_equal(self.values[-1], value) for value in self.values)

    @property
    def is_row(self) -> bool:
        """Keeps its shape, and is a number for the NPU."""
        first = self.values[-1]
        return first.dtype.kind == "f" and all(value.shape == first.shape for value in self.values)

    def always(self, number: float) -> bool:
        """Whether all of its numbers are this one at every length."""
        return all(bool((value == number).all()) for value in self.values)


@dataclass(frozen=True, slots=True)
class Traced:
    """A step at full capacity."""

    roles: Roles
    capacity: int
    frames: int
    shapes: Mapping[str, tuple[int, ...]]
    data: frozenset[str]
    """Values that depend on numbers that are fed."""
    moving: Mapping[str, Moving]
    """Values without data that data meet, and that depend on the length or on masks."""


def trace(roles: Roles, capacity: int, frames: int) -> Traced:
    """Run the step at two lengths with all its values, and what depends on the length alone at each."""
    net = roles.net
    data = net.depending([roles.ids, *(one.past for one in roles.caches), *(one.name for one in roles.bound)])
    lengths = net.depending([name for name in net.inputs if name not in data])
    for node in net.nodes:  # sizes of what is fed are lengths, too, and what is computed of them
        if any(name in lengths for name in node.input) or (
            node.op_type in SHAPE_READERS and node.input[0] not in net.constants
        ):
            lengths.update(name for name in node.output if name and name not in data)
    roles, shapes, sizes = _shapes(roles, capacity, frames)
    fixed = {name: full for name, (full, step) in sizes.items() if not step.any()}
    grows = {name: pair for name, pair in sizes.items() if name not in fixed}
    wanted = [
        name for node in net.nodes if any(made in data for made in node.output)
        for name in node.input if name in lengths and name not in data
    ]  # fmt: skip
    wanted = [name for name in dict.fromkeys(wanted) if name in net.made]
    part = net.part(wanted, fixed, grows)
    model = FloatModel(part, wanted)
    fed = {entry.name for entry in part.graph.input}
    found: dict[str, list[Array]] = {name: [] for name in wanted}
    for past in range(capacity + 1):
        given = {name: full - step * (capacity - past) for name, (full, step) in grows.items()}
        feed = {name: value for name, value in {**roles.feed(past, frames), **given}.items() if name in fed}
        try:
            for name, value in model.run(feed):
                if name in found:
                    found[name].append(np.asarray(value))
        except CalibrationError as error:
            raise SequenceError(f"the step does not run with a past of {past} rows: {error}") from None
    moving = {name: Moving(values) for name, values in found.items()}
    for name in roles.ones:  # a mask that is read as it is
        moving[name] = Moving([roles.feed(past, frames)[name] for past in range(capacity + 1)])
    return Traced(roles, capacity, frames, shapes, frozenset(data), moving)


def _shapes(roles: Roles, capacity: int, frames: int) -> tuple[Roles, _Shapes, _Sizes]:
    """Sizes of all values at full capacity; results of Shape, and by how much they grow with a row of the past."""
    net = roles.net
    names = list(net.made)
    model = FloatModel(net.model, names)
    chance = np.random.default_rng(0)
    while True:
        try:
            full = {name: np.asarray(value) for name, value in model.run(roles.feed(capacity, frames, chance))}
            break
        except CalibrationError as error:
            if not any(roles.ones.values()) or roles.mask_length >= LONGEST_MASK:
                raise SequenceError(f"the step does not run with a past of {capacity} rows: {error}") from None
            roles = replace(roles, mask_length=LONGEST_MASK)
    other = dict(model.run(roles.feed(capacity - 1, frames, chance)))
    sizes = {
        name: (full[name], full[name] - np.asarray(other[name]))
        for node in net.nodes if node.op_type in SHAPE_READERS for name in node.output
    }  # fmt: skip
    return roles, {name: value.shape for name, value in full.items()}, sizes
