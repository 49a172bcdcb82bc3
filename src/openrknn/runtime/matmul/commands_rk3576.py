"""Register commands for C [M, N] = A [M, K] * B [K, N] on RK3576: as on RK3588, and B may be narrower than A.

Facts: the streams that the vendor's runtime 2.0.0b8 submits for its products with native layouts, register by register.
A test compares ours with the vendor's. Rows are cut as on RK3588, whose four banks are half of RK3576's.
"""

from __future__ import annotations

from types import MappingProxyType

from openrknn.chip.rk3576.registers import RK3576
from openrknn.isa import assemble, parse_text
from openrknn.runtime.matmul.commands import Addresses, Kind, Product

__all__ = ["KINDS", "body"]

KINDS = MappingProxyType({
    "fp16": Kind("fp16", 16, "fp32", 4, has_corrections=False),
    "fp16 x int8": Kind("fp16", 16, "fp32", 4, has_corrections=False, weights="int8", weight_bits=8),
    "fp16 x int4": Kind("fp16", 16, "fp32", 4, has_corrections=False, weights="int4", weight_bits=4),
    "int8": Kind("int8", 8, "int32", 4, has_corrections=False),
    "int8 x int4": Kind("int8", 8, "int32", 4, has_corrections=False, weights="int4", weight_bits=4),
})  # fmt: skip
_GROUPS = {"fp16": 0x310, "int8": 0x110}
"""WDMA_SIZE_0.group by the format of A."""

