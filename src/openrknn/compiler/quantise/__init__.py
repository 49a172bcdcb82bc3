"""Stage 3, quantise: a scale and zero point for every value, from calibration data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.groups import spread_ranges
from openrknn.compiler.quantise.ranges import METHODS, Range, quantization_for
from openrknn.compiler.quantise.statistics import Statistics, collect

__all__ = ["quantise"]


def quantise(
    graph: Graph,
    model: Any,
    feeds: Iterable[Mapping[str, Array]],
    *,
    method: str = "minmax",
    progress: Callable[[int], None] | None = None,
) -> dict[str, Statistics]:
    """Give every value its quantization; what calibration saw of it is returned."""
    seen = collect(graph, model, feeds, progress)
    ranges: dict[str, Range] = {name: METHODS[method](entry) for name, entry in seen.items()}
    for name in graph.inputs:  # pictures use their whole range, always
        ranges[name] = seen[name].low, seen[name].high
    spread_ranges(graph, ranges)
    for name, (low, high) in ranges.items():
        graph.values[name].quantization = quantization_for(low, high)
    return seen
