"""What ONNX's own checker and shape inference let pass, and what would be compiled to nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from openrknn.compiler.budget import LARGEST_VALUE, MOST_CHANNELS
from openrknn.compiler.errors import ModelError, UnsupportedOperatorError
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.operators import VIEWS

_FLOATS = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}
_INTEGER = {"INT64", "INT32", "BOOL"}
"""Of truths and indices, on the CPU."""
_POSITIVE = ("strides", "dilations", "kernel_shape")


def check_sizes(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Before anything is done with them that takes time or memory."""
    for name, shape in shapes.items():
        if len(shape) > 1 and shape[1] > MOST_CHANNELS:
            raise ModelError(
                f"{name!r} has the shape {list(shape)}: more than {MOST_CHANNELS} channels. Export the model for "
                "smaller sizes",
                operators=[name],
            )
        if _stored(shape) > LARGEST_VALUE:
            raise ModelError(
                f"{name!r} has the shape {list(shape)}: more than the 4 GB that the NPU can address. Bind the inputs "
                "to smaller shapes (--shapes), or export the model for them",
                operators=[name],
            )


def _stored(shape: tuple[int, ...]) -> int:
    """Elements with those that fill up the channels of a picture: the NPU stores 8 halves at once."""
    return prod((*shape[:1], -(-shape[1] // 8) * 8, *shape[2:])) // 2 if len(shape) == 4 else prod(shape)


def check_graph(graph: Graph, types: Any) -> None:
    """`types` is ONNX's enumeration of number types."""
    for op in graph.ops:
        for key in _POSITIVE:
            given = op.attributes.get(key)
            if isinstance(given, list) and any(not isinstance(size, int) or size < 1 for size in given):
                raise ModelError(f"{op.type} {op.name!r} has {key} {given}; they must be positive; export it again",
                                 operators=(op.name, op.output))
        if op.type in {"Conv", "ConvTranspose"}:
            _convolution(graph, op)
        elif op.type == "Gemm":
            _gemm(graph, op)
        elif op.type == "BatchNormalization":
            _batch_norm(graph, op)
        elif op.type in VIEWS:
            _reshape(graph, op)
        elif op.type == "Cast":
            _cast(graph, op, types)
        elif op.type == "Transpose" and sorted(op.attributes.get("perm") or []) not in ([], _axes(graph, op)):
            perm = op.attributes["perm"]
            raise ModelError(f"Transpose {op.name!r}: perm {perm} is not a permutation of {_axes(graph, op)}",
                             operators=(op.name, op.output))


def _axes(graph: Graph, op: Op) -> list[int]:
    return list(range(len(graph.shape(op.inputs[0]))))


def _convolution(graph: Graph, op: Op) -> None:
    shape, group = graph.shape(op.inputs[0]), int(op.attributes.get("group", 1))
    weight = graph.constants.get(op.inputs[1])
    if weight is None or weight.ndim < 3:
        return
    wanted = weight.shape[0] if op.type == "ConvTranspose" else weight.shape[1] * group
    is_split = group >= 1 and not (weight.shape[0] % group)
    if len(shape) != weight.ndim or shape[1] != wanted or not is_split or not weight.size:
        raise ModelError(
            f"{op.type} {op.name!r}: weights {list(weight.shape)} in {group} groups do not fit an input of the shape "
            f"{list(shape)}; export the model again",
            operators=(op.name, op.output),
        )
    kernel = [int(size) for size in op.attributes.get("kernel_shape") or weight.shape[2:]]
    if kernel != list(weight.shape[2:]):
        raise ModelError(
            f"{op.type} {op.name!r}: kernel_shape {kernel}, and weights {list(weight.shape)}; export the model again",
            operators=(op.name, op.output),
        )
    bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 else None
    outputs = weight.shape[1] * group if op.type == "ConvTranspose" else weight.shape[0]
    if bias is not None and bias.shape != (outputs,):
        raise ModelError(
            f"{op.type} {op.name!r}: a bias of shape {list(bias.shape)} for {outputs} outputs; export the model again",
            operators=(op.name, op.output),
        )


def _gemm(graph: Graph, op: Op) -> None:
    weight, shape = graph.constants.get(op.inputs[1]), graph.shape(op.inputs[0])
    if weight is None:
        return
    is_turned = bool(op.attributes.get("transB"))
    inner = shape[0 if op.attributes.get("transA") else -1] if len(shape) == 2 else -1
    bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    if weight.ndim != 2 or not weight.size or inner != weight.shape[int(is_turned)]:
        raise ModelError(
            f"Gemm {op.name!r}: weights {list(weight.shape)} do not fit an input of the shape {list(shape)}; export "
            "the model again",
            operators=(op.name, op.output),
        )
    outputs = weight.shape[1 - int(is_turned)]
    sizes = (1, 1, *bias.shape)[-2:] if bias is not None else (1, 1)
    if bias is not None and (bias.ndim > 2 or sizes[0] not in {1, shape[0]} or sizes[1] not in {1, outputs}):
        raise ModelError(
            f"Gemm {op.name!r}: a bias of shape {list(bias.shape)} for {outputs} outputs; export the model again",
            operators=(op.name, op.output),
        )


def _batch_norm(graph: Graph, op: Op) -> None:
    shape = graph.shape(op.inputs[0])
    for name in op.inputs[1:5]:
        array = graph.constants.get(name)
        if array is not None and (len(shape) < 2 or array.shape != (shape[1],)):
            raise ModelError(
                f"{op.type} {op.name!r}: {name!r} has the shape {list(array.shape)}, not one number per channel of its "
                f"input {list(shape)}; export the model again",
                operators=(op.name, op.output),
            )


def _reshape(graph: Graph, op: Op) -> None:
    before, after = graph.shape(op.inputs[0]), graph.shape(op.output)
    if prod(before) != prod(after):
        raise ModelError(
            f"{op.type} {op.name!r} makes {list(after)} of {list(before)}, a different number of elements; the "
            "model was exported for other shapes than it is compiled for",
            operators=(op.name, op.output),
        )


def _cast(graph: Graph, op: Op, types: Any) -> None:
    """Casts between floats are free, those to and from indices the CPU's; narrow integers would have to wrap."""
    target = types.Name(int(op.attributes["to"]))
    if target in _FLOATS | _INTEGER:
        return
    raise UnsupportedOperatorError(
        f"Cast {op.name!r} makes {target.lower()} numbers of an activation; there are floats, int32, int64 and bool "
        f"only. Cut the model before it (--outputs {op.inputs[0]}) and do the rest in your program",
        operators=(op.name, op.output),
    )
