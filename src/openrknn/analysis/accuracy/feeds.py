"""The inputs of the ONNX model: what the `.rknn` is fed with, normalised and in the order of its channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.analysis.accuracy.reference import Arrays, Reference
from openrknn.container.model import Model
from openrknn.container.parts import Normalization, Tensor
from openrknn.errors import ComparisonError
from openrknn.quantities import shape_text
from openrknn.runtime.io.arrange import arrange

Array = npt.NDArray[Any]


def feeds_for(model: Model, reference: Reference, arrays: Mapping[str, Array], layout: str | None) -> Arrays:
    """ONNX input name -> array. The `.rknn` subtracts the mean and divides by std itself; the ONNX model does not."""
    graph = model.graphs[0]
    tensors = [graph.tensors[index] for index in graph.inputs]
    if len(tensors) != len(reference.inputs):
        raise ComparisonError(
            f"the models do not belong together: {len(tensors)} inputs ({', '.join(t.name for t in tensors)}) "
            f"and {len(reference.inputs)} ({', '.join(reference.inputs)})"
        )
    names = {tensor.name: tensor.name for tensor in tensors}
    if not set(names) <= set(reference.inputs):
        names = {tensor.name: name for tensor, name in zip(tensors, reference.inputs, strict=True)}
    norms = graph.normalizations
    feeds = {}
    for number, tensor in enumerate(tensors):
        norm = norms[number] if number < len(norms) else None
        feeds[names[tensor.name]] = _real(arrays[tensor.name], tensor, norm, layout)
    return {name: _declared(reference, name, value) for name, value in feeds.items()}


def _real(array: Array, tensor: Tensor, norm: Normalization | None, layout: str | None) -> Array:
    """Numbers as the network itself sees them, in the shape of the tensor."""
    try:
        values = arrange(array, tensor, layout, picture=array.dtype == np.uint8)
    except ValueError as error:
        raise ComparisonError(str(error)) from error
    if array.dtype.kind in "iu" and array.dtype != np.uint8 and tensor.quantization is not None:
        scale = tensor.quantization
        values = ((values.astype(np.float32) - scale.zero_point[0]) * scale.scale[0]).astype(np.float32)
    elif norm is not None:
        values = _normalized(values.astype(np.float32), tensor, norm)
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2) if len(tensor.shape) == 4 else values)


def _normalized(values: Array, tensor: Tensor, norm: Normalization) -> Array:
    mean, std = np.array(norm.mean, np.float32), np.array(norm.std, np.float32)
    is_same = np.all(mean == mean[0]) and np.all(std == std[0])
    channels = 1 if is_same else tensor.shape[1]  # [N, H, W, C]: pictures only
    result: Array = (values - mean[:channels]) / std[:channels]
    return result


def _declared(reference: Reference, name: str, value: Array) -> Array:
    """In the type and, where it is fixed, the shape that the ONNX model declares."""
    from onnx import helper

    declared = next(item for item in reference.model.graph.input if item.name == name).type.tensor_type
    shape = [size.dim_value for size in declared.shape.dim]
    typed: Array = value.astype(helper.tensor_dtype_to_np_dtype(declared.elem_type))
    if not shape or not all(shape) or list(typed.shape) == shape:
        return typed
    if typed.size != int(np.prod(shape)):
        raise ComparisonError(
            f"the models do not belong together: input {name!r} is {shape_text(value.shape)} and {shape_text(shape)}"
        )
    return typed.reshape(shape)
