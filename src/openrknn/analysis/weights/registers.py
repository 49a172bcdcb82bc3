"""Where a convolution's commands say how its weights are quantised, by family of chips: names of registers and fields.

Facts only. They were found in files that the toolkit built from networks with known weights: the fields below, put
through the formula of `channels`, give back every weight scale (tests/container/test_channels.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "BN_CONFIG",
    "BN_IDLE",
    "BN_TENSOR_SCALE_OFFSET",
    "BN_TENSOR_SHIFT_OFFSET",
    "CONVOLUTIONS",
    "LUT_INFO",
    "OPERANDS",
    "OPERAND_USE",
    "TABLE_REACH",
    "Convolution",
    "Place",
]


class Place(NamedTuple):
    """A field of a register: `Place("DPU.OUT_CVT_SCALE", "out_cvt_scale")`."""

    register: str
    field: str


_OUT_SCALE = Place("DPU.OUT_CVT_SCALE", "out_cvt_scale")
_OUT_SHIFT = Place("DPU.OUT_CVT_SHIFT", "out_cvt_shift")
_BS_SHIFT = Place("DPU.BS_MUL_CFG", "bs_mul_shift_value")
_ZERO_POINT = Place("DPU.BS_OW_OP", "ow_op")
_BN_SCALE = Place("DPU.BN_MUL_CFG", "bn_mul_operand")
_BN_SHIFT = Place("DPU.BN_MUL_CFG", "bn_mul_shift_value")
_ACCUMULATOR_SHIFT = Place("CORE.CLIP_TRUNCATE", "clip_truncate")


@dataclass(frozen=True, slots=True)
class Convolution:
    """The places of one family. Addresses are registers that a relocation fills."""

    weight_address: str = "CNA.DCOMP_ADDR0"
    out_scale: Place = _OUT_SCALE
    out_shift: Place = _OUT_SHIFT
    bs_shift: Place | None = _BS_SHIFT
    """Right shift after the channel's multiplier, for values that are not negative; None: in the BS tensor."""
    zero_point: Place | None = _ZERO_POINT
    """Negated zero point of all weights, where the stream holds none; None: in the BS tensor, or not found yet."""
    bn_scale: Place | None = _BN_SCALE
    """Multiplier of the BN stage; None: in the BN tensor, or never seen in use."""
    bn_shift: Place | None = _BN_SHIFT
    accumulator_shift: Place | None = _ACCUMULATOR_SHIFT
    """Right shift of the accumulator before the DPU sees it; None: the chip is not known to have one."""
    byte_zero_points: bool = False
    """The stream has the form of RV1103B/RV1106B (`layout.operands.unpack_byte_operands`)."""
    bs_tensor_address: str | None = None
    """RK3576: a tensor holds what the other chips have in registers of the BS stage."""
    bn_tensor_address: str | None = None
    nibble_scale_address: str | None = None
    """4-bit weights: the address of one fp16 scale per output channel."""


_SHORT = Convolution(bs_shift=Place("DPU.BS_CFG", "bs_mul_shift_value"))

CONVOLUTIONS: Mapping[str, Convolution] = MappingProxyType(
    {
        "rk3588": Convolution(),
        "rk3566": Convolution(accumulator_shift=None),
        "rk3562": _SHORT,
        "rk3576": Convolution(
            bs_shift=None,
            zero_point=None,
            bn_scale=None,
            bn_shift=None,
            bs_tensor_address="DPU_RDMA.RDMA_BS_CONFIG_ADDR",
            bn_tensor_address="DPU_RDMA.RDMA_BN_CONFIG_ADDR",
            nibble_scale_address="DPU_RDMA.RDMA_BN_BASE_ADDR",
        ),
        "rv1106": _SHORT,
        "rv1106b": replace(
            _SHORT,
            weight_address="CNA.WEIGHT_ADDR",
            out_scale=Place("DPU.OUT_CVT", "out_cvt_scale"),
            out_shift=Place("DPU.OUT_CVT", "out_cvt_shift"),
            bs_shift=Place("DPU.BS_SHIFT", "bs_mul_shift_value"),
            zero_point=None,
            bn_scale=None,
            bn_shift=None,
            accumulator_shift=None,
            byte_zero_points=True,
        ),
    }
)
"""By chip family."""

OPERANDS = "DPU_RDMA.RDMA_BS_BASE_ADDR"
"""The address of the operand stream: bias, zero points, multipliers."""
OPERAND_USE = "DPU_RDMA.RDMA_BRDMA_CFG"
"""Which of them it holds."""
BN_CONFIG = "DPU.BN_CFG"
BN_IDLE = ("bn_bypass", "bn_mul_bypass", "bn_mul_prelu")
"""Fields of it (bypass, no multiplication, multiplication of negatives only) with which 1 stays 1."""
LUT_INFO = "DPU.LUT_INFO"
"""Written and not zero: a look-up table stands between the accumulator and the output."""
BN_TENSOR_SCALE_OFFSET, BN_TENSOR_SHIFT_OFFSET = 32, 48
"""RK3576, BN tensor with an addend: 8 x int32 addend, 8 x int16 multiplier, then the shifts."""

TABLE_REACH: Mapping[str, float] = MappingProxyType(
    {
        "ExSwish": 5.8,
        "ExGelu": 2 * 2**0.5,
        "ExMish": 5.0,
        "HardSwish": 3.0,
        "Sigmoid": 6.31,
        "Softplus": 6.31,
        "Tanh": 3.02,
        "Elu": 5.0,
    }
)
"""The tables of the toolkit reach from -x to x, with 16384 steps on either side; x by the fused activation.

HardSigmoid is missing: its reach is 0.5 / alpha, and alpha is not in the file.
"""
