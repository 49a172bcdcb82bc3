"""How many multiply-accumulates an operator needs, from its shapes alone."""

from __future__ import annotations

from openrknn.container.model import Operator
from openrknn.container.parts import Kind, Tensor

__all__ = ["macs"]

_CONSTANTS = frozenset({Kind.WEIGHT, Kind.COMPILER_CONSTANT})
_PRODUCTS = ("exMatMul", "MatMul", "Gemm")
_RECURRENT = ("LSTM", "exLSTM", "GRU", "exGRU", "Einsum")
_ATTENTION_INPUTS = 3


def macs(operator: Operator) -> int | None:
    """Multiply-accumulates of one run; 0 for operators that have none, None where the shapes do not tell."""
    if operator.type.startswith("Conv"):
        return _convolution(operator)
    if operator.type.startswith(_PRODUCTS):
        return _product(operator)
    if operator.type == "exSDPAttention":
        return _attention(operator)
    return None if operator.type.startswith(_RECURRENT) else 0


def _convolution(operator: Operator) -> int | None:
    """Every weight meets every output pixel once; in a transposed convolution, every input pixel.

    This holds for grouped and depth-wise ones too, because the weight shape is that of one group.
    """
    weights = next((tensor for tensor in operator.inputs[1:] if tensor.kind in _CONSTANTS), None)
    images = operator.inputs if operator.type.startswith("ConvTranspose") else operator.outputs
    if weights is None or not images or len(weights.shape) < 3:
        return None
    pixels = _pixels(images[0])
    return None if pixels is None else pixels * weights.elements


def _pixels(tensor: Tensor) -> int | None:
    if len(tensor.shape) < 2 or not tensor.shape[1]:
        return None
    return tensor.elements // tensor.shape[1]


def _product(operator: Operator) -> int | None:
    """Outputs times the length of each sum. The compiler's own product sums over dimension 1, ONNX over the last."""
    if not operator.inputs or not operator.outputs or len(operator.inputs[0].shape) < 2:
        return None
    return operator.outputs[0].elements * operator.inputs[0].shape[1 if operator.type.startswith("ex") else -1]


def _attention(operator: Operator) -> int | None:
    """Query times key, then scores times value; each tensor is [heads, depth, 1, tokens]."""
    shapes = [tensor.shape for tensor in operator.inputs[:_ATTENTION_INPUTS]]
    if len(shapes) < _ATTENTION_INPUTS or any(len(shape) != 4 for shape in shapes):
        return None
    query, key, value = shapes
    return query[0] * query[3] * key[3] * (key[1] + value[1])
