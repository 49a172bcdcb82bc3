"""Weights that the converter compressed.

The file says of such a tensor that it has neither type nor layout; containers of version 6 mark it and list the lanes,
mini files do not. The commands that load the weights tell everything, so they are what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openrknn.chip.decompressor import DECOMPRESSORS, numbered
from openrknn.chip.maps import map_for
from openrknn.chips import Chip
from openrknn.container.parts import DataType, Layout, Tensor
from openrknn.errors import UnsupportedError
from openrknn.isa import Block, Precision

_DTYPES = {Precision.INT8: DataType.INT8, Precision.INT16: DataType.INT16, Precision.FP16: DataType.FLOAT16}
_MOST_BYTES = 1 << 28
"""Of one tensor: a few bytes can ask for any number of zeros."""
_TILE_NUMBERS = 6


def may_be_compressed(tensor: Tensor) -> bool:
    """Whether the tensor is marked, or has tiles of weights but neither a type nor a layout."""
    untyped = tensor.dtype is DataType.NONE and tensor.layout is Layout.UNDEFINED
    return bool(tensor.compressed) or (untyped and len(tensor.native_shape) >= _TILE_NUMBERS)


def as_loaded(chip: Chip, tensor: Tensor, registers: Mapping[int, int]) -> Tensor:
    """The tensor with the type that the task with these registers reads, and marked if it decompresses it."""
    if not may_be_compressed(tensor):
        return tensor
    block = map_for(chip).block("CNA")
    precision = _value(block, registers, "CONV_CON1", "proc_precision")
    if "DCOMP_CTRL" not in block.by_name or precision not in _DTYPES or not _value(block, registers, "DCOMP_CTRL"):
        return tensor
    return replace(tensor, dtype=_DTYPES[Precision(precision)], layout=Layout.O1I1HWI2O2, compressed=1)


def decompressed(chip: Chip, tensor: Tensor, data: memoryview, registers: Mapping[int, int]) -> memoryview:
    """The bytes of the weights as they would be without compression."""
    import numpy as np  # here: whoever only lists tensors does not need it

    from openrknn.layout.compression import SCHEMES, Lane, decompress

    block = map_for(chip).block("CNA")
    amounts = numbered(block, "DCOMP_AMOUNT")
    decompressor, control = DECOMPRESSORS.get(len(amounts)), _value(block, registers, "DCOMP_CTRL")
    controls = {_DTYPES[precision]: code for precision, code in decompressor.controls.items()} if decompressor else {}
    if decompressor is None or control != controls.get(tensor.dtype):
        raise UnsupportedError(f"{tensor.name!r} is compressed in a way that is unknown for {chip.title}")
    headers, size = _value(block, registers, "DCOMP_REGNUM"), _value(block, registers, "WEIGHT_SIZE0")
    addresses = [_value(block, registers, name) for name in numbered(block, "DCOMP_ADDR")]
    streams = decompressor.streams(headers, [_value(block, registers, name) for name in amounts], addresses)
    if size > _MOST_BYTES:
        raise UnsupportedError(f"{tensor.name!r} would have {size} bytes of weights without compression")
    stored, lanes = np.frombuffer(data, np.uint8), []
    for stream in streams:
        start = stream.address - addresses[0]
        if start < 0 or start + stream.size > stored.size:
            raise UnsupportedError(f"a lane of the compressed weights {tensor.name!r} is outside of their data")
        lane = stored[start : start + stream.size]
        lanes.append(Lane(lane[: stream.header_bytes], lane[stream.header_bytes :]))
    weights = decompress(lanes, size, SCHEMES[len(lanes)], 1 if tensor.dtype is DataType.INT8 else 2)
    return memoryview(weights.tobytes())


def _value(block: Block, registers: Mapping[int, int], name: str, field: str = "") -> int:
    register = block.by_name.get(name)
    if register is None:
        return 0
    value = register(registers.get(register.offset, 0))
    return int(getattr(value, field)) if field else int(value)