_TEXT = """
CNA.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
CORE.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
DPU.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
CNA.CONV_CON1 in_precision={kind} proc_precision={kind} argb_in=off weight_precision={weights}
CNA.CONV_CON2 grains=4095
CNA.CONV_CON3 conv_x_stride=1 conv_y_stride=1 deconv_x_stride=1 deconv_y_stride=1 atrous_x_dilation=1 \
atrous_y_dilation=1 cores=1
CNA.DIVISION data_a=4 data_b=4 always=1
CNA.WEIGHT_SIZE0 weight_bytes={weight_bytes}
CNA.WEIGHT_SIZE1 weight_bytes_per_kernel={kernel_bytes}
CNA.WEIGHT_SIZE2 weight_kernels={n} weight_height=1 weight_width=1
CNA.DATA_SIZE1 datain_channel_real={k} datain_pixels={entries}
CNA.DATA_SIZE0 datain_height=1 datain_width={width}
CNA.DATA_SIZE2 dataout_width={width} weights={weight_units}
CNA.DATA_SIZE3 dataout_atomics={width}
CNA.CBUF_BANKS banks_a=7 banks_b=14
CNA.CBUF_ENTRIES data_entries={entries}
CNA.CBUF_CON0 data=16
CNA.CBUF_CON1 data_entries={entries} datain_width={width}
CNA.CVT_CON0 cvt_bypass=1 cvt_type=1 round_type=ties_to_even data_sign=1
CNA.CVT_SCALE01 cvt_scale0=1 cvt_scale1=1
CNA.CVT_SCALE23 cvt_scale2=1 cvt_scale3=1
CNA.FC_DATA_SIZE0 dma_height=1 dma_width={width}
CNA.FC_DATA_SIZE1 dma_channel={k}
CNA.FEATURE_DATA_ADDR feature_base_addr={a:#x}
CNA.DMA_CON0 data_burst_len=16 weight_burst_len=16
CNA.DMA_CON1 line_stride={line}
CNA.SURF_STRIDE surf_stride={m}
CNA.SURF_SIZE surf_size={m}
CNA.DCOMP_ADDR0 decompress_addr0={b:#x}
CNA.READ_SIZE width_0={width} width_1={width}
CORE.MISC_CFG proc_precision={kind} always=1
CORE.DATAOUT_SIZE_0 dataout_width={width} dataout_height=1
CORE.DATAOUT_SIZE_1 dataout_channel={n}
DPU.FEATURE_MODE_CFG output_mode=memory from_core=1
DPU.DATA_FORMAT proc_precision={kind} out_precision={result}
DPU.DST_BASE_ADDR dst_base_addr={c:#x}
DPU.DST_SURF_STRIDE dst_surf_stride={m}
DPU.DATA_CUBE_WIDTH width={width}
DPU.DATA_CUBE_HEIGHT height=1
DPU.DATA_CUBE_CHANNEL orig_channel={n}
DPU.WDMA_SIZE_0 group={group} orig_channel={n}
DPU.WDMA_SIZE_1 width_wdma={width} height_wdma=1
DPU.BS_CFG bs_bypass=1 cpend_alu_bypass=1 cpend_mul_bypass=1 bs_alu_bypass=1 cpend_alu_algo=none
DPU.BS_MUL_CFG no_shift=1
DPU.BS_OW_CFG size_e_0={atoms} size_e_1={atoms} size_e_2={atoms} size_e_3={atoms} bs_mul_bypass=1 regroup=none
DPU.BN_CFG bn_bypass=1 bn_alu_bypass=1 bn_alu_algo=none bn_mul_bypass=1 no_shift=1
DPU.EW_CFG ew_bypass=1 ew_op_type=alu ew_mul_bypass=1 ew_lut_bypass=1 ew_op_cvt_bypass=1 ew_div_bypass=1 \
ew_alu_algo=max edata_size=bits4 ew_alu_bypass=1
DPU.EW_CVT_SCALE_VALUE ew_op_cvt_scale=1
DPU.OUT_CVT_SCALE out_cvt_scale=1
DPU.OUT_CVT_SHIFT cvt_round=ties_to_even
DPU.SURFACE_ADD surf_add={surface_add}
DPU.BUS from_core=1 high=1092
DPU.UNKNOWN_40D0 low=65535 high=64
DPU.LUT_ACCESS_CFG lut_table_id=le
"""
_BOUNDS = "".join(
    f"DPU.{stage}_{name}_MINIMUM minimum=0x80000000\nDPU.{stage}_{name}_MAXIMUM maximum=0x7fffffff\n"
    for stage in ("BS", "BN", "EW")
    for name in ("LIMIT", "CLAMP")
)
_ZEROS = (
    *(f"CNA.CVT_OFFSET{number}" for number in range(4)),
    *(f"CNA.{name}" for name in (
        "CVT_LANES", "UNKNOWN_1068", "UNKNOWN_106C", "LANE_PAD", "DW_ZERO_POINT", "PAD_CON0", "PAD_CON1",
        "UNKNOWN_109C", "DCOMP_CTRL", "DCOMP_REGNUM", "DCOMP_AMOUNT0", "DCOMP_AMOUNT1",
    )),
    "CORE.CLIP_TRUNCATE",
    *(f"DPU.{name}" for name in (
        "OFFSET_PEND", "DATA_CUBE_NOTCH_ADDR", "CPEND_ALU_CFG", "EW_CVT_OFFSET_VALUE", "EW_OP_VALUE_0",
        "EW_OP_VALUE_1", "EW_OP_VALUE_3", "OUT_CVT_OFFSET", "PACKED_RUNS", "SURF_LEN", "PACKED_RUN",
        "LUT_ACCESS_DATA", "LUT_CFG", "LUT_INFO", "LUT_LE_END_0", "LUT_LO_START_0", "LUT_LE_UFLOW_SHIFT",
        "LUT_LO_OFLOW_SHIFT",
    )),
    *(f"DPU.LUT_{name}_{number}" for name in ("LE_START", "LO_END") for number in range(4)),
    *(f"DPU.LUT_{name}_{number}" for name in ("LE_UFLOW_SCALE", "LO_OFLOW_SCALE", "LE_VALUE", "LO_VALUE")
      for number in range(2)),
)  # fmt: skip
"""Registers that the vendor writes as 0, so that nothing is left of the task before."""


def body(product: Product, places: Addresses, first: int, width: int, *, tiled: bool) -> list[int]:
    """The commands of a task for `width` rows from `first` on; `tiled` changes nothing here."""
    kind, m = product.kind, product.m
    atoms = product.kernel_group * kind.result_bytes // 16
    text = _TEXT.format(
        kind=kind.name, weights=kind.weight_name, result=kind.result, width=width, m=m, k=product.k, n=product.n,
        a=places.a + first * 16, b=places.b, c=places.c + first * 16,
        kernel_bytes=product.kernel_bytes, weight_bytes=product.n * product.kernel_bytes,
        weight_units=16 * product.kernel_bytes // kind.bits, entries=product.entries(width), line=4 * width,
        group=_GROUPS[kind.name], atoms=atoms, surface_add=atoms * m - width,
    )  # fmt: skip
    zeros = "\n".join(f"{name} 0" for name in _ZEROS)
    return assemble(parse_text(text + _BOUNDS + zeros, RK3576))
