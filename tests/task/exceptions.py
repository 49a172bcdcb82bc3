"""Fields of the vendor's files that do not come back from a task: encode(decode(words)) writes other values.

Each row: families, fields (with `*`), and why. "Habit" means that results do not depend on the value: the software NPU,
which agrees with the results of the goldens, computes from the task, and the task is the same without it. "Not in the
task" means that the task of `openrknn.task` has no place for it, because no compiled model needs it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EXCEPTIONS", "REFUSALS", "Row"]


class Row(NamedTuple):
    """One row."""

    families: tuple[str, ...]
    fields: tuple[str, ...]
    why: str


_NAMED = ("rk3562", "rk3576", "rv1106")

EXCEPTIONS = (
    Row(
        ("rk3562", "rk3576"), ("CNA.CVT_CON0.cvt_t*", "CNA.CVT_SCALE*"),
        "Habit: the settings of a picture's converter that cvt_bypass switches off (fp16 pictures; softmax).",
    ),
    Row(
        ("rk3576",), ("CNA.CVT_CON0.data_sign", "CORE.CLIP_TRUNCATE.*", "CORE.MISC_CFG.qd_en",
                      "DPU.OUT_CVT_SCALE.fp32tofp16_en"),
        "Not encoded: convolutions of 16-bit integers (w16a16i_dfp), which the compiler does not make.",
    ),
    Row(
        ("rk3562", "rv1106"), ("CNA.CONV_CON2.*",),
        "Timing only: when the sequencer starts. The rule of the encoders holds for 310 of 318 sizes on RV1106; "
        "resnet's first convolutions are the others.",
    ),
    Row(
        ("rk3588",), ("CNA.CONV_CON1.group_line_off", "CNA.DMA_CON1.line_stride", "CNA.DMA_CON2.surf_stride"),
        "Habit: a map of one pixel, whose lines are told as if they were read in part (gru).",
    ),
    Row(
        ("rk3566",), ("CNA.DMA_CON2.surf_stride",),
        "Lines of a picture are whole atoms in the register: 30 pixels of 3 bytes come back as 32 pixels (w30).",
    ),
    Row(
        ("rk3562",), ("CNA.CONV_CON1.ragged", "CNA.SURF_SIZE.surf_size"),
        "Habit: sizes of what the DMA fetches, once more; softmax of one row, and bilinear's maps of 7 columns.",
    ),
    Row(
        ("rk3562", "rv1106"), ("CNA.CONV_CON1.inline_zero_points",),
        "Zero point 0 for all depthwise weights (avgpool33): the same task as weights with zero points between them "
        "until kernels tells them apart.",
    ),
    Row(
        ("rv1106",), ("CNA.DW_ZERO_POINT.negated",),
        "Habit: a dense convolution with one kernel has its zero point here too; BS corrects for it (one_kernel).",
    ),
    Row(
        ("rk3562", "rk3566", "rk3576", "rk3588", "rv1106"),
        ("DPU.DATA_CUBE_WIDTH.width", "DPU.DATA_CUBE_HEIGHT.height"),
        "Habit: the sides of the cube are those of the tensor, or its pixels in other sides; the counters of the "
        "readers and of the write DMA are what counts (bilinear, single).",
    ),
    Row(
        ("rk3562",), ("DPU.BN_ALU_CFG.bn_alu_operand",),
        "Habit: -0.0, which is added as 0.0 is (silu).",
    ),
    Row(
        ("rk3562", "rk3576"), ("DPU.BUS.from_core", "DPU.PACKED_RUNS.runs", "DPU.EW_CVT_OFFSET_VALUE.reduced",
                               "DPU.BS_OW_CFG.regroup"),
        "Not in the task: packed rows of a convolution (reshaped_rows), and maxima over pixels.",
    ),
    Row(
        ("rv1106",), ("DPU.PACKED_RUNS.runs",), "Not in the task: packed rows of a convolution (reshaped_rows).",
    ),
    Row(
        ("rk3576",), ("CORE.MISC_CFG.always", "DPU.BS_OW_CFG.size_e_2", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.from_core"),
        "Habit of depthwise convolutions without zero points between their weights (bilinear).",
    ),
    Row(
        ("rk3576",), ("DPU.BN_CFG.no_shift", "DPU.BS_MUL_CFG.no_shift", "DPU_RDMA.RDMA_*RDMA_CFG.config_use",
                      "DPU_RDMA.RDMA_BS_CONFIG_ADDR.bs_config_addr"),
        "Habit: shifts of 0 for multiplications of floats, in the operand tensor or left out.",
    ),
    Row(
        ("rk3576",), ("DPU.DATA_CUBE_NOTCH_ADDR.notch_addr_1",), "Habit: 0 beside the notch that counts.",
    ),
    Row(
        ("rk3562", "rk3576", "rk3588", "rv1106"), ("DPU.WDMA_SIZE_0.*",),
        "Habit: counts of groups, blocks and channels of tensors whose atoms are regrouped or packed; the write "
        "DMA's counters are in other registers, and no result depends on these.",
    ),
    Row(
        ("rk3576", "rk3588"),
        ("DPU.FEATURE_MODE_CFG.rgp_type", "DPU.FEATURE_MODE_CFG.surf_len", "DPU.SURF_LEN.surf_len",
         "DPU.PACKED_RUN.run"),
        "Not encoded: packed output that keeps a part of each atom, and lengths of lane transposes, which RK3576's "
        "compiled models leave 0 (matmul, transpose).",
    ),
    Row(
        ("rk3588",), ("DPU.EW_CFG.edata_size", "DPU.EW_CFG.ew_op_cvt_bypass"),
        "Habit: the operand's size stands in RDMA_ERDMA_CFG, and the operand's converter is one of integers: floats "
        "pass it either way (gru, layer_norm, length).",
    ),
    Row(
        ("rk3588", "rk3566"),
        ("DPU.EW_CFG.ew_op_bypass", "DPU.EW_CFG.ew_op_type", "DPU_RDMA.RDMA_ERDMA_CFG.erdma_data_size",
         "DPU_RDMA.RDMA_EW_BASE_ADDR.ew_base_addr", "DPU_RDMA.RDMA_EW_SURF_STRIDE.ew_surf_stride"),
        "Habit: an operand of a stage that is bypassed, or of a reader that is off (gru, convsilu).",
    ),
    Row(
        _NAMED, ("DPU.EW_CFG.ew_alu_algo", "DPU.EW_CFG.ew_cvt_type", "DPU.EW_CFG.ew_op_cvt_bypass"),
        "Habit: the code of the ALU and the order of the operand's converter where neither works (softmax's and the "
        "square root's divisions).",
    ),
    Row(
        ("rk3562",), ("DPU.OUT_CVT_SCALE.fp32tofp16_en", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.mrdma_fp16tofp32_en"),
        "Habit: reductions and divisions of fp16 with the conversions on or off; results are the same.",
    ),
    Row(
        ("rk3576",), ("DPU_RDMA.RDMA_ERDMA_CFG.*", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.depthwise"),
        "Habit: bits of readers that have nothing to read (means as depthwise convolutions, ops).",
    ),
    Row(
        ("rv1106",), (
            "DPU.BS_OW_CFG.group", "DPU.BS_OW_CFG.regroup", "DPU.DATA_CUBE_CHANNEL.*", "DPU.DATA_CUBE_WIDTH.packed_run",
            "DPU.DATA_FORMAT.*", "DPU.FEATURE_MODE_CFG.rgp_each", "DPU.OUT_CVT_*",
            "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL.channel", "DPU_RDMA.RDMA_ERDMA_CFG.ov4k_bypass",
            "DPU_RDMA.RDMA_FEATURE_MODE_CFG.*",
        ),
        "Not encoded: the vendor's softmax in fp16, and moves of 16-bit lanes, on a chip that compiled models use for "
        "int8 only (lone_softmax, ops).",
    ),
)  # fmt: skip

REFUSALS = (
    Row(("rk3566",), ("*no known nonalign*", "*no known surf_len*"), "packed output, lane transposes"),
    Row(("rk3566",), ("*the DPU and the PPU in one task*",), "the PPU writes for the DPU (sigmoid)"),
    Row(("rv1106",), ("*convolutions of int8 only*",), "softmax sums fp16 numbers in the array"),
    Row(("rk3576",), ("*order of weights or of pixels*",), "kernels of pictures with rows of 16 bytes"),
    Row(("rk3576",), ("*another recipe*", "*pad values of INT16*"), "reductions, fp32, and 16-bit integers"),
)  # fmt: skip
"""Tasks that encoders refuse, by the text of the error."""
