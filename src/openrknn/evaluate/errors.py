"""What can go wrong while a model is evaluated."""

from __future__ import annotations

from openrknn.errors import RknnError


class DatasetError(RknnError):
    """A dataset is not what it should be; the message names the file, the line where there is one, and what to do."""


class EvaluationError(RknnError):
    """The model and the dataset do not fit together, or a package is missing."""
