"""The own error of every operator: each is given the float graph's numbers, rounded as the file stores them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STEPS, MORE_STEPS, RANGE = 2.01, 0.5, 1.5e-3
"""What rounding and arithmetic explain: steps of int8, and half a step for each further operator between; three units
of fp16, as a part of the range."""


@dataclass(frozen=True, slots=True)
class Own:
    """One tensor that file and source share, with what lies between it and those before it."""

    operator: int
    op_type: str
    """Of the operator of the file that makes it."""
    nodes: tuple[Any, ...]
    """The operators of the source between."""
    is_int8: bool
    error: float
    """The largest one: in steps of an int8, or as a part of the range."""
    wrong: float
    """The share of int8 elements that are off by more than one step."""

    def has(self, *types: str) -> bool:
        """Whether one of these operators of the source lies between."""
        return any(node.op_type in types for node in self.nodes)

    @property
    def is_large(self) -> bool:
        """Beyond what rounding and arithmetic explain; NaN is."""
        return not self.error <= (STEPS + MORE_STEPS * (len(self.nodes) - 1) if self.is_int8 else RANGE)


def own_errors(model: Any, source: Path, feeds: dict[str, Array]) -> list[Own]:
    """Every tensor that the file and its source share, in the order of the file."""
    from onnx import numpy_helper

    from openrknn.analysis.accuracy.measure import Bench
    from openrknn.analysis.accuracy.reference import Reference
    from openrknn.analysis.accuracy.weights import read_weights
    from openrknn.runtime.inspector import Inspector

    reference = Reference.load(str(source))
    weights = read_weights(model, {name: numpy_helper.to_array(item) for name, item in reference.constants.items()})
    with Inspector(model, "software") as inspector:
        bench = Bench(inspector, reference, weights, feeds)
        return [_own(layer, bench) for layer in bench.isolated(quantized=True)]


def _own(layer: Any, bench: Any) -> Own:
    quantization = bench.matched[layer.tensor].quantization
    is_int8 = layer.dtype == "int8"
    unit = quantization.scale[0] if is_int8 else layer.metrics.reference_max or 1.0
    error = np.nan if layer.metrics.overflowed else layer.metrics.max_error / unit
    wrong = 1 - layer.metrics.within_one if layer.metrics.within_one is not None else 0.0
    return Own(layer.operator, layer.op_type, _between(layer, bench.reference), is_int8, float(error), float(wrong))


def _between(layer: Any, reference: Any) -> tuple[Any, ...]:
    found, waiting, seen = [], [layer.tensor], set()
    while waiting:
        node = reference.producers.get(waiting.pop())
        if node is None or node.output[0] in seen:
            continue
        seen.add(node.output[0])
        found.append(node)
        waiting += [name for name in node.input if name not in layer.sources]
    return tuple(found)
