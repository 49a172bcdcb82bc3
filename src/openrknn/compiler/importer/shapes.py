"""Shapes: bound where the model leaves them open, inferred for everything between."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.operators import ORDERED_MOVES
from openrknn.onnxgraph import makers_of

_LARGE = 1 << 14
_PICTURE_RANK = 4
_PICTURE_CHANNELS = (1, 3, 4)
"""Elements."""


def model_inputs(model: Any) -> list[Any]:
    """What has to be fed: constants may be listed as inputs too."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [entry for entry in model.graph.input if entry.name not in constants]


def set_size(entry: Any, axis: int, size: int) -> None:
    """One dimension of an input."""
    entry.type.tensor_type.shape.dim[axis].dim_value = size


def picture_shape(model: Any, size: tuple[int, int] | None) -> dict[str, tuple[int, ...]]:
    """The shape of the one picture that a model takes, where height and width are open and the file says which."""
    inputs = model_inputs(model)
    if size is None or len(inputs) != 1 or not inputs[0].type.HasField("tensor_type"):
        return {}
    dims = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]
    if len(dims) != _PICTURE_RANK or dims[1] not in _PICTURE_CHANNELS or all(dims[2:]):
        return {}
    return {inputs[0].name: (dims[0] or 1, dims[1], dims[2] or size[0], dims[3] or size[1])}


