"""The arithmetic of the DPU: CPEND, BS, BN, EW and the output converter, in the order of the data flow.

Operands are per channel from memory (`*_src` = 1; BRDMA for BS, NRDMA for BN, ERDMA for EW) or one number from a
register. Multipliers are signed 16-bit integers, or fp16 (bf16 where proc_precision is BF16); addends are int32 or
fp32. The shifts of BS round half to even on RV1103 and on RK3588 [S]; those of BN on RV1103 [S], on RK3588 half to even
or half up [?].
"""

from __future__ import annotations

from openrknn.isa.enums import (
    AluAlgorithm,
    EwAlgorithm,
    EwOperation,
    OperandMode,
    PixelBits,
    RegroupCount,
    Rounding,
)
from openrknn.isa.fields import Bits, Choice, Flag, Signed, Size, Unsigned
from openrknn.isa.registers import Register, array

__all__: list[str] = []


class BsCfg(Register, offset=0x4040, name="BS_CFG", evidence="TE"):
    """BS, the first stage: add, then multiply and shift, then clamp. A bit of 1 in a bypass skips that step."""

    bs_bypass = Flag(0, "Skip the stage.")
    bs_alu_bypass = Flag(1, "Skip the addition.")
    bs_mul_bypass = Flag(4, "Skip the multiplication.")
    bs_mul_prelu = Flag(5, "Multiply only where x < 0.")
    bs_relu_bypass = Flag(6, "Skip max(x, 0).")
    bs_relux_en = Flag(7, "Also min(x, BS_RELUX_CMP_VALUE).")
    bs_alu_src = Flag(8, "Addend per channel from BRDMA.")
    bs_alu_algo = Choice(19, 16, AluAlgorithm, "x + addend or x - addend.")


class BsAluCfg(Register, offset=0x4044, name="BS_ALU_CFG", evidence="TE"):
    """Addend of BS."""

    bs_alu_operand = Bits(31, 0, "int32 or fp32.")


class BsMulCfg(Register, offset=0x4048, name="BS_MUL_CFG", evidence="STE"):
    """Multiplier of BS: x = round(x * m >> shift), ties to even. The shift of a negative product is in DATA_FORMAT."""

    bs_mul_src = Flag(0, "Multiplier per channel from BRDMA.")
    bs_truncate_src = Flag(1, "Shift per channel from BRDMA (TRT).", evidence="T")
    bs_mul_shift_value = Unsigned(13, 8, "Shift where the product is not negative.")
    bs_mul_operand = Bits(31, 16, "int16, fp16 or bf16.")


class BsReluxCmpValue(Register, offset=0x404C, name="BS_RELUX_CMP_VALUE", evidence="TE"):
    """Upper clamp of BS."""

    bs_relux_cmp_dat = Bits(31, 0, "int32 or fp32.")


class BsOwCfg(Register, offset=0x4050, name="BS_OW_CFG", evidence="TE"):
    """Zero-point correction of the weights (CPEND), atoms per pixel of the write DMA, lane transpose."""

    ow_src = Flag(0, "CPEND operand per channel from BRDMA; 0: BS_OW_OP.")
    od_bypass = Flag(
        1, "No CPEND. Otherwise acc += operand * S, with S the window sum of CORE.MISC_CFG.qd_en.",
        notes="The operand is the negated zero point of the weights: the effective weight is w + operand.",
    )
    size_e_0 = Size(4, 2, "E of the write DMA: atoms per pixel and channel group.")
    size_e_1 = Size(7, 5, "The same number again.")
    size_e_2 = Size(10, 8, "The same number again.")
    tp_org_en = Flag(
        27, "Lane transpose: L pixels by L lanes change places, L = 8 for 16-bit lanes, 16 for 8-bit.", evidence="ST",
        notes="The runs of L pixels go through all surfaces without a gap at their ends. The L new atoms enter the "
        "stream in lane order, then counters with E = 8; for L = 16 the next counter digit takes the upper half. "
        "Data move as int16 in all three formats, without arithmetic.",
    )
    rgp_cnter = Choice(31, 28, RegroupCount, "Atoms to keep.", evidence="T")


class BsOwOp(Register, offset=0x4054, name="BS_OW_OP", evidence="TE"):
    """CPEND operand for all channels."""

    ow_op = Signed(15, 0, "Negated zero point of the weights.")
    sign = Unsigned(31, 16, "The sign of a negative operand, again and again; results do not need it.", evidence="?")


class BnCfg(Register, offset=0x4060, name="BN_CFG", evidence="TE"):
    """BN, the second stage: multiply, then add, then shift, then clamp: y = (x * m + a) >> shift.

    The other way round than BS: the addend is in unshifted units. fp: x * m + a in fp32. LeakyReLU and PReLU use
    both stages: BS shifts only negatives up, by its two shifts, and BN multiplies negatives by the slope. Whether x was
    multiplied or not, the shift follows.
    """

    bn_bypass = Flag(0, "Skip the stage.")
    bn_alu_bypass = Flag(1, "Skip the addition.")
    bn_mul_bypass = Flag(4, "Skip the multiplication.")
    bn_mul_prelu = Flag(5, "Multiply only where x < 0; the shift is for both signs.", evidence="ST")
    bn_relu_bypass = Flag(6, "Skip max(x, 0).")
    bn_relux_en = Flag(7, "Also min(x, BN_RELUX_CMP_VALUE).")
    bn_alu_src = Flag(8, "Addend per channel from NRDMA.")
    bn_alu_algo = Choice(19, 16, AluAlgorithm, "Plus or minus the addend.")


