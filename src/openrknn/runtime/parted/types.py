"""The types of ONNX Runtime's ports, as NumPy has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

DTYPES: Mapping[str, type[np.generic]] = MappingProxyType(
    {
        "tensor(float)": np.float32,
        "tensor(float16)": np.float16,
        "tensor(double)": np.float64,
        "tensor(int8)": np.int8,
        "tensor(int16)": np.int16,
        "tensor(int32)": np.int32,
        "tensor(int64)": np.int64,
        "tensor(uint8)": np.uint8,
        "tensor(uint16)": np.uint16,
        "tensor(uint32)": np.uint32,
        "tensor(uint64)": np.uint64,
        "tensor(bool)": np.bool_,
    }
)
"""Texts, sequences and what else there is go through as they are."""


def as_type(value: object, kind: str, name: str) -> object:
    """A value as an input or output of this type; numbers that would change are an error."""
    wanted = DTYPES.get(kind)
    if wanted is None:
        return value
    array = np.asarray(value)
    if array.dtype == wanted:
        return array
    if array.dtype.kind in "OSUV" or (array.dtype.kind in "fc" and np.dtype(wanted).kind in "iub"):
        raise ValueError(f"{name!r} is {kind}; {array.dtype} numbers were given")
    return array.astype(wanted)
