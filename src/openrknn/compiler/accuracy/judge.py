"""The loss of compiled models on calibration data: float runs once, every model runs on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openrknn.compiler.accuracy.outputs import OutputLoss, losses_of
from openrknn.compiler.calibration import Preprocess
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.mixed import Judge
from openrknn.compiler.trials import choose_shapes, run_items
from openrknn.container.model import Model
from openrknn.runtime.session import Session

Metric = Callable[[Model | None], float]
"""The user's own measure, larger is better: of a compiled model, and of the float model where there is none."""


class LossJudge(Judge):
    """The largest loss of an output, or that of the user's metric. As a `Judge`, negative: more is better."""

    def __init__(
        self, source: Any, graph: Graph, feeds: Sequence[Mapping[str, Array]], preprocess: Preprocess,
        metric: Metric | None = None,
    ) -> None:  # fmt: skip
        if not feeds:
            raise CalibrationError("accuracy_drop is measured on calibration data: give pictures or arrays")
        self.source, self.feeds, self._graph, self._metric = source, list(feeds), graph, metric
        self._raw = [{name: preprocess.undo(name, array) for name, array in feed.items()} for feed in feeds]
        runner = FloatModel(source, list(graph.outputs))
        runs = [dict(runner.run(feed)) for feed in feeds]
        floats = [name for name in graph.outputs if runs[0][name].dtype.kind == "f"]  # indices are what floats decide
        self._right = {name: [run[name] for run in runs] for name in floats or graph.outputs}
        self._best = metric(None) if metric is not None else 0.0
        self.last: list[OutputLoss] = []
        """Of the model that was measured last."""

    def losses(self, model: Model, items: int = 1, number: int = 0) -> list[OutputLoss]:
        """Of each output; `number` is the graph of a model with several shapes."""
        with Session(model, "software") as session:
            choose_shapes(session, number)
            runs = run_items(session, self._raw, items)
        found = {name: [run[name] for run in runs] for name in self._right}
        return losses_of(self.source, self._graph, found, self._right)

    def loss(self, model: Model, items: int = 1, number: int = 0) -> tuple[float, list[OutputLoss]]:
        """(what counts, each output's)."""
        each = self.losses(model, items, number)
        if self._metric is None:
            return max(entry.loss for entry in each), each
        found = self._metric(model)
        return max(0.0, (self._best - found) / self._best if self._best > 0 else self._best - found), each

    def __call__(self, model: Model) -> float:
        value, each = self.loss(model)
        self.last = each
        return -value

