"""Number formats of weight files, and how they become float32.

GGUF's block formats are dequantised by the `gguf` package of llama.cpp; plain numbers need no package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.extras import missing
from openrknn.llm.errors import MissingPackageError
from openrknn.llm.weights import Floats

Bytes = npt.NDArray[np.uint8]
Indices = slice | npt.NDArray[np.intp]


@dataclass(frozen=True)
class NumberFormat:
    """A row of weights is a whole number of blocks: `block` numbers in `size` bytes each."""

    name: str
    block: int
    size: int

    def row_bytes(self, columns: int) -> int:
        return columns // self.block * self.size


F64 = NumberFormat("F64", 1, 8)
F32 = NumberFormat("F32", 1, 4)
F16 = NumberFormat("F16", 1, 2)
BF16 = NumberFormat("BF16", 1, 2)

GGML_FORMATS = {
    number: NumberFormat(name, block, size)
    for number, name, block, size in (
        (0, "F32", 1, 4), (1, "F16", 1, 2), (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34), (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176), (14, "Q6_K", 256, 210), (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74), (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50), (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110), (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136), (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56), (30, "BF16", 1, 2), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17), (40, "NVFP4", 64, 36),
    )
}  # fmt: skip
"""ggml's number of a type -> the format. Integers are not weights; Q8_1, Q8_K and the repacked types are in no file."""

SAFETENSORS_FORMATS = {"F64": F64, "F32": F32, "F16": F16, "BF16": BF16}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file; `shape` has the outermost size first, as NumPy has it."""

    name: str
    shape: tuple[int, ...]
    form: NumberFormat
    data: Bytes
    """The bytes in the file, one row each: [product of all sizes but the last, bytes of a row]."""

    def floats(self, rows: Indices) -> Floats:
        """These indices of the outermost axis, of a vector or a matrix."""
        if len(self.shape) == 1:
            return to_floats(self.data, self.form, self.shape[0])[0, rows]
        return to_floats(self.data[rows], self.form, self.shape[-1])


def to_floats(data: Bytes, form: NumberFormat, columns: int) -> Floats:
    """Rows of bytes [rows, bytes of a row] as float32 [rows, columns]. The result is never a view of the file."""
    data = np.ascontiguousarray(data)
    if form.name == "F32":
        return data.view("<f4").astype(np.float32)
    if form.name == "F16":
        return data.view("<f2").astype(np.float32)
    if form.name == "BF16":
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if form.name == "F64":
        return data.view("<f8").astype(np.float32)
    quants = _gguf_quants()
    # Scales of a hostile file overflow; infinity is what they say.
    with np.errstate(all="ignore"):
        found = quants.dequantize(data, quants.GGMLQuantizationType[form.name])
    return np.ascontiguousarray(found, np.float32).reshape(len(data), columns)


def _gguf_quants() -> Any:
    try:
        from gguf import quants
    except ImportError as error:
        raise MissingPackageError(f"quantised GGUF tensors: {missing(error, 'llm')}") from error
    return quants
