"""What the inputs of a decoder's step are for.

A cache is found by what the graph does: an output that is a Concat of an input and of new rows. What else is floats and
is read for its numbers is constant for an utterance (keys and values of cross attention, or the encoder's states).
Whole numbers are token ids, positions or masks; names tell which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.errors import SequenceError
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.net import SHAPE_READERS, Net, origin

_RANKS = (3, 4, 5)


@dataclass(frozen=True, slots=True)
class Cache:
    """A past that grows."""

    past: str
    """The input."""
    present: str
    """The output."""
    new: str
    """The rows that are added."""
    axis: int


@dataclass(frozen=True, slots=True)
class Bound:
    """What an encoder gives once."""

    name: str
    axis: int
    """Of its frames."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The inputs, by what they are for."""

    net: Net
    ids: str
    logits: str
    caches: tuple[Cache, ...]
    bound: tuple[Bound, ...] = ()
    positions: tuple[str, ...] = ()
    ones: Mapping[str, bool] = field(default_factory=dict)
    """Masks, all ones; whether they are as long as what the encoder gives (else as the past and the new row)."""
    idle: tuple[str, ...] = ()
    """Only their sizes are read."""
    mask_length: int = 1
    """A mask of the encoder's can be one of its input: how many times longer than its frames."""

    def feed(
        self, past: int, frames: int, chance: np.random.Generator | None = None, token: int = 0
    ) -> dict[str, Array]:
        """Inputs of these sizes: zeros, or numbers by chance."""
        net, made = self.net, {}
        axes = {cache.past: (cache.axis, past) for cache in self.caches}
        axes.update({bound.name: (bound.axis, frames) for bound in self.bound})
        for name in net.inputs:
            kind, dims = net.kind(name), net.dims(name)
            if name == self.ids:
                made[name] = np.full([1] * len(dims), token, kind)
            elif name in self.positions:
                made[name] = np.full([1] * len(dims), past, kind)
            elif name in self.ones:
                length = frames * self.mask_length if self.ones[name] else past + 1
                made[name] = np.ones([1] * (len(dims) - 1) + [length], kind)
            elif kind == np.bool_:
                made[name] = np.ones([1] * len(dims), kind)
            else:
                axis, length = axes.get(name, (None, frames))
                shape = [
                    length if place == axis or (axis is None and isinstance(size, str) and place) else size
                    for place, size in enumerate(dims)
                ]
                sizes = [1 if isinstance(size, str) else size for size in shape]
                made[name] = (np.zeros(sizes) if chance is None else chance.normal(0, 0.5, sizes)).astype(kind)
        return made


def find_roles(net: Net) -> Roles:
    """Look at the graph; what cannot be told is an error that names the tensor."""
    caches = tuple(_caches(net))
    if not caches:
        made = [f"{name!r} ({net.made[name].op_type})" for name in net.outputs if name in net.made]
        raise SequenceError(
            "no output of the model is a Concat of an input and of new rows, so it has no past that grows; outputs: "
            f"{', '.join(made[:6])}", operators=net.outputs[:1],
        )  # fmt: skip
    pasts = {cache.past for cache in caches}
    read = {name for node in net.nodes if node.op_type not in SHAPE_READERS for name in node.input}
    ids, positions, ones, bound, idle = [], [], {}, [], []
    for name in net.inputs:
        kind = net.kind(name)
        if name in pasts or kind == np.bool_:
            continue
        if kind.kind == "f":
            if name in read and "mask" not in name:
                bound.append(Bound(name, _frames_axis(net, name)))
            elif "mask" in name:
                raise SequenceError(f"input {name!r} is a mask of floats; masks of whole numbers are read",
                                    operators=[name])  # fmt: skip
            else:
                idle.append(name)
        elif "mask" in name:
            ones[name] = "encoder" in name.replace("decoder", "")
        elif "position" in name:
            positions.append(name)
        else:
            ids.append(name)
    if len(ids) != 1:
        raise SequenceError(
            f"one input of token ids is needed, and these could be: {', '.join(ids) or 'none'}", operators=ids
        )
    logits = _logits(net, caches, {one.name for one in bound})
    return Roles(net, ids[0], logits, caches, tuple(bound), tuple(positions), ones, tuple(idle))


def _caches(net: Net) -> Any:
    for name in net.outputs:
        node = net.made.get(origin(net, name))
        if node is None or node.op_type != "Concat" or len(node.input) != 2:
            continue
        past = origin(net, node.input[0])
        if past not in net.inputs or net.kind(past).kind != "f":
            if origin(net, node.input[1]) in net.inputs and net.kind(origin(net, node.input[1])).kind == "f":
                raise SequenceError(f"output {name!r}: its new rows come before the past; they must come behind it",
                                    operators=[name])  # fmt: skip
            continue
        rank = len(net.dims(past))
        if rank not in _RANKS:
            raise SequenceError(f"input {past!r} has {rank} dimensions; a cache has 3 to 5", operators=[past])
        axis = next(int(entry.i) for entry in node.attribute if entry.name == "axis") % rank
        yield Cache(past, name, node.input[1], axis)


def _frames_axis(net: Net, name: str) -> int:
    """The open dimension behind the first; of keys and values the last but one if none or several are open."""
    dims = net.dims(name)
    opened = [place for place, size in enumerate(dims) if isinstance(size, str) and place]
    if len(opened) == 1:
        return opened[0]
    if len(dims) not in _RANKS:
        raise SequenceError(f"input {name!r} is {dims}: it is not clear which dimension are the encoder's frames",
                            operators=[name])  # fmt: skip
    return len(dims) - 2


def _logits(net: Net, caches: tuple[Cache, ...], bound: set[str]) -> str:
    grown = {cache.present for cache in caches}
    left = [name for name in net.outputs if name not in grown and origin(net, name) not in bound]
    if not left:
        raise SequenceError("the model has no output beside its caches: where are the logits?")
    return "logits" if "logits" in left else left[0]
