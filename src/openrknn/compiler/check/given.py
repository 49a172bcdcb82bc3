"""The model as it was given against the model that the importer made of it: both are ONNX, and both are run in float.

Everything after the importer is compared with the imported model (`boundaries`), so a mistake of a rewrite would be in
both sides of that comparison. Here the given model is run by itself.

Sums in another order, or a threshold that they cross, are no mistakes: how far the given model moves when its inputs
change by a few units of float32's last place says what they cost. Where ONNX Runtime and ONNX's reference evaluator
differ, the imported model has to agree with one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from openrknn.compiler.errors import CalibrationError, CompileError
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.importer.shapes import model_inputs
from openrknn.compiler.ir import Array
from openrknn.compiler.result import Variant
from openrknn.compiler.trials import grouped
from openrknn.distance import EQUAL_DB, Distance, measure

_SAME_DB = 60.0
"""Float arithmetic in another order keeps more, unless the model is sensitive."""
_STEPS_DB = 30.0
"""Of a quantised model: sums that are half a step are common there, and another order rounds them the other way."""
_NUDGE = 2.0**-20
"""Of an input: a few units in the last place of float32."""
_SENSITIVE_DB = 10.0
"""A rewrite may cost so much more than nudged inputs do: it changes every value of the model, not the inputs alone."""

_PIXELS = 50
"""Of a deviation of 1: most of 0 to 255."""


class Departure(NamedTuple):
    """An output, and how far the import is from what was given."""

    output: str
    distance: Distance


class GivenModel:
    """The model as it was given, ready to be run on the inputs of the imported one."""

    def __init__(self, variant: Variant) -> None:
        """Raises a `CompileError` where it cannot be run in float."""
        if variant.given is None:
            raise CalibrationError("it was not kept")
        self._model = variant.given()
        self._batch = variant.batch
        outputs = [entry.name for entry in variant.source.graph.output]
        shared = {entry.name for entry in self._model.graph.output}.intersection(outputs)
        self._names = [name for name in outputs if name in shared]
        is_quantised = any("Quantize" in node.op_type or "QLinear" in node.op_type for node in self._model.graph.node)
        self._least = _STEPS_DB if is_quantised else _SAME_DB
        self._imported = FloatModel(variant.source, self._names)
        self._given = FloatModel(self._model, self._names)
        types = onnx_package().helper.tensor_dtype_to_np_dtype
        self._types = {entry.name: types(entry.type.tensor_type.elem_type) for entry in model_inputs(self._model)}

    def departures(self, feed: Mapping[str, Array]) -> tuple[float, list[Departure]]:
        """The decibels of the worst output, and what departs beyond what the model's sensitivity explains."""
        # Numbers that both take: the importer makes float of pixels and of half-precision inputs.
        feed = {name: _typed(values, self._types[name]).astype(values.dtype) for name, values in feed.items()}
        items = [{name: np.roll(values, item, axis=-1) if values.ndim else values for name, values in feed.items()}
                 for item in range(self._batch)]  # fmt: skip
        found = next(grouped([dict(self._imported.run(item)) for item in items], self._batch))
        joined = next(grouped(items, self._batch))
        wanted = self._run(self._given, joined)
        distances = _distances(found, wanted)
        far = [entry for entry in distances if entry.distance.snr_db < self._least]
        if far:
            nudged = self._run(self._given, {name: _nudged(values) for name, values in joined.items()})
            far = [entry for entry in far if not _explains(nudged[entry.output], wanted[entry.output], entry.distance)]
        if far:
            try:
                second = self._run(FloatModel(self._model, self._names, is_reference=True), joined)
                both = {name for name, distance in _distances(found, second) if distance.snr_db < self._least}
                far = [entry for entry in far if entry.output in both]
            except CompileError:  # it has fewer operators than ONNX Runtime
                pass
        return min((entry.distance.snr_db for entry in distances), default=EQUAL_DB), far

    def _run(self, model: FloatModel, feed: Mapping[str, Array]) -> dict[str, Array]:
        typed = {name: _typed(feed[name], kind) for name, kind in self._types.items() if name in feed}
        return {name: values for name, values in model.run(typed) if name in self._names}


def _distances(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> list[Departure]:
    """Of every output; one with another number of elements is as far as can be."""
    lost = {name: np.full(values.size, np.nan) for name, values in wanted.items() if found[name].size != values.size}
    return [Departure(name, measure(lost.get(name, found[name]), values)) for name, values in wanted.items()]


def _explains(nudged: Array, wanted: Array, distance: Distance) -> bool:
    return distance.snr_db >= measure(nudged, wanted).snr_db - _SENSITIVE_DB


def _typed(values: Array, kind: np.dtype[Any]) -> Array:
    """In the type of the given input; noise becomes pixels where that has whole numbers only."""
    if kind.kind == "b":
        return values.astype(bool)
    if kind.kind not in "iu":
        return values.astype(kind)
    limits = np.iinfo(kind)
    is_whole = bool(((values == np.rint(values)) & (values >= limits.min) & (values <= limits.max)).all())
    whole = values if is_whole else np.clip(np.rint(np.abs(values) * _PIXELS), limits.min, min(limits.max, 255))
    return whole.astype(kind)


def _nudged(values: Array) -> Array:
    if values.dtype.kind != "f":
        return values
    signs = np.random.default_rng(0).integers(0, 2, values.shape) * 2 - 1
    nudged: Array = (values * (1 + _NUDGE * signs)).astype(values.dtype)
    return nudged
