"""The pipeline that the options describe."""

from __future__ import annotations

import argparse

from openrknn.cli.common.files import load_model
from openrknn.cli.common.labels import find_labels, read_labels
from openrknn.cli.common.output import CommandError
from openrknn.vision.pipeline import Pipeline

__all__ = ["open_pipeline"]


def open_pipeline(path: str, arguments: argparse.Namespace, task: str | None) -> Pipeline:
    """The model in `path` with its decoder; without --labels, names from a file beside the model."""
    model = load_model(path)
    labels = read_labels(arguments.labels, None).names if arguments.labels else None
    chosen = ("threshold", "overlap", "fit", "order")
    try:
        pipeline = Pipeline(
            model,
            task=task,
            family=arguments.family,
            labels=labels,
            device=arguments.device,
            cores=arguments.cores,
            workers=arguments.workers,
            **{name: getattr(arguments, name) for name in chosen if hasattr(arguments, name)},
        )
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
    if labels is not None and pipeline.classes > 1 and len(labels) != pipeline.classes:
        pipeline.close()
        raise CommandError(
            f"{arguments.labels}: {len(labels)} lines for {pipeline.classes} classes; give one class name per line"
        )
    # What the user put beside the model counts more than what training wrote into it.
    beside = find_labels(path, [(1, pipeline.classes)]) if labels is None and pipeline.classes > 1 else None
    if beside is not None:
        pipeline.labels = beside.names
    return pipeline
