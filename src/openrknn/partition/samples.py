"""int8: what reaches each part when the whole model runs on the calibration data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrknn.compiler.calibration import Preprocess, feeds_for
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.ir import Value as GraphValue
from openrknn.partition.options import PartitionOptions
from openrknn.partition.view import Value, View

_MOST = 64
"""Calibration inputs that are used: their values are all kept."""


class Samples:
    """Values by name, one array for each calibration input."""

    def __init__(self, view: View, options: PartitionOptions) -> None:
        graph = Graph(name="whole", inputs=list(view.inputs), outputs=list(view.outputs))
        for name in (*view.inputs, *view.outputs):
            graph.values[name] = GraphValue(name, view.values.get(name, Value()).shape or (1,))
        pixels = options.compile
        preprocess = Preprocess.of(
            graph, pixels.get("mean"), pixels.get("std"), pixels.get("order", "rgb"), pixels.get("fit", "auto")
        )
        feeds = feeds_for(options.calibration, graph, preprocess)
        self._feeds = [_typed(view, feed) for _, feed in zip(range(_MOST), feeds, strict=False)]
        self._model = view.model
        self._known: dict[str, list[Array]] = {
            name: [feed[name] for feed in self._feeds] for name in view.inputs
        }  # fmt: skip

    def of(self, names: Sequence[str]) -> list[dict[str, Array]]:
        """For each calibration input the values of these names."""
        lost = [name for name in names if name not in self._known]
        if lost:
            model: Any = FloatModel(self._model, lost)
            for feed in self._feeds:
                for name, value in model.run(feed):
                    if name in lost:
                        self._known.setdefault(name, []).append(value)
        return [{name: self._known[name][number] for name in names} for number in range(len(self._feeds))]


_INTEGERS = {6: "int32", 7: "int64", 9: "bool", 2: "uint8", 3: "int8"}


def _typed(view: View, feed: dict[str, Array]) -> dict[str, Array]:
    """As the model takes them: pictures come as floats."""
    kinds = {name: _INTEGERS.get(view.values[name].kind, "float32") for name in feed}
    return {name: value.astype(kinds[name]) for name, value in feed.items()}
