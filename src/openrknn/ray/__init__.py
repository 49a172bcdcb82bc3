"""Many items over many NPUs, with Ray.

    import openrknn.ray

    report = openrknn.ray.run("pictures/", "scene.rknn", "answers/", workers=4)
    print(report.items, report.errors, report.to_pandas())

`run` is a job that survives: every item is in the table exactly once, however often workers or the driver were killed.
`predict` and `Predictor` are for datasets of Ray Data.

    job         run: rounds over what is missing           ledger      the job's folder: parts, each there as a whole
    items       pictures, sound, arrays, by key            work        what a worker does: items to rows
    pool        Ray's actors; one worker without Ray       answers     columns;  table: Parquet, CSV, JSON lines
    predictor   Predictor, predict                         report      how it went;  progress: a bar;  errors

Needs the extra `ray`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.ray.errors import (
        BusyJobError,
        ChangedJobError,
        ClusterError,
        IncompleteJobError,
        ItemsError,
        JobError,
        TooManyErrorsError,
    )
    from openrknn.ray.job import run
    from openrknn.ray.predictor import Predictor, predict
    from openrknn.ray.report import Report

__all__ = [
    "BusyJobError", "ChangedJobError", "ClusterError", "IncompleteJobError", "ItemsError", "JobError", "Predictor",
    "Report", "TooManyErrorsError", "predict", "run",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "errors": "BusyJobError ChangedJobError ClusterError IncompleteJobError ItemsError JobError TooManyErrorsError",
        "job": "run",
        "predictor": "Predictor predict",
        "report": "Report",
    },
)
