"""The arguments of `Session.run`: one value per input in the order of the model, one item of a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openrknn.runtime.arrange import LAYOUTS
from openrknn.runtime.inputs import as_numbers
from openrknn.runtime.program import Program
from openrknn.runtime.shapes import allowed_shapes
from openrknn.runtime.tensors import Array

__all__ = ["feed", "in_order", "join_batch", "layouts_in_order", "split_batch"]


def feed(
    program: Program, values: Sequence[object], layouts: Sequence[str | None], *, pass_through: bool
) -> frozenset[str]:
    """Put the values into the input buffers; the names of the inputs that took raw pixels."""
    pixels = []
    try:
        for port, value, layout in zip(program.inputs, values, layouts, strict=True):
            if pass_through:
                port.feed_native(value)
            elif port.feed(value, layout):
                pixels.append(port.name)
    except ValueError as error:
        if not program.model.is_dynamic:
            raise
        others = "; ".join(str(entry) for entry in allowed_shapes(program.model))
        raise ValueError(f"{error}. For other shapes call set_shapes first; there are {others}") from None
    return frozenset(pixels)


def split_batch(values: Sequence[object], names: Sequence[str], batch: int) -> list[list[object]]:
    """The inputs of each item; models without rknn_batch_size take everything at once."""
    if batch <= 1:
        return [list(values)]
    arrays = [as_numbers(value, name) for value, name in zip(values, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if not array.ndim or array.shape[0] != batch:
            raise ValueError(f"input {name!r}: {array.shape} was given; the model takes {batch} items per run")
    return [[array[item : item + 1] for array in arrays] for item in range(batch)]


def join_batch(results: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """The outputs of all items behind each other."""
    if len(results) == 1:
        return results[0]
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


def in_order(inputs: object, names: Sequence[str]) -> list[object]:
    """One array, a list or tuple of them, or a dict by name."""
    if isinstance(inputs, Mapping):
        return _by_name(inputs, names)
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if len(values) != len(names):
        given = f"{len(values)} inputs were given" if isinstance(inputs, list | tuple) else "one array was given"
        raise ValueError(f"{given}; the model has {len(names)}: {', '.join(names)}")
    return values


def layouts_in_order(layout: str | Mapping[str, str] | None, names: Sequence[str]) -> list[str | None]:
    """`layout=` for each input: one for all, or by name."""
    chosen = dict.fromkeys(names, layout) if not isinstance(layout, Mapping) else dict(layout)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"layout= names {unknown[0]!r}, but the inputs are {', '.join(names)}")
    lowered = [value.lower() if isinstance(value, str) else value for value in map(chosen.get, names)]
    wrong = [value for value in lowered if value is not None and value not in LAYOUTS]
    if wrong:
        raise ValueError(f"layout {wrong[0]!r} is not known; there are 'nhwc' and 'nchw'")
    return lowered


def _by_name(inputs: Mapping[object, object], names: Sequence[str]) -> list[object]:
    unknown = [name for name in inputs if name not in names]
    missing = [name for name in names if name not in inputs]
    if unknown:
        raise ValueError(f"no input is called {unknown[0]!r}; the model has {', '.join(names)}")
    if missing:
        raise ValueError(f"input {missing[0]!r} is missing; the model has {', '.join(names)}")
    return [inputs[name] for name in names]
