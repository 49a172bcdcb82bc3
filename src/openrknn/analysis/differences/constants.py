"""Weights and other constants: how many differ, and by how much, in steps and as real numbers.

Weights are compared in the order of the ONNX model, so that files for different chips and with different types can be
compared: what a layout moves around does not count as a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.analysis.differences.difference import Difference, Section, Value
from openrknn.analysis.weights.arrays import bias_array, constant_array, real_bias, weight_array
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader, WeightUse
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind, Layout, Quantization, Tensor
from openrknn.errors import UnsupportedError

Array = npt.NDArray[Any]
_CONVERTER_PRECISION = 2e-4
"""Scales are worked out from 15-bit converters: other activations alone change their last digits."""
_COMPARED = {Kind.WEIGHT, Kind.CPU_CONSTANT, Kind.COMPILER_CONSTANT}


def compare_constants(first: Model, one: Graph, second: Model, other: Graph) -> Iterator[Difference]:
    """A difference for every constant of the same name with another content."""
    ones, others = _Constants(first, one), _Constants(second, other)
    names = {tensor.name: tensor for tensor in other.tensors if tensor.name}
    for before in one.tensors:
        after = names.get(before.name)
        if after is None or before.kind not in _COMPARED or after.kind not in _COMPARED:
            continue
        if not before.data or not after.data:
            if bool(before.data) != bool(after.data):
                where = "first" if before.data else "second"
                words = f"the data are only in the {where}"
                yield Difference(
                    Section.WEIGHTS, f"{before.name!r}", "data", bool(before.data), bool(after.data), words
                )
            continue
        same_bytes = np.array_equal(np.frombuffer(before.data, np.uint8), np.frombuffer(after.data, np.uint8))
        # Equal bytes can still mean different numbers: the scale is elsewhere.
        if not same_bytes or before.index in ones.uses or after.index in others.uses:
            found = _difference(ones.content(before), others.content(after), same_bytes=same_bytes)
            if found is not None:
                yield Difference(Section.WEIGHTS, f"{before.name!r}", *found)


@dataclass(frozen=True, slots=True)
class _Content:
    stored: Array | None
    real: Array | None
    quantization: Quantization | None
    problem: str = ""


class _Constants:
    """The constants of one graph as arrays."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self._reader = WeightReader(model, graph)
        self.uses: dict[int, tuple[Operator, WeightUse]] = {}
        self._biases: dict[int, tuple[Operator, WeightUse]] = {}
        for operator in model.operators_of(graph):
            use = self._reader.use(operator)
            if use is not None:
                self.uses.setdefault(use.tensor.index, (operator, use))
                if use.operands is not None:
                    self._biases.setdefault(use.operands.index, (operator, use))

    def content(self, tensor: Tensor) -> _Content:
        try:
            if tensor.index in self._biases:
                return self._bias(*self._biases[tensor.index])
            if tensor.index in self.uses:
                return self._weight(*self.uses[tensor.index])
            if tensor.layout is Layout.O1I1HWI2O2:
                stored = weight_array(self._reader, tensor)
            else:
                stored = constant_array(self._reader.model, tensor)
        except UnsupportedError as problem:
            return _Content(None, None, None, str(problem))
        return _Content(stored, stored if stored.dtype.kind == "f" else None, None)

    def _weight(self, operator: Operator, use: WeightUse) -> _Content:
        stored = weight_array(self._reader, use.tensor, use)
        quantization = self._quantization(operator, use)
        if quantization is None:
            return _Content(stored, stored if stored.dtype.kind == "f" else None, None)
        scale, zero = quantization.scale, quantization.zero_point
        return _Content(stored, numerics.dequantize(stored, scale, zero, axis=quantization.axis), quantization)

    def _bias(self, operator: Operator, use: WeightUse) -> _Content:
        stored = bias_array(self._reader, use)
        quantization = self._quantization(operator, use)
        if stored is None:
            return _Content(None, None, None, "it holds no bias")
        if quantization is None:
            return _Content(stored, stored if stored.dtype.kind == "f" else None, None)
        weights = weight_array(self._reader, use.tensor, use)
        return _Content(stored, real_bias(self._reader, operator, use, weights, quantization), None)

    def _quantization(self, operator: Operator, use: WeightUse) -> Quantization | None:
        try:
            return quantization_of(self._reader, operator, use)
        except UnsupportedError:
            return None


def _difference(before: _Content, after: _Content, *, same_bytes: bool) -> tuple[str, Value, Value, str] | None:
    if before.stored is None or after.stored is None:
        if same_bytes:
            return None
        return "bytes", None, None, f"the bytes differ; not decoded: {before.problem or after.problem}"
    if before.stored.shape != after.stored.shape:
        words = f"{list(before.stored.shape)} elements against {list(after.stored.shape)}"
        return "elements", list(before.stored.shape), list(after.stored.shape), words
    if not before.stored.size:
        return None
    facts: dict[str, Value] = {}
    parts = []
    if before.stored.dtype == after.stored.dtype:
        if np.array_equal(before.stored, after.stored) and _same_scales(before.quantization, after.quantization):
            return None
        parts.append(_steps(before.stored, after.stored, facts))
    else:
        parts.append(f"{before.stored.dtype} against {after.stored.dtype}")
    is_plain = before.stored.dtype == after.stored.dtype and before.real is before.stored
    if before.real is not None and after.real is not None and not is_plain:
        parts.append(_reals(before.real, after.real, facts))
    return "values", None, facts, "; ".join(part for part in parts if part)


def _same_scales(before: Quantization | None, after: Quantization | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.zero_point == after.zero_point and all(
        isclose(one, other, rel_tol=_CONVERTER_PRECISION) for one, other in zip(before.scale, after.scale, strict=True)
    )


def _distance(before: Array, after: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):  # infinities may meet: a file can hold anything
        return np.abs(before.astype(np.float64) - after.astype(np.float64))


def _steps(before: Array, after: Array, facts: dict[str, Value]) -> str:
    differs = before != after
    count = int(np.count_nonzero(differs))
    if not count:
        return "the same numbers with other scales or zero points"
    distance = _distance(before, after)[differs]
    facts.update(differing=count, elements=before.size, largest=_number(distance.max()), mean=_number(distance.mean()))
    unit = " steps" if before.dtype.kind in "iu" else ""
    return (
        f"{count} of {before.size} differ ({100 * count / before.size:.3g} %), "
        f"by at most {distance.max():.6g}{unit}, {distance.mean():.3g} on average"
    )


def _reals(before: Array, after: Array, facts: dict[str, Value]) -> str:
    distance = _distance(before, after)
    largest = max(float(np.abs(before).max()), float(np.abs(after).max()))
    facts.update(real_largest=_number(distance.max()), real_mean=_number(distance.mean()), real_range=_number(largest))
    return (
        f"as real numbers by at most {distance.max():.3g}, {distance.mean():.3g} on average (they reach {largest:.3g})"
    )


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
