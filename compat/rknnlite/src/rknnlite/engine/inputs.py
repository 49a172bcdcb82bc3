"""What `inference` may be given: checked with the vendor's rules, and put into the model's shapes and order.

The rules are those that the vendor's wheel 2.5.0 showed when it was tried, and so are the first words of the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeGuard

import numpy as np

from rknnlite.api.constants import rknn_input_data_format, rknn_input_data_type
from rknnlite.api.rknn_log import LOGGER
from rknnlite.engine.context import Context
from rknnlite.engine.outputs import Array
from rknnlite.engine.ports import FEATURE_RANK, InputPort

__all__ = ["check_inputs"]

_TYPES = {np.dtype(name): name for name in rknn_input_data_type}
_BOOL = np.dtype(np.bool_)
_PLAIN = frozenset(_TYPES) - {_BOOL}


def check_inputs(
    context: Context, inputs: object, data_type: object, data_format: object, pass_through: object
) -> tuple[list[Array], bool]:
    """The arrays as the context takes them, and whether they pass through. Chooses the shapes of a dynamic model."""
    if data_type is data_format is pass_through is None and _is_usual(inputs, context):
        return list(inputs), False
    if data_format == "nchw" and data_type is pass_through is None and _are_planes(inputs, context):
        return [port.reordered(array) for array, port in zip(inputs, context.ports.inputs, strict=True)], False
    arrays = _arrays(inputs)
    _check_types(arrays, data_type)
    count = len(context.ports.inputs)
    if len(arrays) != count:
        names = ", ".join(port.name for port in context.ports.inputs)
        raise ValueError(f"{len(arrays)} inputs were given; the model has {count}: {names}")
    formats = _formats(data_format, count)
    _warn_of_missing_batch(context, arrays)
    if _passes(pass_through, count):
        return [_native(array, port) for array, port in zip(arrays, context.ports.inputs, strict=True)], True
    ordered = [
        _ordered(array, port, wanted, index)
        for index, (array, port, wanted) in enumerate(zip(arrays, context.ports.inputs, formats, strict=True))
    ]
    if context.model.is_dynamic:
        given = tuple(array.shape for array in ordered)
        if given != context.ports.shapes or not context.has_chosen_shapes:
            context.choose_shapes(given)
        return ordered, False
    for index, port in enumerate(context.ports.inputs):
        if ordered[index].shape != port.shape:
            ordered[index] = _reshaped(ordered[index], port, index)
    return ordered, False


def _is_usual(inputs: object, context: Context) -> TypeGuard[list[Array]]:
    """Arrays that need nothing done: what a program gives a thousand times after it got it right once."""
    ports = context.ports.inputs
    return (
        type(inputs) is list
        and len(inputs) == len(ports)
        and (context.has_chosen_shapes or not context.model.is_dynamic)
        and all(
            type(array) is np.ndarray and array.shape == port.shape and array.dtype in _PLAIN and port.layout != "nchw"
            for array, port in zip(inputs, ports, strict=True)
        )
    )


def _are_planes(inputs: object, context: Context) -> TypeGuard[list[Array]]:
    """The same for pictures with the channels first."""
    ports = context.ports.inputs
    return (
        type(inputs) is list
        and len(inputs) == len(ports)
        and not context.model.is_dynamic
        and all(
            type(array) is np.ndarray and array.shape == port.planes and array.dtype in _PLAIN
            for array, port in zip(inputs, ports, strict=True)
        )
    )


def _arrays(inputs: object) -> list[Array]:
    if isinstance(inputs, np.ndarray):
        LOGGER.warning("Inputs should be placed in a list, like [img1, img2], both the img1 and img2 are ndarray.")
        return [inputs]
    if not isinstance(inputs, list):
        raise TypeError(f"inputs is a list of arrays, not {type(inputs).__name__}")
    if not inputs:
        raise ValueError("Inputs are invalid: the list is empty.")
    for index, array in enumerate(inputs):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"inputs[{index}] is an ndarray, not {type(array).__name__}")
    return inputs


def _check_types(arrays: Sequence[Array], data_type: object) -> None:
    wanted = data_type if isinstance(data_type, list) else [data_type] * len(arrays)
    if len(wanted) != len(arrays):
        raise ValueError("The lengths of data_type and inputs are not equal.")
    for index, (array, name) in enumerate(zip(arrays, wanted, strict=True)):
        found = _TYPES.get(array.dtype)
        if found is None:
            raise TypeError(f"Unsupport inputs[{index}].dtype: {array.dtype}; there are {', '.join(_TYPES.values())}")
        if name is None:
            continue
        if name not in rknn_input_data_type:
            raise ValueError(f"Unsupport data type: {name}; there are {', '.join(rknn_input_data_type)}")
        if name != found:
            raise TypeError(f"inputs[{index}].dtype: {found} is not same as data_type {name}; convert it with astype")


def _formats(data_format: object, count: int) -> list[str]:
    if data_format is None:
        return ["nhwc"] * count
    wanted: list[Any] = data_format if isinstance(data_format, list) else [data_format] * count
    if len(wanted) != count:
        raise ValueError("The lengths of data_format and inputs are not equal.")
    for name in wanted:
        if name not in rknn_input_data_format:
            raise ValueError(f"Unsupport data format: {name}; there are nhwc and nchw")
    return wanted


def _passes(pass_through: object, count: int) -> bool:
    if pass_through is None:
        return False
    if not isinstance(pass_through, list):
        raise TypeError(f"inputs_pass_through is a list of 0 and 1, not {pass_through!r}")
    if len(pass_through) != count:
        raise ValueError("The lengths of inputs_pass_through and inputs are not equal.")
    if any(pass_through) and not all(pass_through):
        raise ValueError("openrknn lets all inputs pass through or none; convert the others, or set them all to 0")
    return any(pass_through)


def _warn_of_missing_batch(context: Context, arrays: Sequence[Array]) -> None:
    """Once. Wheels up to 1.4.0 took a picture [H, W, C] for [1, H, W, C], and programs of that time rely on it; those
    from 1.5 on refuse it, as people found who went from the one to the other."""
    if context.has_warned_of_batch:
        return
    for index, (array, port) in enumerate(zip(arrays, context.ports.inputs, strict=True)):
        if array.ndim == len(port.shape) - 1 == FEATURE_RANK - 1 and port.shape[0] == 1:
            context.has_warned_of_batch = True
            LOGGER.warning(
                "inputs[%d] has 3 dimensions and is taken as one picture of a batch of 1; rknn-toolkit-lite2 from 1.5 "
                "on refuses it: give it as array[None]", index,
            )  # fmt: skip


def _ordered(array: Array, port: InputPort, wanted: str, index: int) -> Array:
    """A view in the order that the model needs."""
    rank = len(port.shape)
    if array.ndim == rank - 1 == FEATURE_RANK - 1 and port.shape[0] == 1:
        array = array[None]  # `check_inputs` has warned
    if array.ndim != rank:
        raise ValueError(
            f"The input[{index}] need {rank}dims input, but {array.ndim}dims input buffer feed. "
            f"({port.name!r} is {port.shape}{f', {port.layout}' if rank == FEATURE_RANK else ''}; "
            f"the array is {array.shape}.)"
        )
    if array.dtype == _BOOL:
        array = array.view(np.uint8)
    if rank != FEATURE_RANK or wanted == port.layout:
        return array
    return port.reordered(array)  # the vendor's wheel warns here, at each call


def _reshaped(array: Array, port: InputPort, index: int) -> Array:
    """The vendor's runtime only counts bytes: any shape with as many elements is read as if it were the right one."""
    if array.size != port.elements:
        sign = "<" if array.size < port.elements else ">"
        raise ValueError(
            f"inputs[{index}] has {array.shape}, and the model needs {port.shape} for {port.name!r}: "
            f"{array.size} elements {sign} {port.elements}"
        )
    LOGGER.warning(
        "inputs[%d] is %s, and the model needs %s (%s): its bytes are taken as they come. Is data_format right?",
        index, array.shape, port.shape, port.layout,
    )  # fmt: skip
    return np.ascontiguousarray(array).reshape(port.shape)


def _native(array: Array, port: InputPort) -> Array:
    """Bytes as they lie in device memory."""
    wanted = prod(port.native_shape) * port.dtype.itemsize
    if array.nbytes != wanted:
        raise ValueError(
            f"{port.name!r} passes through as {port.dtype} {port.native_shape}, {wanted} bytes; "
            f"{array.dtype} {array.shape} has {array.nbytes}"
        )
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.view(port.dtype).reshape(port.native_shape)
