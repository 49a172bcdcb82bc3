"""Tensors in a program's memory: which bytes are which number of the model, in the layouts of the C API.

Types and formats are those of rknn_api.h. An input comes as the model's native memory (`pass_through`, or NC1HWC2), as
raw pixels, or as numbers that are converted; an output is the native memory or is converted. Native memory and pixels
need no copy: the NPU reads and writes the program's memory itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from openrknn.capi.call import CallError, Code
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.vendor.tables.enums import TensorFormat, TensorType

_DTYPES: dict[int, np.dtype[Any]] = {
    int(kind): np.dtype(text)
    for kind, text in {
        TensorType.FLOAT32: "float32", TensorType.FLOAT16: "float16", TensorType.INT8: "int8",
        TensorType.UINT8: "uint8", TensorType.INT16: "int16", TensorType.UINT16: "uint16", TensorType.INT32: "int32",
        TensorType.UINT32: "uint32", TensorType.INT64: "int64", TensorType.BOOL: "bool",
    }.items()
}  # fmt: skip
_IMAGE_RANK = 4


def dtype_of(kind: int, what: str, code: Code) -> np.dtype[Any]:
    """The NumPy type of an rknn_tensor_type."""
    found = _DTYPES.get(kind)
    if found is None:
        raise CallError(code, f"{what}: tensors of type {kind} cannot be converted; there are float32 (0) to bool (9)")
    return found


def row_pixels(stored: StoredTensor) -> int:
    """Pixels from one row of a picture to the next."""
    width = int(stored.native.shape[2])
    return width + (stored.padding.shape[2] if stored.padding is not None else 0)


def shape_in(stored: StoredTensor, form: int) -> tuple[int, ...]:
    """The shape of a tensor in a format; only tensors of four dimensions have an order."""
    shape = stored.tensor.shape
    if len(shape) == _IMAGE_RANK and form == TensorFormat.NHWC:
        return (shape[0], *shape[2:], shape[1])
    return shape


def input_view(port: InputPort, memory: Array, kind: int, form: int, *, padded: bool) -> tuple[Array, str | None]:
    """The numbers of an input in the program's memory (bytes), and the layout for `InputPort.feed`.

    `padded`: rows are as far apart as in the NPU's memory (`w_stride`), as bound pictures have them.
    """
    stored = port.stored
    dtype = dtype_of(kind, f"input {port.name!r}", Code.PARAM_INVALID)
    if form not in set(TensorFormat):
        raise CallError(Code.PARAM_INVALID, f"input {port.name!r}: there is no layout {form}; use NHWC or NCHW")
    if form == TensorFormat.NC1HWC2:
        raise CallError(Code.INPUT_INVALID, f"input {port.name!r}: NC1HWC2 needs pass_through = 1")
    if form not in {TensorFormat.NCHW, TensorFormat.NHWC}:
        form = TensorFormat.NHWC  # what inputs are unless somebody says otherwise
    shape = shape_in(stored, form)
    if len(shape) != _IMAGE_RANK:
        return _elements(memory, dtype, shape, port), None
    layout = "nhwc" if form == TensorFormat.NHWC else "nchw"
    if not padded or not stored.is_image or layout != "nhwc":
        return _elements(memory, dtype, shape, port), layout
    batches, height, width, channels = shape
    whole = _elements(memory, dtype, (batches, height, row_pixels(stored), channels), port)
    return whole[:, :, :width], layout


def _elements(memory: Array, dtype: np.dtype[Any], shape: tuple[int, ...], port: InputPort) -> Array:
    needed = math.prod(shape) * dtype.itemsize
    if memory.nbytes < needed:
        raise CallError(
            Code.PARAM_INVALID,
            f"input {port.name!r}: {list(shape)} of {dtype} take {needed} bytes, not {memory.nbytes}",
        )
    view: Array = memory[:needed].view(dtype).reshape(shape)
    return view.view(np.uint8) if dtype == np.bool_ else view
