"""`openrknn compile --accuracy-drop --accuracy-data DATASET`: what a model loses is measured on labelled data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from openrknn.cli.common.output import CommandError

if TYPE_CHECKING:
    from openrknn.container.model import Model

__all__ = ["metric_for"]

_SAMPLES = 64
"""Of the dataset for each model that is tried: the software NPU is slow."""


def metric_for(arguments: argparse.Namespace) -> Callable[[Model | None], float] | None:
    """The share of the float model's accuracy that a model keeps; None: no labels were given."""
    if not arguments.accuracy_data:
        return None
    if not arguments.accuracy_drop:
        raise CommandError("--accuracy-data is what --accuracy-drop measures on: say how much may be lost, as 1%")
    if not str(arguments.model).lower().endswith(".onnx"):
        raise CommandError("--accuracy-data compares with the float model: it needs an ONNX file")
    from openrknn.evaluate import evaluate

    def metric(model: Model | None) -> float:
        if model is None:
            return 1.0
        report = evaluate(
            model, arguments.accuracy_data, float_model=arguments.model, limit=_SAMPLES, worst=0, device="software"
        )
        if report.relative_drop is None:
            raise CommandError(
                f"{arguments.accuracy_data}: the float model is right about nothing there, so nothing can be lost; "
                "are these the labels of this model?"
            )
        return 1.0 - report.relative_drop

    return metric
