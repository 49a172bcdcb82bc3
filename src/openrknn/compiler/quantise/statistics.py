"""What calibration remembers of each value: extremes, a sample of its numbers, and the mean of each channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.budget import LARGEST_MEASURED
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.threads import one_thread

_SAMPLE = 4096
"""Numbers that are kept of each value and input."""
_ROOM = 8 * _SAMPLE
"""Numbers that are kept of each value in all: with more inputs fewer of each, so that memory does not grow."""
_EXTREMES = 32
"""Channels whose smallest and largest numbers are kept of each input."""


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
    """Of each input, in the same order: the values between the samples."""
    channel_sum: Array | None = None
    count: int = 0

    def add(self, values: Array) -> None:
        flat = np.asarray(values, np.float32).reshape(-1)
        channels = values.shape[1] if values.ndim > 1 else 1
        split = flat.reshape(values.shape[0] if values.ndim > 1 else 1, channels, -1)
        lows, highs = split.min(2).min(0), split.max(2).max(0)
        self.low = float(np.minimum(self.low, lows.min()))  # NaN stays NaN
        self.high = float(np.maximum(self.high, highs.max()))
        # Every n-th number: the same ones each time, so that the same data give the same file.
        step = max(1, flat.size // self._room)
        owners = np.arange(0, flat.size, step) // split.shape[2] % channels
        self.samples.append(Sample(flat[::step].copy(), owners.astype(np.int32), float(step)))
        self.extremes.append(_ends(lows, highs))
        self._thin()
        if values.ndim > 1:
            means = split.mean(2).mean(0, dtype=np.float64)
            self.channel_sum = means if self.channel_sum is None else self.channel_sum + means
        self.count += 1

    @property
    def _room(self) -> int:
        """Numbers that are kept of one input."""
        return max(64, min(_SAMPLE, _ROOM // (1 << max(0, len(self.samples)).bit_length())))

    def _thin(self) -> None:
        """Each time that the number of inputs doubles, every second number goes."""
        room = 2 * self._room
        if len(self.samples[0].values) > room:
            self.samples = [
                Sample(part.values[::2].copy(), part.channels[::2].copy(), 2 * part.each) if len(part.values) > room
                else part for part in self.samples
            ]  # fmt: skip

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


def names_for(graph: Graph) -> list[str]:
    """What the float model is asked for: all values, and what others are derived from."""
    return list(
        dict.fromkeys([*graph.values, *(source for source, _ in graph.derived.values()), *graph.partial.values()])
    )


def derive(graph: Graph, seen: dict[str, Array]) -> None:
    """Add the values that ONNX does not have."""
    sources = {source for source, _ in graph.derived.values()}
    for name, (source, function) in graph.derived.items():
        if (name in graph.values or name in sources) and source in seen:
            values = function(seen[source])
            addend = seen.get(graph.addends.get(name, ""))
            if addend is not None and addend.size == values.size:
                values = values + addend.reshape(values.shape)
            seen[name] = values


def _ends(lows: Array, highs: Array) -> Sample:
    """The smallest and the largest numbers of the channels that reach furthest."""
    first, last = np.argsort(lows, kind="stable")[:_EXTREMES], np.argsort(-highs, kind="stable")[:_EXTREMES]
    owners = np.concatenate([first, last]).astype(np.int32)
    return Sample(np.concatenate([lows[first], highs[last]]), owners, 1.0)


def collect(
    graph: Graph, model: Any, feeds: Iterable[Mapping[str, Array]], progress: Callable[[int], None] | None = None
) -> dict[str, Statistics]:
    """Run the float model on every feed."""
    for name, value in graph.values.items():
        if prod(value.shape) > LARGEST_MEASURED:
            raise CalibrationError(
                f"{name!r} has the shape {list(value.shape)}: too large to measure its range. Choose smaller input "
                "shapes, or compile in fp16",
                operators=[name],
            )
    runner = FloatModel(model, names_for(graph))
    found: dict[str, Statistics] = {}
    wholes = set(graph.partial.values())
    number = 0
    for number, feed in enumerate(feeds, start=1):
        seen: dict[str, Array] = {}
        seen.update(runner.run(feed))
        with one_thread():
            derive(graph, seen)
        for name in list(seen):
            values = seen.pop(name)
            if name in graph.values or name in wholes:
                statistics = found.setdefault(name, Statistics())
                statistics.add(values)
                if not (np.isfinite(statistics.low) and np.isfinite(statistics.high)):
                    raise CalibrationError(f"the float model gives NaN or infinity in {name!r} on input {number}")
        if progress is not None:
            progress(number)
    if not number:
        raise CalibrationError("there is no calibration data; give pictures or arrays like those of real use")
    for name in [name for name in graph.values if name not in found and name not in graph.floats]:
        source = graph.derived[name][0] if name in graph.derived else name
        whole = graph.partial.get(source, "")
        if whole in found:  # a sum on the way to a value that was seen
            found[name] = found[whole]
    missing = [name for name in graph.values if name not in found and name not in graph.floats]
    if missing:
        raise CalibrationError(f"no calibration result for {missing[0]!r}")
    return {name: entry for name, entry in found.items() if name in graph.values}
