"""Shapes: bound where the model leaves them open, inferred for everything between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.read import onnx_package

__all__ = ["bind_shapes", "cut_outputs", "infer", "known_shapes"]


def bind_shapes(model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give every input of the model a shape; an open batch dimension is 1."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    unknown = sorted(set(shapes) - {entry.name for entry in inputs})
    if unknown:
        names = ", ".join(entry.name for entry in inputs)
        raise ModelError(f"a shape was given for {unknown[0]!r}, which is no input of the model; there are: {names}")
    symbols: dict[str, int] = {}
    for entry in inputs:
        _bind(entry, shapes.get(entry.name), symbols)
    # Shapes of values that were computed for other inputs would only contradict.
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def _bind(entry: Any, given: Sequence[int] | None, symbols: dict[str, int]) -> None:
    kind = entry.type.tensor_type
    if not entry.type.HasField("tensor_type") or (not kind.HasField("shape") and given is None):
        raise ModelError(f"input {entry.name!r} has no shape; give one: --shapes {entry.name}=1,3,224,224")
    dims = kind.shape.dim
    if given is not None:
        if kind.HasField("shape") and len(given) != len(dims):
            raise ModelError(f"input {entry.name!r} has {len(dims)} dimensions, the given shape {list(given)} has not")
        if min(given, default=1) < 1:
            raise ModelError(f"the shape {list(given)} of input {entry.name!r} is not positive")
        fixed = [dim.dim_value for dim in dims]
        wrong = [at for at, (have, want) in enumerate(zip(fixed, given, strict=False)) if have and have != want]
        if wrong:
            raise ModelError(f"input {entry.name!r} is fixed to {_shown(dims)}; it cannot be {list(given)}")
        if not dims:
            for _ in given:
                dims.add()
        for dim, size in zip(dims, given, strict=True):
            if dim.dim_param:
                symbols.setdefault(dim.dim_param, size)
            dim.dim_value = size
        return
    for at, dim in enumerate(dims):
        if dim.dim_value < 1:
            size = symbols.get(dim.dim_param, 1 if at == 0 else 0)
            if not size:
                example = ",".join(str(entry.dim_value or {0: 1, 1: 3}.get(i, 640)) for i, entry in enumerate(dims))
                raise ModelError(
                    f"input {entry.name!r} has the open shape {_shown(dims)}; say what it is: "
                    f"--shapes {entry.name}={example}"
                )
            dim.dim_value = size


def _shown(dims: Any) -> str:
    return "[" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or "?" for dim in dims) + "]"


def cut_outputs(model: Any, names: Sequence[str]) -> None:
    """Make these values the outputs of the model."""
    onnx = onnx_package()
    made = {name for node in model.graph.node for name in node.output if name}
    for name in names:
        if name not in made:
            close = ", ".join(sorted(made)[:8])
            raise ModelError(f"output {name!r} is not computed by the model; it has: {close} ...")
    del model.graph.output[:]
    for name in names:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))


def infer(model: Any) -> Any:
    """The model with the shapes of all values that inference finds."""
    onnx = onnx_package()
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(f"the shapes of the model contradict each other: {str(error).splitlines()[0]}") from None


def known_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Every value whose shape is a list of positive numbers."""
    shapes = {}
    for entry in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            continue
        dims = tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim)
        if all(size > 0 for size in dims):
            shapes[entry.name] = dims
    return shapes
