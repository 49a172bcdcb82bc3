"""Custom operators in the vendor's library: the same functions as on the software NPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.container.model import Model
from openrknn.container.parts import Placement
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.vendor.context.context import Context
from openrknn.vendor.context.custom import CustomOp, Operation, OperationTensor
from openrknn.vendor.tables.enums import QuantizationType

Attributes = Mapping[str, Any]


def registered(context: Context, model: Model, functions: Mapping[str, CustomOperator]) -> None:
    """Tell the library about the functions for operators that only they can compute."""
    operators = [operator for graph in model.graphs for operator in model.operators_of(graph)]
    own = {operator.type for operator in operators if operator.placement is Placement.CUSTOM}
    others = {operator.type for operator in operators} - own
    for name in functions:
        if name in others:
            raise UnsupportedError(
                f"custom_ops={{{name!r}: ...}}: the vendor's library has its own {name} and accepts no other; only "
                "operators that were added to the model (cst...) can be given"
            )
    missing = sorted(own - set(functions))
    if missing:
        raise UnsupportedError(
            f"the model has operators of its own, {', '.join(missing)}. Give a function: "
            f"Session(model, custom_ops={{{missing[0]!r}: lambda inputs, attributes: ...}})"
        )
    if not own:
        return
    made = []
    for name in sorted(own):
        known = [_attributes(operator) for operator in operators if operator.type == name]
        made.append(CustomOp(name, partial(_compute, functions[name], known)))
    context.register_custom_ops(made)


def _attributes(operator: Any) -> Attributes:
    parameters = operator.node.parameters
    return {**((parameters and parameters.values) or {}), **operator.attributes}


def _compute(function: CustomOperator, known: list[Attributes], call: Operation) -> None:
    arrays = [_decoded(tensor) for tensor in call.inputs]
    given = function(arrays, attributes_of_call(known, call.attribute))
    results = [given] if isinstance(given, np.ndarray) or np.isscalar(given) else list(given)
    if len(results) != len(call.outputs):
        raise ValueError(f"the operator has {len(call.outputs)} outputs, not {len(results)}")
    for tensor, values in zip(call.outputs, results, strict=True):
        _encode(tensor, np.asarray(values))


def attributes_of_call(known: list[Attributes], attribute: Callable[[str], Array]) -> Attributes:
    """Which of several operators of one type is called: the one whose attributes the library has, all of them.

    The library names no operator in the call. An operator with fewer attributes also fits the call of one that has
    the same and more, so the one with the most wins; what is still open is refused, because a function with another
    operator's attributes computes something else.
    """
    if all(one == known[0] for one in known):
        return known[0]
    fitting = [one for one in known if all(_has(attribute, name, value) for name, value in one.items())]
    most = max(map(len, fitting), default=0)
    best = [one for one in fitting if len(one) == most]
    if not best or any(one != best[0] for one in best):
        described = "; ".join(str(dict(one)) for one in known)
        raise UnsupportedError(
            f"the library does not say which of {len(known)} operators of one type is called; they differ in "
            f"{described}. Give them different types in the model, or run it on another device"
        )
    return best[0]


def _has(attribute: Callable[[str], Array], name: str, value: object) -> bool:
    """Whether the operator of the call has this attribute; the library keeps numbers in types of its own."""
    try:
        found = attribute(name)
    except KeyError:
        return False
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return found.tobytes().rstrip(b"\0") == text
    wanted = np.ravel(np.asarray(value))
    return wanted.dtype.kind in "biuf" and np.array_equal(wanted.astype(found.dtype), found)


def _decoded(tensor: OperationTensor) -> Array:
    stored, about = tensor.array, tensor.attributes
    if about.quantization is QuantizationType.AFFINE_ASYMMETRIC and stored.dtype.kind == "i":
        return numerics.dequantize_affine(stored, about.scale, about.zero_point)
    return stored.astype(np.float32)


def _encode(tensor: OperationTensor, values: Array) -> None:
    about, target = tensor.attributes, tensor.array
    if values.size != target.size:
        raise ValueError(
            f"the operator gave {list(values.shape)}, but its output {about.name!r} is {list(target.shape)}"
        )
    if about.quantization is QuantizationType.AFFINE_ASYMMETRIC and target.dtype.kind == "i":
        steps = np.asarray(values, np.float64) / about.scale + about.zero_point
        limits = np.iinfo(target.dtype)
        values = np.clip(numerics.round_to_integer(steps), limits.min, limits.max)
    target[...] = values.reshape(target.shape)
