"""What the library takes as input and gives as output: types, layouts and sizes.

The library says yes to many things that it then does wrong. Seen with runtime 1.5.2: an input of a type or layout that
it cannot convert is logged and ignored, and the call returns 0; an output of a type other than the model's own or
float32 is written as float32, past the end of a buffer of the right size; an output without a layout that is bound as
NCHW overwrites the heap. So only what was seen to work is let through, and the rest raises here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.vendor.context.answers import TensorAttributes
from openrknn.vendor.tables.enums import TensorFormat, TensorType
from openrknn.vendor.tables.versions import Version

_BY_DTYPE = {
    np.dtype(text): kind
    for text, kind in {
        "float32": TensorType.FLOAT32, "float16": TensorType.FLOAT16, "int8": TensorType.INT8,
        "uint8": TensorType.UINT8, "int16": TensorType.INT16, "uint16": TensorType.UINT16, "int32": TensorType.INT32,
        "uint32": TensorType.UINT32, "int64": TensorType.INT64, "bool": TensorType.BOOL,
    }.items()
}  # fmt: skip

_QUANTIZED = frozenset({TensorType.FLOAT32, TensorType.FLOAT16, TensorType.INT8, TensorType.UINT8})
_CONVERTED = {
    TensorType.INT8: _QUANTIZED,
    TensorType.UINT8: _QUANTIZED,
    TensorType.FLOAT16: frozenset({TensorType.FLOAT32, TensorType.FLOAT16, TensorType.UINT8}),
}
"""The model's type -> what runtime 1.5.2 converts to it."""
_FIRST_UNKNOWN = Version(1, 6)
"""Newer versions were not tried; the library decides."""


def array_type(array: npt.NDArray[Any]) -> TensorType:
    """The C API's name for an array's type."""
    try:
        return _BY_DTYPE[array.dtype]
    except KeyError:
        known = ", ".join(str(dtype) for dtype in _BY_DTYPE)
        raise TypeError(f"the C API has no {array.dtype}; convert the array to one of {known}") from None


def check_input_type(tensor: TensorAttributes, kind: TensorType, version: Version) -> None:
    """Refuse what the library would ignore."""
    if version >= _FIRST_UNKNOWN or kind is tensor.type:
        return
    taken = _CONVERTED.get(tensor.type, frozenset({tensor.type}))
    if kind not in taken:
        names = ", ".join(sorted(item.name.lower() for item in taken))
        raise TypeError(
            f"input {tensor.index} {tensor.name!r} is {tensor.type.name.lower()}; library {version} converts {names} "
            f"to it and ignores {kind.name.lower()}"
        )


def check_input_array(
    tensor: TensorAttributes, native: TensorAttributes, array: object, pass_through: bool, version: Version
) -> npt.NDArray[Any]:
    """An array for `rknn_inputs_set`: its kind, shape, type and order are those that the library reads rightly."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"input {tensor.index} {tensor.name!r} must be a NumPy array, not {type(array).__name__}")
    if not array.flags.c_contiguous:
        raise ValueError(f"input {tensor.index} {tensor.name!r} is not contiguous; pass np.ascontiguousarray(array)")
    if not array.dtype.isnative:
        raise TypeError(f"input {tensor.index} {tensor.name!r} has its bytes swapped ({array.dtype})")
    if pass_through:
        if array.nbytes != native.size_with_stride_bytes:
            raise ValueError(
                f"input {tensor.index} {tensor.name!r} goes to the NPU as it is, so it has "
                f"{native.size_with_stride_bytes} bytes ({native.format.name} {list(native.shape)}), not {array.nbytes}"
            )
        return array
    check_input_type(tensor, array_type(array), version)
    if array.shape != tensor.shape and (tensor.shape[:1] != (1,) or array.shape != tensor.shape[1:]):
        hint = _order_hint(tensor, array.shape)
        raise ValueError(
            f"input {tensor.index} {tensor.name!r} is {tensor.format.name} {list(tensor.shape)}, the array is "
            f"{list(array.shape)}{hint}"
        )
    return array


def _order_hint(tensor: TensorAttributes, shape: tuple[int, ...]) -> str:
    if tensor.format is TensorFormat.NHWC and len(shape) == 4:
        batches, height, width, channels = tensor.shape
        if shape == (batches, channels, height, width):
            return "; the library does not turn NCHW: pass np.ascontiguousarray(array.transpose(0, 2, 3, 1))"
    return ""


def input_bytes(tensor: TensorAttributes, kind: TensorType, height_stride: int = 0) -> int:
    """How much memory an input needs: rows are `width_stride` pixels long, batches `height_stride` rows."""
    if tensor.format is not TensorFormat.NHWC or len(tensor.shape) != 4:
        return tensor.bytes_as(kind)
    batches, height, width, channels = tensor.shape
    rows = max(height_stride, height)
    return batches * rows * max(tensor.width_stride, width) * channels * kind.bits // 8


def output_as(
    plain: TensorAttributes,
    native: TensorAttributes,
    nhwc: TensorAttributes,
    form: TensorFormat | None,
    kind: TensorType | None,
) -> tuple[TensorAttributes, int]:
    """An output in one of the ways that work, and how much memory it needs.

    Without a layout it is the NPU's own; without a type it is the model's own. float32 comes with NCHW or NHWC only.
    """
    form = (native.format if kind in (None, native.type) else plain.format) if form is None else form
    found = next((one for one in (native, plain, nhwc) if one.format is form), None)
    if found is None:
        known = ", ".join(dict.fromkeys(one.format.name for one in (native, plain, nhwc)))
        raise ValueError(f"output {plain.index} {plain.name!r} can be {known}, not {form.name}")
    kind = found.type if kind is None else kind
    if kind not in (found.type, TensorType.FLOAT32):
        raise TypeError(
            f"output {plain.index} {plain.name!r} can be {found.type.name.lower()} or float32, not {kind.name.lower()}"
        )
    if kind is not found.type and form is TensorFormat.NC1HWC2:
        raise ValueError(f"output {plain.index} {plain.name!r} as NC1HWC2 keeps the type {found.type.name.lower()}")
    chosen = found.replaced(type=kind, size_bytes=found.bytes_as(kind))
    needed = chosen.size_bytes if form is not TensorFormat.NC1HWC2 else found.size_with_stride_bytes
    return chosen, max(needed, chosen.size_bytes)
