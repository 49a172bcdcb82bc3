"""The element types of the Open Inference Protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.serve.errors import BadRequestError

__all__ = ["DATATYPES", "Array", "datatype_of", "dtype_of"]

Array = npt.NDArray[Any]

DATATYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
"""Little endian, as the binary tensors are. An NPU has no use for BYTES and BF16."""
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}


def dtype_of(datatype: object, tensor: str) -> np.dtype[Any]:
    """The NumPy type of a datatype that a client names."""
    found = DATATYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        text = datatype[:40] if isinstance(datatype, str) else type(datatype).__name__
        raise BadRequestError(f"input {tensor[:80]!r}: datatype {text!r} is not one of {', '.join(DATATYPES)}")
    return found


def datatype_of(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a NumPy type."""
    return _NAMES[dtype.newbyteorder("<")]
