"""Sizes of number formats, and of the atoms that features are stored in."""

from __future__ import annotations

from openrknn.chips import CHIPS
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import PixelBits

__all__ = ["ATOM_BYTES", "MIXED", "element_bits", "element_bytes", "is_float", "surfaces", "surfaces_of"]

ATOM_BYTES = CHIPS["rk3588"].atom_bytes
"""Of most chips; tasks of the others carry their own."""
_BYTES = {
    Precision.INT8: 1, Precision.INT16: 2, Precision.FP16: 2, Precision.BF16: 2, Precision.INT32: 4, Precision.FP32: 4,
}  # fmt: skip
_NARROW_BITS = {Precision.INT4: 4}
"""Formats that only features and weights of a convolution have."""
MIXED = frozenset({
    (Precision.FP16, Precision.INT4), (Precision.FP16, Precision.INT8), (Precision.INT8, Precision.INT4),
})  # fmt: skip
"""Features and weights of two formats that RK3576 and RV1126B multiply: in the format of the features."""
_BITS = {PixelBits.BITS8: 1, PixelBits.BITS16: 2, PixelBits.BITS32: 4}


def element_bytes(precision: Precision | PixelBits) -> int:
    """Bytes of one element."""
    if isinstance(precision, PixelBits):
        if precision not in _BITS:
            raise UnknownModeError("4-bit elements are not implemented")
        return _BITS[precision]
    if precision in _NARROW_BITS:
        raise UnknownModeError(f"{precision.name} is a format of features and weights only")
    if precision not in _BYTES:
        raise UnknownModeError(f"the number format {precision.name} is not implemented")
    return _BYTES[precision]


def element_bits(precision: Precision) -> int:
    """Bits of one number of the features or of the weights."""
    return _NARROW_BITS[precision] if precision in _NARROW_BITS else 8 * element_bytes(precision)


def is_float(precision: Precision) -> bool:
    """Whether the arithmetic in this format is floating point."""
    return precision in {Precision.FP16, Precision.BF16, Precision.FP32}


def surfaces(channels: int, bytes_each: int, atom_bytes: int = ATOM_BYTES) -> int:
    """C1: how many atoms the channels of one pixel fill."""
    return -(-channels * bytes_each // atom_bytes)


def surfaces_of(channels: int, precision: Precision, atom_bytes: int = ATOM_BYTES) -> int:
    """The same for features, whose numbers may have 4 bits."""
    return -(-channels * element_bits(precision) // (8 * atom_bytes))
