"""Where a convolution's commands say how its weights are quantised: names of registers and fields.

Facts only; what differs by family is `WEIGHT_SCALES` of its folder. They were found in files that the toolkit built
from networks with known weights: the fields below, put through the formula of `analysis.weights.channels`, give back
every weight scale (tests/container/test_channels.py).
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from openrknn.records import dataclass

__all__ = [
    "BN_CONFIG", "BN_IDLE", "BN_TENSOR_SCALE_OFFSET", "BN_TENSOR_SHIFT_OFFSET", "LUT_INFO", "OPERANDS", "OPERAND_USE",
    "FieldPlace", "WeightScales", "weight_scales",
]  # fmt: skip


class FieldPlace(NamedTuple):
    """A field of a register: `FieldPlace("DPU.OUT_CVT_SCALE", "out_cvt_scale")`."""

    register: str
    field: str


_OUT_SCALE = FieldPlace("DPU.OUT_CVT_SCALE", "out_cvt_scale")
_OUT_SHIFT = FieldPlace("DPU.OUT_CVT_SHIFT", "out_cvt_shift")
_BS_SHIFT = FieldPlace("DPU.BS_MUL_CFG", "bs_mul_shift_value")
_ZERO_POINT = FieldPlace("DPU.BS_OW_OP", "ow_op")
_BN_SCALE = FieldPlace("DPU.BN_MUL_CFG", "bn_mul_operand")
_BN_SHIFT = FieldPlace("DPU.BN_MUL_CFG", "bn_mul_shift_value")
_ACCUMULATOR_SHIFT = FieldPlace("CORE.CLIP_TRUNCATE", "clip_truncate")


@dataclass(frozen=True, slots=True)
class WeightScales:
    """The places of one family. Addresses are registers that a relocation fills."""

    weight_address: str = "CNA.DCOMP_ADDR0"
    out_scale: FieldPlace = _OUT_SCALE
    out_shift: FieldPlace = _OUT_SHIFT
    bs_shift: FieldPlace | None = _BS_SHIFT
    """Right shift after the channel's multiplier, for values that are not negative; None: in the BS tensor."""
    zero_point: FieldPlace | None = _ZERO_POINT
    """Negated zero point of all weights, where the stream holds none; None: in the BS tensor, or not found yet."""
    bn_scale: FieldPlace | None = _BN_SCALE
    """Multiplier of the BN stage; None: in the BN tensor, or never seen in use."""
    bn_shift: FieldPlace | None = _BN_SHIFT
    accumulator_shift: FieldPlace | None = _ACCUMULATOR_SHIFT
    """Right shift of the accumulator before the DPU sees it; None: the chip is not known to have one."""
    byte_zero_points: bool = False
    """The stream has the form of RV1103B/RV1106B (`layout.operands.unpack_byte_operands`)."""
    bs_tensor_address: str | None = None
    """RK3576: a tensor holds what the other chips have in registers of the BS stage."""
    bn_tensor_address: str | None = None
    nibble_scale_address: str | None = None
    """4-bit weights: the address of one fp16 scale per output channel."""


def weight_scales(family: str) -> WeightScales:
    """The places of a family of chips."""
    found = import_module(f"openrknn.chip.{family}.facts").WEIGHT_SCALES
    assert isinstance(found, WeightScales)
    return found


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
