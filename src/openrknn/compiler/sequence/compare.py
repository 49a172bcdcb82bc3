"""The rewritten step against the model that was given, step by step, in ONNX Runtime and in float."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openrknn.compiler.errors import WrongResultError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.moving import Traced
from openrknn.compiler.sequence.rewrite import CROSS_MASK, MASK, Step
from openrknn.numerics import MASKED

_STEPS = 3
_CLOSE = 1e-4
"""Of the largest number: sums in another order."""


def fed(step: Step, token: int, position: int, capacity: int, frames: tuple[int, int]) -> dict[str, Array]:
    """Rows and masks of a step; `frames`: how many are there, and how many can be."""
    made = {name: table.row(token if table.by == "token" else position) for name, table in step.tables.items()}
    made[MASK] = _mask(position, capacity)
    if step.bound:
        made[CROSS_MASK] = _mask(*frames)
    return made


def compare(traced: Traced, step: Step) -> float:
    """The largest difference, as a part of the largest number; too large a one is an error.

    From an empty cache on, and with one that is full but for a row; with all the encoder's frames and with few.
    """
    original = FloatModel(traced.roles.net.model, [traced.roles.logits, *(one.present for one in traced.roles.caches)],
                          fuses=False)  # fmt: skip
    found = FloatModel(step.model, ["logits", *step.caches.values()], fuses=False)
    worst = 0.0
    for frames, begin in ((traced.frames, 0), (max(traced.frames // 2, 1), traced.capacity - 2)):
        for name, one, other in _runs(traced, step, original, found, frames, max(begin, 0)):
            scale = float(np.abs(one).max()) or 1.0
            off = float(np.abs(one.reshape(-1) - other.reshape(-1)).max()) / scale
            if not off < _CLOSE:
                raise WrongResultError(
                    f"with a past of {begin} rows and more, {name!r} of the rewritten step is off by {off:.2g} of its "
                    "largest number: the model does something with its past that the rewriting did not see",
                    operators=[name],
                )
            worst = max(worst, off)
    return worst


def _runs(
    traced: Traced, step: Step, original: FloatModel, found: FloatModel, frames: int, begin: int
) -> Iterator[tuple[str, Array, Array]]:
    roles, capacity = traced.roles, traced.capacity
    chance = np.random.default_rng(begin + 1)
    feed = roles.feed(begin, frames, chance)
    caches = {f"cache.{one.past}": _grown(feed[one.past], one.axis, capacity) for one in roles.caches}
    bound = {f"cross.{one.name}": _grown(feed[one.name], one.axis, traced.frames) for one in roles.bound}
    tokens = min(len(table.rows) for table in step.tables.values() if table.by == "token")
    known = {entry.name for entry in step.model.graph.input}
    for position in range(begin, min(begin + _STEPS, capacity)):
        token = int(chance.integers(tokens))
        rest = roles.feed(position, frames, None, token)
        for one in (*(cache.past for cache in roles.caches), *(one.name for one in roles.bound)):
            rest[one] = feed[one]
        wanted = dict(original.run(rest))
        given = {**caches, **bound, **fed(step, token, position, capacity, (frames, traced.frames))}
        made = dict(found.run({name: value for name, value in given.items() if name in known}))
        yield roles.logits, wanted[roles.logits], made["logits"]
        for cache in roles.caches:
            feed[cache.past] = wanted[cache.present]
            last = np.take(wanted[cache.present], [position], cache.axis)
            yield cache.present, last, made[f"new.{cache.past}"]
            where = [slice(None)] * last.ndim
            where[cache.axis] = slice(position, position + 1)
            caches[f"cache.{cache.past}"][tuple(where)] = made[f"new.{cache.past}"]


def _grown(array: Array, axis: int, size: int) -> Array:
    """With rows of zeros behind it."""
    more = [(0, 0)] * array.ndim
    more[axis] = (0, size - array.shape[axis])
    return np.pad(array, more).astype(np.float32)


def _mask(length: int, capacity: int) -> Array:
    mask = np.full((1, 1, 1, capacity), -MASKED, np.float32)
    mask[..., :length] = 0
    return mask
