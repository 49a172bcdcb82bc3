"""Memory layouts of the NPU's tensors, with pack and unpack.

layout.features     feature maps NC1HWC2 with any pitches; rows of packed pixels
layout.arrange      NC1HWC2 to NCHW and back, native and into given arrays
layout.weights      convolution and depthwise weights in tiles
layout.compression  weights as the decompressor wants them, to plain bytes
layout.compressor   the way back
layout.operands     the per-channel stream of bias, weight zero point and multiplier (needs no NumPy)

All of it is arithmetic on sizes: nothing here knows files, registers or chips. Elements keep the type that they come
with; numbers that are stored in less than a byte are unpacked first (`openrknn.numerics`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openrknn.layout.arrange import (
        Arrangement,
        nc1hwc2_to_nchw,
        nc1hwc2_to_nhwc,
        nchw_to_nc1hwc2,
        nhwc_to_nc1hwc2,
    )

__all__ = ["Arrangement", "nc1hwc2_to_nchw", "nc1hwc2_to_nhwc", "nchw_to_nc1hwc2", "nhwc_to_nc1hwc2"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'openrknn.layout' has no attribute {name!r}")
    from openrknn.layout import arrange  # here: not everybody who reads layouts needs NumPy

    return getattr(arrange, name)
