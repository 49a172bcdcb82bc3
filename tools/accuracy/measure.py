"""One model on the software NPU, for inputs of one size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.distance import measure
from openrknn.runtime.session import Session
from tools.accuracy.models import Case, build

__all__ = ["SIZES", "Runner"]

Array = npt.NDArray[Any]
SIZES = (0.003, 0.01, 0.1, 1.0, 10.0, 100.0, 300.0)
LARGEST, SMALLEST = 60000.0, 2.0**-14
"""Of fp16's normal numbers."""
_PICTURE = 100.0


class Runner:
    """A compiled case. The reference is ONNX Runtime in float on the numbers of fp16 that the NPU gets."""

    def __init__(self, case: Case, chip: str) -> None:
        self.case = case
        self.model = build(case)
        self.compiled = compile_model(self.model, chip, check=False)
        self._output = self.model.graph.output[0].name
        self._float = FloatModel(self.model, [self._output])

    @property
    def tasks(self) -> int:
        """Of one core."""
        return sum(len(step.tasks) for step in self.compiled.lowering.program.steps)

    def decibels(self, x: Array) -> float | None:
        """Signal to noise; None where fp16 has no normal number for a typical result."""
        x = x.astype(np.float16).astype(np.float32)
        wanted = np.asarray(dict(self._float.run({"x": x}))[self._output], np.float64)
        typical = float(np.sqrt(np.mean(np.square(wanted))))
        if np.abs(wanted).max() > LARGEST or typical < SMALLEST:
            return None
        with Session(self.compiled.model, "software") as session:
            (found,) = session.run(x, layout="nchw" if x.ndim == 4 else None).values()
        return measure(np.asarray(found, np.float64).reshape(wanted.shape), wanted).snr_db

    def of_size(self, size: float, seed: int = 1) -> float | None:
        """Normal numbers with this deviation."""
        if size > self.case.largest:
            return None
        return self.decibels(np.random.default_rng(seed).normal(self.case.shift, size, self.case.shape))

    def of_pictures(self, seed: int = 1) -> float | None:
        """Whole numbers from 0 to 255."""
        if self.case.largest < _PICTURE:
            return None
        return self.decibels(np.random.default_rng(seed).integers(0, 256, self.case.shape).astype(np.float32))
