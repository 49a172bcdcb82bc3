"""Inputs that are always the same (attention masks, sample rates, `use_cache`) become constants of the model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.budget import LARGEST_CONSTANT
from openrknn.compiler.errors import OptionError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.shapes import model_inputs, set_size
from openrknn.compiler.ir import Array
from openrknn.errors import FormatError
from openrknn.numpyfiles import read_npy

_LARGEST = LARGEST_CONSTANT
"""Elements of one constant."""
_WRITTEN_OUT = 1 << 16
"""Elements up to which one number is repeated in the model; larger ones stay one number and an Expand."""


def read_constant(value: Any) -> Array:
    """A number, a truth, a list of them, an array, or the path of a `.npy` file as an array."""
    if isinstance(value, str | os.PathLike):
        return _read_file(os.fsdecode(value))
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise OptionError(f"a constant is a number, a list of numbers or an array, not {value!r}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise OptionError(f"a constant is a number, a list of numbers or an array, not {value!r}")
    return array


def _read_file(path: str) -> Array:
    try:
        array = read_npy(path)
    except (OSError, FormatError) as error:
        raise OptionError(f"{path!r} is not a .npy file of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise OptionError(f"{path!r} is not a .npy file of numbers; save one with numpy.save")
    return array


def fix_inputs(model: Any, constants: Mapping[str, Any], shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """Change the model in place: these inputs become constants, in the type and shape that the model declares.

    A single number takes the shape of the input: `shapes`, else the declared one; sizes that are open and have a name
    are those of another input that has the same (so a model may stay open). An array gives open sizes their value, in
    all inputs.
    """
    inputs = {entry.name: entry for entry in model.graph.input}
    for name in constants:
        if name not in inputs:
            raise OptionError(f"a constant was given for {name!r}, which is not an input; {_listed(model)}")
    arrays = {name: _typed(model, inputs[name], read_constant(value)) for name, value in constants.items()}
    given = shapes or {}
    bound = {dim.dim_param for name in given if name in inputs and name not in arrays
             for dim in inputs[name].type.tensor_type.shape.dim}  # fmt: skip
    for name, array in arrays.items():
        _join_sizes(model, inputs[name], array, given.get(name), bound)
    default = [tensor for tensor in model.graph.initializer if tensor.name in arrays]
    for tensor in default:  # the model has a value of its own for it
        model.graph.initializer.remove(tensor)
    for name in arrays:
        model.graph.input.remove(inputs[name])
    for name, array in arrays.items():
        _place(model, inputs[name], array)
    if constants:
        model.ir_version = max(model.ir_version, 4)  # before it constants had to be inputs as well


def _typed(model: Any, entry: Any, array: Array) -> Array:
    """In the type of the input, if that has these numbers."""
    onnx = onnx_package()
    kind = entry.type.tensor_type.elem_type
    if not entry.type.HasField("tensor_type") or kind in {onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING}:
        raise OptionError(f"input {entry.name!r} is no tensor of numbers, and cannot be a constant; {_listed(model)}")
    wanted = onnx.helper.tensor_dtype_to_np_dtype(kind)
    with np.errstate(all="ignore"):
        made: Array = array.astype(wanted)
        is_float = wanted.kind not in "biu"
        back = made.astype(np.float64) if is_float else made.astype(array.dtype)
    fits = bool((np.isfinite(back) >= np.isfinite(array)).all()) if is_float else bool((back == array).all())
    if not fits or (wanted.kind == "u" and bool((array < 0).any())):
        label = onnx.TensorProto.DataType.Name(kind).lower()
        shown = array.reshape(-1)[:4].tolist() if array.ndim else array.item()
        raise OptionError(f"input {entry.name!r} is {label}, which does not have {shown}; {_listed(model)}")
    return made


def _join_sizes(model: Any, entry: Any, array: Array, given: Sequence[int] | None, bound: set[str]) -> None:
    """The sizes that an array or a given shape has, for all inputs whose sizes have the same names.

    Names in `bound` are said by other inputs: exporters give one name to the samples of a mask and the steps of states.
    """
    kind = entry.type.tensor_type
    sizes = tuple(array.shape) if array.ndim else tuple(int(size) for size in given or ())
    if not kind.HasField("shape"):
        for _ in sizes:
            kind.shape.dim.add()
    dims = kind.shape.dim
    if not sizes:
        return
    short = len(dims) - len(sizes)
    ones = short >= 0 and all(dim.dim_value in {0, 1} for dim in dims[: max(short, 0)])
    sizes = (1,) * max(short, 0) + sizes
    fits = ones and all(dim.dim_value in {0, size} for dim, size in zip(dims, sizes, strict=True))
    if not fits or (given is not None and array.ndim and tuple(given) != sizes) or 0 in sizes or prod(sizes) > _LARGEST:
        have = list(array.shape) if array.ndim else list(sizes)
        raise OptionError(
            f"the constant for {entry.name!r} has the shape {have}, the input {_shape_text(entry)}; {_listed(model)}"
        )
    symbols = {dim.dim_param: size for dim, size in zip(dims, sizes, strict=True)
               if dim.dim_param not in {"", "?", *bound}}  # fmt: skip
    for axis, size in enumerate(sizes):
        set_size(entry, axis, size)
    for other in model.graph.input:
        for axis, dim in enumerate(other.type.tensor_type.shape.dim):
            if dim.dim_param in symbols:
                set_size(other, axis, symbols[dim.dim_param])


def _place(model: Any, entry: Any, array: Array) -> None:
    """The constant, and for open sizes what makes it as large as other inputs are."""
    onnx = onnx_package()
    dims = entry.type.tensor_type.shape.dim
    if array.ndim or not dims:
        shape = [dim.dim_value for dim in dims]
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.reshape(shape), entry.name))
        return
    sources = [_source(model, dim, axis) for axis, dim in enumerate(dims)]
    if any(source is None for source in sources):
        example = ",".join(str(dim.dim_value or 1) for dim in dims)
        raise OptionError(
            f"input {entry.name!r} has the open shape {_shape_text(entry)}, so one number does not say how many there "
            f"are: give its shape too (--shapes {entry.name}={example}), or an array; {_listed(model)}"
        )
    whole = [source for source in sources if isinstance(source, int)]
    if len(whole) == len(sources):
        if prod(whole) > _LARGEST:
            raise OptionError(f"the constant for {entry.name!r} would have the shape {whole}; {_listed(model)}")
        if prod(whole) <= _WRITTEN_OUT:
            full = np.broadcast_to(array, whole)
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(full, order="C"), entry.name))
            return
    _expand(model, entry.name, array, sources)


def _source(model: Any, dim: Any, axis: int) -> int | tuple[str, int] | None:
    """A size: the number, or (input, axis) that has it."""
    if dim.dim_value > 0:
        return int(dim.dim_value)
    if dim.dim_param not in {"", "?"}:
        for other in model_inputs(model):
            for place, entry in enumerate(other.type.tensor_type.shape.dim):
                if entry.dim_param == dim.dim_param:
                    return other.name, place
    return 1 if axis == 0 else None


def _expand(model: Any, name: str, array: Array, sources: Sequence[Any]) -> None:
    """An Expand in front of the model's operators."""
    onnx = onnx_package()
    nodes, parts = [], []

    def constant(suffix: str, values: Array) -> str:
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, f"{name}_fixed_{suffix}"))
        return f"{name}_fixed_{suffix}"

    for axis, source in enumerate(sources):
        if isinstance(source, int):
            parts.append(constant(f"size_{axis}", np.array([source], np.int64)))
            continue
        other, place = source
        sizes, part = f"{name}_fixed_shape_{axis}", f"{name}_fixed_part_{axis}"
        index = constant(f"axis_{axis}", np.array([place], np.int64))
        nodes += [
            onnx.helper.make_node("Shape", [other], [sizes]),
            onnx.helper.make_node("Gather", [sizes, index], [part], axis=0),
        ]
        parts.append(part)
    value = constant("value", array)
    nodes += [
        onnx.helper.make_node("Concat", parts, [f"{name}_fixed_sizes"], axis=0),
        onnx.helper.make_node("Expand", [value, f"{name}_fixed_sizes"], [name], name=f"{name}_fixed"),
    ]
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])


def _listed(model: Any) -> str:
    """The inputs with type and shape."""
    names = onnx_package().TensorProto.DataType
    shown = [
        f"{entry.name} ({names.Name(entry.type.tensor_type.elem_type).lower()} {_shape_text(entry)})"
        for entry in model_inputs(model)
    ]
    return f"the model has the inputs {', '.join(shown)}"


def _shape_text(entry: Any) -> str:
    dims = entry.type.tensor_type.shape.dim
    return "[" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or "?" for dim in dims) + "]"
