"""The accuracy of a model on a labelled dataset, with its float version beside it.

    from openrknn.evaluate import evaluate

    report = evaluate("yolo.rknn", "coco/", float_model="yolo.onnx")
    print(report.value, report.drop)

run         evaluate: sample by sample;   report: Report
datasets    COCO, YOLO, class folders, masks, text, speech, JSON lines;   truth: what is expected
models      what can be evaluated;   onnx_model: the float model;   settings: thresholds of an evaluation
tasks       how a sample is judged;   names: classes of the model and of the dataset
metrics     average precision, top-k, error rates ...;   drawing: the worst samples
errors      what can go wrong
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.evaluate.errors import DatasetError, EvaluationError
from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.evaluate.datasets import open_dataset
    from openrknn.evaluate.metrics.names import METRICS, Metric
    from openrknn.evaluate.models import ModelOptions
    from openrknn.evaluate.report import Report, Side, Worst
    from openrknn.evaluate.run import evaluate
    from openrknn.evaluate.truth import Dataset, Sample

__all__ = [
    "METRICS", "Dataset", "DatasetError", "EvaluationError", "Metric", "ModelOptions", "Report", "Sample", "Side",
    "Worst", "evaluate", "open_dataset",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "datasets": "open_dataset",
        "metrics.names": "METRICS Metric",
        "models": "ModelOptions",
        "report": "Report Side Worst",
        "run": "evaluate",
        "truth": "Dataset Sample",
    },
)
