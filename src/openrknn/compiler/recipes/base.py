"""What every task of a kind writes, before its own values."""

from __future__ import annotations

from openrknn.compiler.formats import Format
from openrknn.compiler.program import Registers
from openrknn.isa.enums import AluAlgorithm, ConvMode, OutputMode

__all__ = ["BYPASS_BN", "BYPASS_BS", "BYPASS_EW", "dpu_base", "merge"]

_PING_PONG: dict[str, int] = {"pointer_pp_en": 1, "executer_pp_en": 1, "pointer_pp_mode": 1}
CLEARED: dict[str, int] = {"pointer_pp_clear": 1, "executer_pp_clear": 1}
"""S_POINTER of tasks that run with a freshly loaded table: both pointers at group 0, no ping-pong."""

BYPASS_BS = {"bs_bypass": 1, "bs_alu_bypass": 1, "bs_mul_bypass": 1, "bs_relu_bypass": 1}
BYPASS_BN = {"bn_bypass": 1, "bn_alu_bypass": 1, "bn_mul_bypass": 1, "bn_relu_bypass": 1}
BYPASS_EW = {
    "ew_bypass": 1, "ew_op_bypass": 1, "ew_lut_bypass": 1, "ew_op_cvt_bypass": 1, "ew_relu_bypass": 1,
}  # fmt: skip
_BURST = 16


def dpu_base(format: Format, *, flying: bool, depthwise: bool = False) -> Registers:  # noqa: A002
    """DPU and DPU_RDMA with every stage off."""
    mode = ConvMode.DEPTHWISE if depthwise else ConvMode.DIRECT
    precision = format.precision
    return {
        "DPU.S_POINTER": {**_PING_PONG},
        "DPU_RDMA.RDMA_S_POINTER": {**_PING_PONG},
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(flying), "output_mode": OutputMode.MEMORY, "conv_mode": mode, "burst_len": _BURST,
        },
        "DPU.DATA_FORMAT": {
            "proc_precision": precision, "in_precision": precision, "out_precision": precision,
        },
        "DPU.BS_CFG": {**BYPASS_BS, "bs_alu_algo": AluAlgorithm.NONE},
        "DPU.BS_OW_CFG": {"od_bypass": 1, "size_e_0": 1, "size_e_1": 1, "size_e_2": 1},
        "DPU.BN_CFG": {**BYPASS_BN, "bn_alu_algo": AluAlgorithm.NONE},
        "DPU.EW_CFG": {**BYPASS_EW},
        "DPU.EW_CVT_SCALE_VALUE": {"ew_op_cvt_scale": 1},
        "DPU.OUT_CVT_SCALE": {"out_cvt_scale": 1, "fp32tofp16_en": int(format.element_bytes == 2)},
        "DPU_RDMA.RDMA_ERDMA_CFG": {"erdma_disable": 1},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {
            "flying_mode": int(flying), "conv_mode": mode, "mrdma_disable": int(not flying),
            "mrdma_fp16tofp32_en": int(flying and format.element_bytes == 2),
            "proc_precision": precision, "in_precision": precision, "burst_len": _BURST,
        },
        "DPU_RDMA.RDMA_SRC_DMA_CFG": {
            "kernel_width": 1, "kernel_height": 1, "kernel_stride_width": 1, "kernel_stride_height": 1,
        },
        "DPU_RDMA.RDMA_WEIGHT": {"m_weight": 1, "b_weight": 1, "n_weight": 1, "e_weight": 1},
    }  # fmt: skip


def pooling_base() -> Registers:
    """PPU and PPU_RDMA."""
    return {
        "PPU.S_POINTER": {**_PING_PONG},
        "PPU_RDMA.RDMA_S_POINTER": {**_PING_PONG},
        "PPU.MISC_CTRL": {"burst_len": 4},
    }


def merge(base: Registers, *others: Registers) -> Registers:
    """Fields of later ones win; registers of `base` are changed in place."""
    for other in others:
        for name, fields in other.items():
            base[name] = {**base.get(name, {}), **fields}
    return base
