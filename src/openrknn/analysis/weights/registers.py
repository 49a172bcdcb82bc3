"""Where a convolution's commands say how its weights are quantised, by family of chips.

Facts only. They were found in files that the toolkit built from networks with known weights: the registers below, put
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
    "BN_TENSOR_IDLE",
    "BN_TENSOR_SCALE_OFFSET",
    "BN_TENSOR_SHIFT_OFFSET",
    "CONVOLUTIONS",
    "LUT_INFO",
    "TABLE_REACH",
    "Bits",
    "Convolution",
]


class Bits(NamedTuple):
    """A field of a register."""

    register: int
    low: int
    width: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """The registers of one family."""

    weight_address: int
    """The register that a relocation fills with the address of the weights."""
    operand_group: int
    """Channels per block of the operand stream."""
    operand_use: Bits
    """Which operands the stream holds."""
    use_bits: tuple[int, int, int]
    """The bit in it for bias, zero point and multiplier."""
    out_scale: Bits
    out_shift: Bits
    bs_shift: Bits | None
    """Right shift after the channel's multiplier, for values that are not negative; None: in the BS tensor."""
    zero_point: Bits | None
    """Negated zero point of all weights, where the stream holds none; None: in the BS tensor, or not found yet."""
    bn_scale: Bits | None
    """Multiplier of the BN stage; None: in the BN tensor, or never seen in use."""
    bn_shift: Bits | None
    accumulator_shift: Bits | None
    """Right shift of the accumulator before the DPU sees it; None: the chip is not known to have one."""
    operand_address: int = 0x5020
    byte_zero_points: bool = False
    """The stream has the form of RV1103B/RV1106B (`layout.operands.unpack_byte_operands`)."""
    bs_tensor_address: int | None = None
    """RK3576: a tensor holds what the other chips have in registers of the BS stage."""
    bn_tensor_address: int | None = None
    nibble_scale_address: int | None = None
    """4-bit weights: the address of one fp16 scale per output channel."""
    inline_zero_points: int = 0
    """Depthwise: this many weights, then as many negated zero points, take turns. 0: they are in the stream."""


_RK3588 = Convolution(
    weight_address=0x1110,
    operand_group=8,
    operand_use=Bits(0x501C, 1, 4),
    use_bits=(1, 2, 4),
    out_scale=Bits(0x4084, 0, 16),
    out_shift=Bits(0x4088, 0, 12),
    bs_shift=Bits(0x4048, 8, 6),
    zero_point=Bits(0x4054, 0, 16),
    bn_scale=Bits(0x4068, 16, 16),
    bn_shift=Bits(0x4068, 8, 6),
    accumulator_shift=Bits(0x301C, 0, 5),
)

CONVOLUTIONS: Mapping[str, Convolution] = MappingProxyType(
    {
        "rk3588": _RK3588,
        "rk3566": replace(_RK3588, operand_group=4, accumulator_shift=None),
        "rk3562": replace(
            _RK3588,
            operand_group=4,
            out_scale=Bits(0x40B0, 0, 16),
            out_shift=Bits(0x40B4, 0, 12),
            bs_shift=Bits(0x4038, 8, 6),
            accumulator_shift=Bits(0x3024, 0, 5),
            inline_zero_points=2,
        ),
        "rk3576": replace(
            _RK3588,
            operand_use=Bits(0x501C, 8, 4),
            out_scale=Bits(0x40B0, 0, 16),
            out_shift=Bits(0x40B4, 0, 12),
            bs_shift=None,
            zero_point=None,
            bn_scale=None,
            bn_shift=None,
            accumulator_shift=Bits(0x3024, 0, 5),
            bs_tensor_address=0x5024,
            bn_tensor_address=0x5030,
            nibble_scale_address=0x502C,
            inline_zero_points=2,
        ),
        "rv1106": replace(_RK3588, operand_group=4, bs_shift=Bits(0x4040, 9, 6), inline_zero_points=1),
        "rv1106b": Convolution(
            weight_address=0x1038,
            operand_group=4,
            operand_use=Bits(0x501C, 0, 4),
            use_bits=(1, 8, 2),
            out_scale=Bits(0x4090, 0, 16),
            out_shift=Bits(0x4090, 16, 6),
            bs_shift=Bits(0x4080, 0, 6),
            zero_point=None,
            bn_scale=None,
            bn_shift=None,
            accumulator_shift=None,
            byte_zero_points=True,
            inline_zero_points=8,
        ),
    }
)
"""By chip family."""

BN_CONFIG = 0x4060
BN_IDLE = 0x31
"""Bits of it (bypass, no multiplication, multiplication of negatives only) with which 1 stays 1."""
BN_TENSOR_IDLE = 0x511
"""The same for RK3576."""
LUT_INFO = 0x410C
"""Written and not zero: a look-up table stands between the accumulator and the output. Same place in all families."""
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
