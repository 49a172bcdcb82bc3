"""Number formats of models: the sizes that follow from them are the chip's (`openrknn.chip.target.Format`)."""

from __future__ import annotations

from openrknn.chip.target import Format, align, ceil_div
from openrknn.container.parts import DataType
from openrknn.isa import Precision

__all__ = ["HEAD_CHANNELS", "Format", "align", "ceil_div", "dtype_of"]

HEAD_CHANNELS = 16
"""Channels of a head of attention are padded to a multiple of these, on every chip."""
_TYPES = {Precision.INT8: DataType.INT8, Precision.FP16: DataType.FLOAT16}


def dtype_of(form: Format) -> DataType:
    """What a file calls the format."""
    return _TYPES[form.precision]
