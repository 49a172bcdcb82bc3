"""The short way for pictures: pixels are copied to where the NPU reads them, and nothing is asked a second time.

A program that runs a camera calls `inference` with the same kind of array each time. `Session.run` takes anything, and
looks at what it got; here that has been done once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn import Session
from rknnlite.engine.outputs import Array

__all__ = ["PixelPath"]

_PIXEL = np.dtype(np.uint8)


class PixelPath:
    """For models all of whose inputs are pictures; for others it takes nothing."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._views: list[Array] = []
        self._outputs: list[Array] = []
        if session.model.batch_size > 1:
            return
        bound = session.bind()
        if all(name in bound.pixels for name in bound.inputs):
            self._views, self._outputs = list(bound.inputs.values()), list(bound.outputs.values())
            self._execute = bound.run

    def takes(self, values: Sequence[Array]) -> bool:
        """Whether these are such pictures, in the model's own shape."""
        views = self._views
        if len(values) != len(views) or not views:
            return False
        return all(
            value.dtype == _PIXEL and value.shape == view.shape for value, view in zip(values, views, strict=True)
        )

    def run(self, values: Sequence[Array]) -> list[Array]:
        """The outputs as they lie in memory; always the same arrays."""
        for view, value in zip(self._views, values, strict=True):
            view[...] = value
        self._execute()
        return self._outputs
