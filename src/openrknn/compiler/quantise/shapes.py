"""Calibration of several shapes together: what is seen of a value counts for all graphs that have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.calibration import Feeds
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.equalise import equalise_by, reach_of
from openrknn.compiler.quantise.statistics import Statistics, collect

__all__ = ["Shaped", "calibrate", "equalise_together"]


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
    _check(parts, found)
    return found


def _tell(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _check(parts: Sequence[Shaped], found: Mapping[str, Statistics]) -> None:
    wanted = "; ".join(_shapes(part.graph) for part in parts)
    unused = set(range(1, len(parts[0].feeds) + 1)).difference(*(part.feeds.used for part in parts))
    if unused:
        raise CalibrationError(f"calibration input {min(unused)} fits none of the shapes; there are {wanted}")
    for part in parts:
        missing = [name for name in part.graph.values if name not in found and name not in part.graph.floats]
        if missing:
            raise CalibrationError(
                f"no calibration data have the shapes {_shapes(part.graph)}, and {missing[0]!r} is computed for these "
                "only; give some arrays of these shapes too"
            )


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