def bind_shapes(model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give every input of the model a shape; an open batch dimension is 1."""
    inputs = model_inputs(model)
    unknown = sorted(set(shapes) - {entry.name for entry in inputs})
    if unknown:
        names = ", ".join(entry.name for entry in inputs)
        raise ModelError(f"a shape was given for {unknown[0]!r}, which is not an input; the model has: {names}")
    symbols: dict[str, int] = {}
    for entry in inputs:
        if entry.name in shapes:
            _bind(entry, shapes[entry.name], symbols)
    open_ones = [entry for entry in inputs if entry.name not in shapes and not _close(entry, symbols)]
    if open_ones:
        raise ModelError(_ask(open_ones))
    # Shapes of values that were computed for other inputs would only contradict.
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def _bind(entry: Any, given: Sequence[int], symbols: dict[str, int]) -> None:
    kind = entry.type.tensor_type
    dims = kind.shape.dim
    if not entry.type.HasField("tensor_type"):
        raise ModelError(f"input {entry.name!r} is not a tensor; only tensors are supported")
    if kind.HasField("shape") and len(given) != len(dims):
        raise ModelError(f"input {entry.name!r} has {len(dims)} dimensions, the given shape {list(given)} {len(given)}")
    if min(given, default=1) < 1:
        raise ModelError(f"the shape {list(given)} of input {entry.name!r} is not positive")
    fixed = [dim.dim_value for dim in dims]
    if any(have > 0 and have != want for have, want in zip(fixed, given, strict=False)):
        raise ModelError(
            f"input {entry.name!r} is fixed to {_shown(dims)}; it cannot be {list(given)}. Export the model with "
            "dynamic axes"
        )
    if not dims:
        for _ in given:
            dims.add()
    for dim, size in zip(dims, given, strict=True):
        if dim.dim_param in {"", "?"}:  # Paddle's name for any size
            dim.dim_value = size
            continue
        if symbols.setdefault(dim.dim_param, size) != size:
            symbols[dim.dim_param] = 0  # some exporters call every open size "?"
        dim.dim_value = size


def _close(entry: Any, symbols: Mapping[str, int]) -> bool:
    """Fill in what other inputs say and the batch; whether nothing is left open."""
    kind = entry.type.tensor_type
    if not entry.type.HasField("tensor_type") or not kind.HasField("shape"):
        return False
    for at, dim in enumerate(kind.shape.dim):
        if dim.dim_value < 1:
            size = symbols.get(dim.dim_param, 1 if at == 0 else 0)
            if not size:
                return False
            dim.dim_value = size
    return True


def _ask(entries: Sequence[Any]) -> str:
    """What is open, and what to write."""
    shown, options, words = [], [], []
    for entry in entries:
        dims = entry.type.tensor_type.shape.dim
        shown.append(f"input {entry.name!r} has {f'the open shape {_shown(dims)}' if len(dims) else 'no shape'}")
        sizes = [dim.dim_value if dim.dim_value > 0 else _likely(at, len(dims)) for at, dim in enumerate(dims)]
        example = ",".join(map(str, sizes or (1, 3, 224, 224)))
        options.append(f"--shapes {shlex.quote(f'{entry.name}={example}')}")
        words.append(f"{entry.name!r}: ({example.replace(',', ', ')})")
    return (
        f"{', '.join(shown)}; say what it is, for example: openrknn compile MODEL.onnx {' '.join(options)} "
        f"(in Python: shapes={{{', '.join(words)}}})"
    )


def _likely(axis: int, rank: int) -> int:
    """A size that a reader takes for an example: pictures have 3 channels and many pixels."""
    return 1 if axis == 0 else 3 if rank == 4 and axis == 1 else 640 if rank == 4 else 128


def _shown(dims: Any) -> str:
    return "[" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or "?" for dim in dims) + "]"


HEADS = "heads"
"""Instead of names: the last convolutions."""


def cut_outputs(model: Any, names: Sequence[str]) -> None:
    """Make these values the outputs of the model."""
    onnx = onnx_package()
    made = {name for node in model.graph.node for name in node.output if name}
    if list(names) == [HEADS] and HEADS not in made:
        names = _heads(model)
    for name in names:
        if name not in made:
            close = ", ".join(sorted(made)[:8])
            raise ModelError(f"output {name!r} is not computed by the model; it has: {close} ...")
    del model.graph.output[:]
    for name in names:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))


def _heads(model: Any) -> list[str]:
    """The results of the last layers with weights: what detectors decode into boxes comes after them."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = makers_of(model.graph.node)
    waiting = [entry.name for entry in model.graph.output]
    seen: set[str] = set()
    found = set()
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        weight = weights.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type in {"Conv", "ConvTranspose", "Gemm"} and not _is_expectation(weight):
            found.add(name)
        else:
            waiting.extend(node.input)
    if not found:
        raise ModelError(f"--outputs {HEADS}: there is no convolution in the model; name the outputs")
    return [name for node in model.graph.node for name in node.output if name in found]


def find_scores(model: Any) -> tuple[set[str], set[str]]:
    """(scores, logits): values that reach an output without arithmetic from a Sigmoid, and what that Sigmoid reads."""
    makers = makers_of(model.graph.node)

    def behind(names: Iterable[str]) -> set[str]:
        """These values, and what they are moved from."""
        waiting, found = list(names), set()
        while waiting:
            name = waiting.pop()
            if name not in found and name in makers:
                found.add(name)
                waiting += makers[name].input if makers[name].op_type in ORDERED_MOVES else ()
        return found

    ends: set[str] = set()
    for entry in model.graph.output:  # boxes beside the scores are none
        found = behind([entry.name])
        if any(makers[name].op_type == "Sigmoid" for name in found):
            ends |= found
    return ends, behind(makers[name].input[0] for name in ends if makers[name].op_type == "Sigmoid")


def _is_expectation(weight: Any) -> bool:
    """0, 1, 2 ... as the weights of one output: the mean of a distribution (YOLOv8's boxes), not learned."""
    if weight is None or not weight.dims or weight.dims[0] != 1 or len(weight.dims) < 2:
        return False
    values = onnx_package().numpy_helper.to_array(weight).reshape(-1)
    return values.size > 1 and bool((values == range(values.size)).all())


def infer(model: Any) -> Any:
    """The model with the shapes of all values that inference finds."""
    onnx = onnx_package()
    waiting = detach(model)
    try:
        found = onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(f"the shapes of the model contradict each other: {str(error).splitlines()[0]}") from None
    attach(found, waiting)
    return found


def detach(model: Any) -> dict[str, bytes]:
    """Take the numbers of large constants out: inference copies the model twice, and no shape depends on them."""
    waiting = {}
    for tensor in model.graph.initializer:
        if prod(tensor.dims) > _LARGE and tensor.HasField("raw_data"):
            waiting[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return waiting


def attach(model: Any, waiting: Mapping[str, bytes]) -> None:
    """Put them back."""
    for tensor in model.graph.initializer:
        if tensor.name in waiting:
            tensor.raw_data = waiting[tensor.name]


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


_INTEGER = ("INT64", "INT32", "BOOL")


def integer_values(model: Any) -> dict[str, str]:
    """Values that are truths or indices, with their type; narrower integers belong to quantised models."""
    types = onnx_package().TensorProto.DataType
    names = {types.Value(name): name.lower() for name in _INTEGER}
    entries = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    found = ((entry.name, entry.type.tensor_type.elem_type) for entry in entries if entry.type.HasField("tensor_type"))
    return {name: names[kind] for name, kind in found if kind in names}
