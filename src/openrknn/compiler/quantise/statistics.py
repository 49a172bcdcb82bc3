"""What calibration remembers of each value: extremes, a sample of its numbers, and the mean of each channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph

__all__ = ["Sample", "Statistics", "collect"]

_SAMPLE = 4096
"""Numbers that are kept of each value and picture."""


class Sample(NamedTuple):
    """Some numbers of a value, the channels that they are from, and for how many numbers each of them stands."""

    values: Array
    channels: Array
    each: float


@dataclass(slots=True)
class Statistics:
    """Of one value, over all calibration data."""

    low: float = np.inf
    high: float = -np.inf
    samples: list[Sample] = field(default_factory=list)
    extremes: list[Sample] = field(default_factory=list)
    """Of each channel and input: what lies between the samples."""
    channel_sum: Array | None = None
    count: int = 0

    def add(self, values: Array) -> None:
        flat = np.asarray(values, np.float32).reshape(-1)
        channels = values.shape[1] if values.ndim > 1 else 1
        split = flat.reshape(values.shape[0] if values.ndim > 1 else 1, channels, -1)
        lows, highs = split.min(2).min(0), split.max(2).max(0)
        self.low = min(self.low, float(lows.min()))
        self.high = max(self.high, float(highs.max()))
        # Every n-th number: the same ones each time, so that the same data give the same file.
        step = max(1, flat.size // _SAMPLE)
        owners = np.arange(0, flat.size, step) // split.shape[2] % channels
        self.samples.append(Sample(flat[::step].copy(), owners, float(step)))
        if step > 1:  # else they are in it
            self.extremes.append(Sample(np.concatenate([lows, highs]), np.tile(np.arange(channels), 2), 1.0))
        if values.ndim > 1:
            means = split.mean((0, 2), dtype=np.float64)
            self.channel_sum = means if self.channel_sum is None else self.channel_sum + means
        self.count += 1

    def join(self, other: Statistics) -> None:
        """What was seen of the same value elsewhere: with other shapes of the input."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.samples += other.samples
        mine, others, self.channel_sum = self.channel_sum, other.channel_sum, None
        # Where the second axis depends on the shape of the input, it is none of channels.
        if mine is not None and others is not None and len(mine) == len(others):
            self.channel_sum = mine + others
        self.extremes += other.extremes
        self.count += other.count

    @property
    def sample(self) -> Array:
        return np.concatenate([part.values for part in self.samples])

    @property
    def channel_mean(self) -> Array | None:
        return None if self.channel_sum is None else self.channel_sum / self.count


def collect(
    graph: Graph, model: Any, feeds: Iterable[Mapping[str, Array]], progress: Callable[[int], None] | None = None
) -> dict[str, Statistics]:
    """Run the float model on every feed."""
    sources = dict.fromkeys(source for source, _ in graph.derived.values())
    runner = FloatModel(model, list(dict.fromkeys([*graph.values, *sources])))
    found: dict[str, Statistics] = {}
    number = 0
    for number, feed in enumerate(feeds, start=1):
        seen: dict[str, Array] = {}
        for name, values in runner.run(feed):
            if not np.isfinite(values).all():
                raise CalibrationError(f"the float model gives NaN or infinity in {name!r} on input {number}")
            seen[name] = values
        for name, (source, function) in graph.derived.items():
            if (name in graph.values or name in sources) and source in seen:
                seen[name] = function(seen[source])
        for name, values in seen.items():
            if name in graph.values:
                found.setdefault(name, Statistics()).add(values)
        if progress is not None:
            progress(number)
    if not number:
        raise CalibrationError("there is no calibration data; give pictures or arrays like those of real use")
    missing = [name for name in graph.values if name not in found and name not in graph.floats]
    if missing:
        raise CalibrationError(f"no calibration result for {missing[0]!r}")
    return found
