"""The weights that the file really holds, as real numbers for the reference: what is left is arithmetic.

The compiler sometimes sets the weights of an unused channel to 0. Such channels are pruned:
they are left out of the comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.analysis.weights.arrays import real_bias, weight_array
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import Form, WeightReader, WeightUse
from openrknn.container.model import Model, Operator
from openrknn.errors import UnsupportedError

Array = npt.NDArray[Any]
_SAME = 0.98
"""Correlation of stored and original weights from which on they are the same weights, quantised."""


@dataclass
class FileWeights:
    """What could be read."""

    values: dict[str, Array] = field(default_factory=dict)
    """Name of the constant in the ONNX model -> the numbers in the file."""
    pruned: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Output tensor -> channels whose weights the compiler removed."""
    unknown: list[str] = field(default_factory=list)
    """Weights of the file that are none of the ONNX model's: split, merged or made by the compiler."""


def read_weights(model: Model, originals: Mapping[str, Array]) -> FileWeights:
    """The weights and biases of every operator whose weights have a counterpart of the same name and size."""
    found = FileWeights()
    graph = model.graphs[0]
    reader = WeightReader(model, graph)
    for operator in model.operators_of(graph):
        use = reader.use(operator)
        if use is None:
            continue
        try:
            _add(found, reader, operator, use, originals)
        except UnsupportedError:
            found.unknown.append(use.tensor.name)
    return found


def _add(
    found: FileWeights, reader: WeightReader, operator: Operator, use: WeightUse, originals: Mapping[str, Array]
) -> None:
    stored = weight_array(reader, use.tensor, use)
    quantization = quantization_of(reader, operator, use)
    real = stored.astype(np.float32)
    if quantization is not None:
        real = numerics.dequantize(stored, quantization.scale, quantization.zero_point, axis=quantization.axis)
    original = originals.get(use.tensor.name)
    if original is None or original.size != real.size:
        found.unknown.append(use.tensor.name)
        return
    shaped = real.reshape(original.shape)
    removed = _removed(shaped, original, use)
    if not _same(shaped, original, removed, use.axis):
        found.unknown.append(use.tensor.name)
        return
    found.values[use.tensor.name] = shaped
    if removed.any() and operator.outputs:
        found.pruned[operator.outputs[0].name] = tuple(np.flatnonzero(removed).tolist())
    if quantization is not None and use.operands is not None and use.operands.name in originals:
        bias = real_bias(reader, operator, use, stored, quantization)
        if bias is not None and bias.size == originals[use.operands.name].size:
            found.values[use.operands.name] = bias.reshape(originals[use.operands.name].shape)


def _removed(real: Array, original: Array, use: WeightUse) -> npt.NDArray[np.bool_]:
    """Channels that are 0 here and not there."""
    if use.form is Form.TRANSPOSED or original.shape[use.axis] != use.channels:
        return np.zeros(use.channels, np.bool_)
    ours, theirs = (np.moveaxis(array, use.axis, 0).reshape(use.channels, -1) for array in (real, original))
    return np.asarray(~ours.any(axis=1) & theirs.any(axis=1))


def _same(real: Array, original: Array, removed: npt.NDArray[np.bool_], axis: int) -> bool:
    ours, theirs = real, original
    if removed.any():
        kept = np.flatnonzero(~removed)
        ours, theirs = np.take(real, kept, axis), np.take(original, kept, axis)
    product = float(np.linalg.norm(ours)) * float(np.linalg.norm(theirs))
    return not product or float(np.vdot(ours, theirs)) / product > _SAME
