"""Small tasks for the RK3588 that test drivers, and their right answers: a matrix product and an average pool."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openrknn import isa

ROWS, INNER, COLUMNS = 16, 32, 16
Words = list[int]
_BASE, _AMOUNTS, _ENABLE = 0x10, 0x14, 0x08


_PRODUCT = """
DPU.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
CNA.CONV_CON1 conv_mode=direct in_precision=fp16 proc_precision=fp16 argb_in=off
CNA.CONV_CON2 feature_grains=17 core_split=none
CNA.CONV_CON3 conv_x_stride=1 conv_y_stride=1 deconv_x_stride=1 deconv_y_stride=1 atrous_x_dilation=1 \
atrous_y_dilation=1 nn_mode=shape32x32
CNA.DATA_SIZE0 datain_height=16 datain_width=1
CNA.DATA_SIZE1 datain_channel=32 datain_channel_real=32
CNA.DATA_SIZE2 dataout_width=1
CNA.DATA_SIZE3 dataout_atomics=16 surf_mode=one
CNA.WEIGHT_SIZE0 weight_bytes=1024
CNA.WEIGHT_SIZE1 weight_bytes_per_kernel=64
CNA.WEIGHT_SIZE2 weight_kernels=16 weight_height=1 weight_width=1
CNA.CBUF_CON0 data_bank=1 weight_bank=11
CNA.CBUF_CON1 data_entries=1
CNA.CVT_CON0 cvt_bypass=1 cvt_type=1 round_type=ties_to_even data_sign=1
CNA.FEATURE_DATA_ADDR feature_base_addr={a}
CNA.DMA_CON0 data_burst_len=16 weight_burst_len=16
CNA.DMA_CON1 line_stride=4
CNA.DMA_CON2 surf_stride=12
CNA.FC_DATA_SIZE0 dma_height=16 dma_width=1
CNA.FC_DATA_SIZE1 dma_channel=32
CNA.DCOMP_ADDR0 decompress_addr0={b}
CORE.MISC_CFG proc_precision=fp16
CORE.DATAOUT_SIZE_0 dataout_width=1 dataout_height=16
CORE.DATAOUT_SIZE_1 dataout_channel=16
DPU.FEATURE_MODE_CFG output_mode=memory conv_mode=direct burst_len=16
DPU.DATA_FORMAT proc_precision=fp16 in_precision=fp16 out_precision=fp16
DPU.DST_BASE_ADDR dst_base_addr={c}
DPU.DST_SURF_STRIDE dst_surf_stride=16
DPU.DATA_CUBE_WIDTH width=1
DPU.DATA_CUBE_HEIGHT height=16
DPU.DATA_CUBE_CHANNEL channel=16 orig_channel=16
DPU.BS_CFG bs_bypass=1 bs_alu_bypass=1 bs_mul_bypass=1 bs_relu_bypass=1 bs_alu_algo=none
DPU.BS_OW_CFG od_bypass=1 size_e_0=2 size_e_1=2 size_e_2=2 rgp_cnter=all
DPU.WDMA_SIZE_0 channel_wdma=16 tp_precision=bits8
DPU.WDMA_SIZE_1 width_wdma=1 height_wdma=16
DPU.BN_CFG bn_bypass=1 bn_alu_bypass=1 bn_mul_bypass=1 bn_relu_bypass=1 bn_alu_algo=none
DPU.EW_CFG ew_bypass=1 ew_op_bypass=1 ew_op_type=alu ew_lut_bypass=1 ew_op_cvt_bypass=1 ew_relu_bypass=1 \
ew_alu_algo=max edata_size=bits4 ew_data_mode=per_channel ew_cvt_round=ties_to_even
DPU.EW_CVT_SCALE_VALUE ew_op_cvt_scale=1
DPU.OUT_CVT_SCALE out_cvt_scale=1 fp32tofp16_en=1
DPU.SURFACE_ADD surf_add=32
"""
_POOL = """
PPU.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
PPU_RDMA.RDMA_S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
PPU.DATA_CUBE_IN_WIDTH cube_in_width=8
PPU.DATA_CUBE_IN_HEIGHT cube_in_height=8
PPU.DATA_CUBE_IN_CHANNEL cube_in_channel=16
PPU.DATA_CUBE_OUT_WIDTH cube_out_width=4
PPU.DATA_CUBE_OUT_HEIGHT cube_out_height=4
PPU.DATA_CUBE_OUT_CHANNEL cube_out_channel=16
PPU.OPERATION_MODE_CFG pooling_method=average flying_mode=1
PPU.POOLING_KERNEL_CFG kernel_width=2 kernel_height=2 kernel_stride_width=2 kernel_stride_height=2
PPU.RECIP_KERNEL_WIDTH recip_kernel_width=0x8000
PPU.RECIP_KERNEL_HEIGHT recip_kernel_height=0x8000
PPU.DST_BASE_ADDR dst_base_addr={target}
PPU.DST_SURF_STRIDE dst_surf_stride=16
PPU.DATA_FORMAT proc_precision=int8 index_add=16
PPU.MISC_CTRL burst_len=4
PPU_RDMA.RDMA_CUBE_IN_WIDTH cube_in_width=8
PPU_RDMA.RDMA_CUBE_IN_HEIGHT cube_in_height=8
PPU_RDMA.RDMA_CUBE_IN_CHANNEL cube_in_channel=16
PPU_RDMA.RDMA_SRC_BASE_ADDR src_base_addr={source}
PPU_RDMA.RDMA_SRC_LINE_STRIDE src_line_stride=8
PPU_RDMA.RDMA_SRC_SURF_STRIDE src_surf_stride=64
PPU_RDMA.RDMA_DATA_FORMAT in_precision=bits8
"""
"""In the text form of `openrknn disasm`, which names every field."""


def tail(mask: int, following: int = 0, amount: int = 0) -> Words:
    """The four words that end a task; `following` is the address of the next one's commands."""
    link = isa.Command(isa.Target.PC, _BASE, following).word if following else isa.NOP_WORD
    amounts = isa.Command(isa.Target.PC, _AMOUNTS, amount).word
    return [link, amounts, isa.SYNC_WORD, isa.Command(isa.Target.ENABLE, _ENABLE, mask).word]


def product_body(a: int, b: int, c: int) -> Words:
    """C = A x B in fp16 as a 1x1 convolution; the same registers as in examples/raw_matmul.h."""
    return _words(_PRODUCT.format(a=a, b=b, c=c))


PRODUCT_MASK = 0x0D
POOL_MASK = 0x60


def pool_body(source: int, target: int) -> Words:
    """Average pool 2x2 of 8x8 pixels with 16 channels of int8."""
    return _words(_POOL.format(source=source, target=target))


def _words(text: str) -> Words:
    return isa.assemble(isa.parse_text(text, isa.RK3588))


def to_bytes(stream: Words) -> bytes:
    """As stored in memory."""
    return np.array(stream, np.uint64).tobytes()


def operands(seed: int = 0) -> tuple[bytes, bytes, bytes]:
    """A, B and the right C, each as the NPU keeps it; small whole numbers, so that fp16 is exact."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-5, 6, (ROWS, INNER)).astype(np.float16)
    b = rng.integers(-5, 6, (INNER, COLUMNS)).astype(np.float16)
    c = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    return _surfaces(a), b.T.tobytes(), _surfaces(c)


def _surfaces(matrix: npt.NDArray[np.float16]) -> bytes:
    rows, columns = matrix.shape
    return np.ascontiguousarray(matrix.reshape(rows, columns // 8, 8).transpose(1, 0, 2)).tobytes()
