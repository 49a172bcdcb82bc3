"""How tensors lie in the NPU's memory, and the way there and back (pack and unpack).

layout.features     feature maps NC1HWC2 with any pitches; rows of packed pixels
layout.weights      convolution and depthwise weights in tiles
layout.operands     the per-channel stream of bias, weight zero point and multiplier (needs no NumPy)

All of it is arithmetic on sizes: nothing here knows files, registers or chips. Elements keep the type that they come
with; numbers that are stored in less than a byte are unpacked first (`openrknn.numerics`).
"""