class BnAluCfg(Register, offset=0x4064, name="BN_ALU_CFG", evidence="TE"):
    """Addend of BN."""

    bn_alu_operand = Bits(31, 0, "int32 or fp32.")


class BnMulCfg(Register, offset=0x4068, name="BN_MUL_CFG", evidence="TE"):
    """Multiplier of BN. The shift of a negative sum is in DATA_FORMAT."""

    bn_mul_src = Flag(0, "Multiplier per channel from NRDMA.")
    bn_truncate_src = Flag(1, "Shift per channel from NRDMA (TRT).", evidence="T")
    bn_mul_shift_value = Unsigned(13, 8, "Shift where the sum is not negative.")
    bn_mul_operand = Bits(31, 16, "int16, fp16 or bf16.")


class BnReluxCmpValue(Register, offset=0x406C, name="BN_RELUX_CMP_VALUE", evidence="TE"):
    """Upper clamp of BN, in units of its input: ReLU6 and Clip."""

    bn_relux_cmp_dat = Bits(31, 0, "int32 or fp32.")


class EwCfg(Register, offset=0x4070, name="EW_CFG", evidence="TE"):
    """EW, the third stage: lookup table, then the operation with the operand, then clamp.

    The table comes first: streams for sigmoid leave the operation on as max(x, 0) after it.
    """

    ew_bypass = Flag(0, "Skip the stage.")
    ew_op_bypass = Flag(1, "Skip the operation.")
    ew_op_type = Choice(2, 2, EwOperation, "ALU or multiplication.")
    ew_mul_prelu = Flag(5, "Multiply only where x < 0.", evidence="T")
    ew_op_src = Flag(6, "0: operand from EW_OP_VALUE_0 to 7; 1: a tensor through ERDMA.")
    ew_lut_bypass = Flag(7, "Skip the lookup table.")
    ew_op_cvt_bypass = Flag(8, "Use the operand without conversion.")
    ew_relu_bypass = Flag(9, "Skip max(x, 0).")
    ew_relux_en = Flag(10, "Also min(x, EW_RELUX_CMP_VALUE).", evidence="T")
    ew_alu_algo = Choice(19, 16, EwAlgorithm, "Operation of the ALU.")
    ew_binary_en = Flag(20, "Binary result of min and max.", evidence="T")
    ew_equal_en = Flag(21, "Equality result of min and max.", evidence="T")
    edata_size = Choice(23, 22, PixelBits, "Element size of the operand.")
    ew_data_mode = Choice(29, 28, OperandMode, "Operand per channel or per pixel.")
    ew_cvt_round = Choice(30, 30, Rounding, "Rounding of the operand converter.")
    ew_cvt_type = Flag(
        31, "Operand converter: 0 multiply, then add; 1 add, then multiply. See EW_CVT_SCALE_VALUE."
    )


class EwCvtOffsetValue(Register, offset=0x4074, name="EW_CVT_OFFSET_VALUE", evidence="TE"):
    """Offset of the operand converter."""

    ew_op_cvt_offset = Signed(31, 0, "Offset.")


class EwCvtScaleValue(Register, offset=0x4078, name="EW_CVT_SCALE_VALUE", evidence="TE"):
    """Operand converter (integers only), and the shift after a product.

    ew_cvt_type 1: e = round((e + offset) * scale >> shift); 0: e = round(e * scale >> shift) + offset. A subtraction
    comes as an addition with a negative scale.
    """

    ew_op_cvt_scale = Signed(15, 0, "Scale.")
    ew_op_cvt_shift = Unsigned(21, 16, "Shift.")
    ew_truncate = Unsigned(31, 22, "Shift of a product that is not negative.", evidence="T")


class EwReluxCmpValue(Register, offset=0x407C, name="EW_RELUX_CMP_VALUE", evidence="T"):
    """Upper clamp of EW."""

    ew_relux_cmp_dat = Bits(31, 0, "int32 or fp32.")


class OutCvtOffset(Register, offset=0x4080, name="OUT_CVT_OFFSET", evidence="TE"):
    """Offset of the output converter: the zero point of the output."""

    out_cvt_offset = Signed(31, 0, "Offset.", notes="1 together with minus_exp was seen in float tasks: open.")


class OutCvtScale(Register, offset=0x4084, name="OUT_CVT_SCALE", evidence="TE"):
    """Scale of the output converter, or the rounding of a float result."""

    out_cvt_scale = Signed(15, 0, "Scale.")
    fp32tofp16_en = Flag(16, "Float: round to out_precision (nearest even).")


class OutCvtShift(Register, offset=0x4088, name="OUT_CVT_SHIFT", evidence="STE"):
    """The output converter. Integers: cvt_type 0: y = round((x * scale + (offset << shift)) >> shift); 1: y =
    round((x + offset) * scale >> shift); then saturate to out_precision. Boards with RV1103 and RK3588 round once, so
    that ties go to the even result.
    """

    out_cvt_shift = Unsigned(11, 0, "Right shift.")
    minus_exp = Unsigned(19, 12, "Float: multiply by 2**-n; brings table values to scale.")
    cvt_round = Choice(30, 30, Rounding, "Rounding.", notes="Streams set it only in the maximum over channels.")
    cvt_type = Flag(31, "0: multiply first; 1: add first.", evidence="T")


class EwOpValue(Register, evidence="TE"):
    """Operand of EW from registers (EW_CFG.ew_op_src = 0); all eight hold the same number in streams: max(x, -0.4)."""

    ew_operand = Bits(31, 0, "int32 or fp32.")


EwOpValues = array(EwOpValue, 8, offset=0x4090, name="EW_OP_VALUE_")
