"""Convolutions of an RK3576 through a fork of Mesa: how many bytes and channels were TensorFlow Lite's own.

gahingwoo/linux-rk3576-npu (e1c3ae9) has the models and, in its board logs, the factor and the shift that the driver
wrote, and how many of the board's bytes and channels are equal to TensorFlow Lite's. With the input of its test (7 * i
mod 251) the counts can be made again. They do not say whether halves go to even; they refute rounding down.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.compiler.importer.formats.tflite import schema
from openrknn.isa import Precision
from openrknn.npu.blocks.dpu import out_cvt
from openrknn.task.out_cvt import Config

Array = npt.NDArray[Any]


class Said(NamedTuple):
    """What a log says of one model."""

    log: str
    scale: int
    shift: int
    raised: bool
    """The driver raised all sums by 128 steps, and took them off again behind the converter."""
    bytes: int
    channels: int
    more: int = 0
    """The driver's switch ROCKET_ABIAS adds this to every sum."""


COUNTS = {
    "conv2d-cal": Said("r338", 0x7D34, 25, True, 204401, 59),
    "cal_k1": Said("r253", 0x7D34, 25, True, 204429, 78),
    "cal_k3": Said("r259", 0x7D34, 25, True, 204343, 66),
    "cal_izp0": Said("r253", 0x7D34, 25, True, 204352, 55),
    "cal_s1": Said("r253", 0x7D34, 25, True, 817631, 25),
    "cal_oc16": Said("r253", 0x7D34, 25, True, 25536, 5),
    "cal_k3_imp": Said("r253", 0x737D, 22, True, 204227, 117),
    "cal_k5_imp": Said("r253", 0x737D, 22, True, 204239, 117),
    "md003": Said("r251", 0x4569, 23, True, 409090, 12),
    "md003_80": Said("r251", 0x4569, 23, True, 102273, 12),
    "md003_oc128": Said("r251", 0x4569, 23, True, 818184, 96),
    "pw2_zp128": Said("r253", 0x7C9B, 20, True, 783277, 30),
    "mn_conv0": Said("r259", 0x76BE, 22, False, 400606, 16),
    "mn_pw2": Said("r259", 0x7C9B, 20, False, 796519, 16),
    "mn_pw24": Said("r254", 0x4301, 21, False, 50081, 940),
    "mn_dw1": Said("r259", 0x4ACE, 16, False, 343671, 10),
    "mn_dw25": Said("r259", 0x4099, 17, False, 49818, 836),
    "mn_dw1 +1": Said("r259", 0x4ACE, 16, False, 396913, 13, more=1),
    "mn_dw25 +1": Said("r259", 0x4099, 17, False, 50168, 1016, more=1),
    "mn_pw24 +1": Said("r257", 0x4301, 21, False, 50174, 1022, more=1),
}
"""Model, and what was added where something was."""


def file_of(name: str) -> str:
    """The model's file in the clone."""
    return f"vendor-capture/{name.split(maxsplit=1)[0]}.tflite"


def lite(sums: Array, factor: float) -> Array:
    """TensorFlow Lite's rounding: a doubled high product, then a shift, each with halves away from zero."""
    fraction, exponent = np.frexp(factor)
    product = (sums << max(int(exponent), 0)) * round(float(fraction) * 2**31)
    high = np.where(product >= 0, product + (1 << 30) >> 31, -(-product + (1 << 30) - 1 >> 31))
    bits = max(-int(exponent), 0)
    if not bits:
        return high
    rest = high & (1 << bits) - 1
    found: Array = (high >> bits) + (rest > ((1 << bits) - 1 >> 1) + (high < 0))
    return found


def counted(path: Path, said: Said) -> tuple[int, int]:
    """Bytes and channels of the software NPU that are TensorFlow Lite's."""
    (graph,) = schema.parse(path.read_bytes(), path.name).subgraphs
    (operator,) = graph.operators
    source, weights, bias = (graph.tensors[index] for index in operator.inputs)
    (target,) = (graph.tensors[index] for index in operator.outputs)
    across, down = operator.options.number(1, 1), operator.options.number(2, 1)
    if weights.data is None or bias.data is None:
        raise ValueError(f"{path.name} has no weights")
    picture = (np.arange(np.prod(source.shape)) * 7 % 251).reshape(source.shape)[0] - int(source.zero[0])
    kernels = weights.data.astype(np.int64) - int(weights.zero[0])
    if operator.kind == "DEPTHWISE_CONV_2D":  # one channel each: a diagonal
        kernels = kernels[0].transpose(2, 0, 1)[..., None] * np.eye(kernels.shape[3], dtype=np.int64)[:, None, None]
    sums = _convolved(picture, kernels, target.shape[1:3], (down, across)) + bias.data.astype(np.int64)
    scales = [float(np.float32(tensor.scale[0])) for tensor in (source, weights, target)]
    factor = scales[0] * scales[1] / scales[2]
    zero = int(target.zero[0])
    raised = int(np.float32(128) / np.float32(factor) + np.float32(0.5)) if said.raised else 0
    offset = zero - (256 if said.raised else 128)
    config = Config(Precision.INT8, said.scale, said.shift, offset, False, numerics.Rounding.EVEN, 0)
    found = np.clip(out_cvt.apply(np.maximum(sums + raised, 0) + said.more, config), -128, 127) + 128
    equal = found == np.clip(lite(sums, factor) + zero, 0, 255)
    return int(np.count_nonzero(equal)), int(np.count_nonzero(equal.all(axis=(0, 1))))


def _convolved(picture: Array, kernels: Array, size: tuple[int, ...], strides: tuple[int, int]) -> Array:
    """Sums with the padding that TensorFlow calls SAME."""
    (height, width), (down, across) = size, strides
    _, rows, columns, _ = kernels.shape
    above = max((height - 1) * down + rows - picture.shape[0], 0)
    left = max((width - 1) * across + columns - picture.shape[1], 0)
    padded = np.pad(picture, ((above // 2, above - above // 2), (left // 2, left - left // 2), (0, 0)))
    sums = np.zeros((height, width, len(kernels)))
    for row in range(rows):
        for column in range(columns):
            seen = padded[row : row + height * down : down, column : column + width * across : across]
            sums += seen[:height, :width].astype(np.float64) @ kernels[:, row, column].T.astype(np.float64)
    return sums.astype(np.int64)
