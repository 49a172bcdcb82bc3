"""An ONNX model as the source of what is expected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.analysis.accuracy.feeds import feeds_for
from openrknn.analysis.accuracy.reference import Reference
from openrknn.check.errors import CannotCheckError
from openrknn.check.subject import Subject
from openrknn.check.tolerance import Tolerance
from openrknn.distance import EQUAL_DB, measure

Array: TypeAlias = npt.NDArray[Any]

_ROOM_DB = 3.0
"""A model that is built again, with other calibration pictures say, may lose so much more."""


class OnnxReference:
    """The network that a `.rknn` was made from."""

    def __init__(self, subject: Subject, path: str) -> None:
        model = subject.model
        if model is None:
            raise CannotCheckError(f"{subject.path}: only a single .rknn can be recorded from an ONNX model")
        self._model, self._path = model, path
        try:
            self._reference = Reference.load(path)
        except OSError as error:
            raise CannotCheckError(f"{path}: {error.strerror or error}") from None

    def run(self, arrays: Mapping[str, Array], layout: str | None) -> dict[str, Array]:
        """By the names of the `.rknn`'s outputs; where the two name them differently, by their order."""
        source = self._reference
        names = [spec.name for spec in self._model.outputs]
        wanted = names if set(names) <= source.tensors else list(source.outputs)
        if len(wanted) != len(names):
            counts = f"{len(wanted)} outputs, the model {len(names)}"
            raise CannotCheckError(f"{self._path}: has {counts}: not the same network")
        found = source.run(feeds_for(self._model, source, arrays, layout), wanted)
        return {name: np.asarray(found[other]) for name, other in zip(names, wanted, strict=True)}


def limits_for(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> tuple[Tolerance, str]:
    """How far a good model is from its reference, with some room; and that in words."""
    distances = []
    for name, values in wanted.items():
        if found[name].size != values.size:
            raise CannotCheckError(f"output {name!r} has another size in the ONNX model: not the same network")
        distances.append(measure(found[name], values))
    snr = min(distance.snr_db for distance in distances)
    cosine = min((distance.cosine for distance in distances if distance.cosine is not None), default=None)
    if snr >= EQUAL_DB:
        return Tolerance(steps=1), "the model computes the same as the reference"
    kept = None if cosine is None else max(0.0, math.floor((1 - 2 * (1 - cosine)) * 1e4) / 1e4)
    shown = "" if cosine is None else f", cosine {cosine:.5f}"
    limit = Tolerance(snr_db=max(0.0, round(snr - _ROOM_DB, 1)), cosine=kept)
    return limit, f"measured against the reference: {snr:.1f} dB{shown}"
