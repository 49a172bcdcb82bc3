"""Calibration of several shapes together: what is seen of a value counts for all graphs that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.calibration import Feeds
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.equalise import equalise_by, reach_of
from openrknn.compiler.quantise.statistics import Statistics, collect


class Shaped(NamedTuple):
    """The graph for one choice of input shapes, and what it is calibrated with."""

    graph: Graph
    model: Any
    feeds: Feeds
    samples: Sequence[Mapping[str, Array]]
    """The first of the feeds; empty where none has these shapes."""


def calibrate(parts: Sequence[Shaped], progress: Callable[[int], None]) -> dict[str, Statistics]:
    """Statistics of every value of every graph."""
    found: dict[str, Statistics] = {}
    done = 0
    for part in parts:
        if not part.samples and len(parts) > 1:
            continue
        told = partial(_tell, progress, done)
        for name, entry in collect(part.graph, part.model, part.feeds, told).items():
            if name in found:
                found[name].join(entry)
            else:
                found[name] = entry
        done += len(part.feeds)
    _check(parts)
    for part in parts:
        missing = [name for name in part.graph.values if name not in found and name not in part.graph.floats]
        if missing:
            guessed = collect(part.graph, part.model, _fitted(parts, part.graph))
            found |= {name: guessed[name] for name in missing}
    return found


def _fitted(parts: Sequence[Shaped], graph: Graph) -> Iterator[dict[str, Array]]:
    """Inputs of other shapes, cropped or repeated: for what only this shape computes, as steps of a large mean."""
    for other in parts:
        for feed in other.samples:
            yield {name: _wrapped(values, graph.values[name].shape) for name, values in feed.items()}


def _wrapped(values: Array, shape: tuple[int, ...]) -> Array:
    for axis, size in enumerate(shape):
        values = np.take(values, np.arange(size) % values.shape[axis], axis)
    return values


def _tell(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _check(parts: Sequence[Shaped]) -> None:
    unused = set(range(1, len(parts[0].feeds) + 1)).difference(*(part.feeds.used for part in parts))
    if unused:
        wanted = "; ".join(_shapes(part.graph) for part in parts)
        raise CalibrationError(f"calibration input {min(unused)} fits none of the shapes; there are {wanted}")


def equalise_together(parts: Sequence[Shaped]) -> None:
    """Cross-layer equalisation with the same numbers for all graphs: their weights stay alike."""
    reach: dict[str, Array] = {}
    for part in parts:
        if not part.samples:
            continue
        for name, sizes in reach_of(part.graph, part.model, part.samples).items():
            reach[name] = np.maximum(reach[name], sizes) if name in reach else sizes
    for part in parts:
        equalise_by(part.graph, reach)


def _shapes(graph: Graph) -> str:
    return ", ".join(f"{name} {list(graph.values[name].shape)}" for name in graph.inputs)
