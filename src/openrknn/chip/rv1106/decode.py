"""RV1103 and RV1106: most registers of RK3588, the stages of RK3562, read into RK3588's configurations.

What is different: weights in groups of 16 kernels, depthwise weights with their zero points beside them, operands per
channel in blocks of four, surfaces whose pitch is whole, one atom per pixel and channel group.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn import numerics
from openrknn.chip.fetch import Fetch
from openrknn.chip.rk3562 import decode_named, decode_named_cna, decode_named_dpu
from openrknn.chip.rk3588 import decode as rk3588
from openrknn.chip.rk3588 import decode_dpu
from openrknn.chip.task_registers import NamedRegisters, Registers
from openrknn.errors import UnknownModeError
from openrknn.isa import ConvMode, Precision
from openrknn.isa.enums import ArgbInput, ChannelReduction, Regroup
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import lut
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import ATOM_BYTES, element_bytes, is_float, surfaces
from openrknn.task.kinds import BufferUse

__all__ = [
    "BLOCKS", "configure_core", "configure_dpu", "configure_features", "configure_fetch", "configure_pooling",
    "configure_readers",
]  # fmt: skip

BLOCKS = frozenset({"CNA", "DPU"})
"""The blocks that a convolution needs; DPU_RDMA may join them."""

_LANES = 4
_ENTRY_BYTES, _IMAGE_PIXEL_BYTES = 32, 4


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    cna = registers.named("CNA")
    con1, row, width = cna.fields("CONV_CON1"), cna.fields("CBUF_CON1"), cna("DATA_SIZE0", "datain_width")
    packed, size = ArgbInput(con1["argb_in"]).channels, element_bytes(weights := Precision(con1["proc_precision"]))
    channels = cna("DATA_SIZE1", "datain_channel")
    cna.expect_zero("UNKNOWN_1094", "FC_CON1")
    cna.waive("CBUF_BANKS", "WEIGHT_STRIDE", "CVT_LANES")
    row_bytes = (_IMAGE_PIXEL_BYTES if packed else ATOM_BYTES * surfaces(channels, size)) * width
    decode_named_cna.check_rows(cna, -(-row_bytes // _ENTRY_BYTES))
    line_bytes = decode_named_cna.line_pitch(cna, ATOM_BYTES)
    read = decode_named_cna.read_convolution(
        cna,
        channels=channels,
        line_bytes=row["datain_width"] * packed * size if packed else line_bytes,
        surface_bytes=cna("DMA_CON2", "surf_stride") * ATOM_BYTES,
        depthwise=con1["conv_mode"] == ConvMode.DEPTHWISE,
        converter=_converter(cna, weights),
    )
    return replace(
        read,
        inline_zero_points=int(con1["inline_zero_points"]),
        input_major=bool(cna("FC_CON0", "fc_skip_en")),
    )


def _converter(cna: NamedRegisters, precision: Precision) -> task_cna.Converter | None:
    con0, low, high = cna.fields("CVT_CON0"), cna.fields("CVT_SCALE01"), cna.fields("CVT_SCALE23")
    raised = [cna(f"CVT_OFFSET{channel}", "cvt_offset") for channel in range(_LANES)]
    if con0["cvt_bypass"]:
        return None
    if is_float(precision) or con0["cvt_type"]:
        raise UnknownModeError("this form of the input converter is not implemented", register="CVT_CON0")
    shifts = tuple(con0[f"cvt_truncate_{channel}"] for channel in range(_LANES))
    offsets = tuple(offset >> shift for offset, shift in zip(raised, shifts, strict=True))
    odd = sum((offset & 1) << channel for channel, offset in enumerate(offsets))
    whole = [offset << shift for offset, shift in zip(offsets, shifts, strict=True)]
    if odd != con0["cvt_odd"] or whole != raised:
        raise UnknownModeError("offsets that are not whole are not implemented", register="CVT_OFFSET0")
    return task_cna.Converter(
        add_first=False,
        rounding=numerics.Rounding(con0["round_type"]),
        shifts=shifts,
        scales=(low["cvt_scale0"], low["cvt_scale1"], high["cvt_scale2"], high["cvt_scale3"]),
        offsets=offsets,
        lanes=0xFFFF,
    )


def configure_fetch(registers: Registers, source: task_cna.Config) -> Fetch:
    """Read what CNA's registers say beside the convolution."""
    cna = registers.named("CNA")
    use, stored = cna.fields("CBUF_CON0"), cna("CBUF_ENTRIES", "data_entries")
    entries = stored // 4 if source.packed_channels else stored
    buffer = BufferUse(cna("CBUF_BANKS", "data_bank"), 0, entries, 0, bool(use["data_reuse"]))
    return Fetch(buffer, cna("DATA_SIZE1", "datain_channel_real"), bool(use["weight_reuse"]))


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """Read CORE's registers; they must agree with CNA's. Zero skipping works without CORE, which is not started."""
    core = registers.named("CORE")
    if convolution.input_major:
        core.waive("MISC_CFG", "DATAOUT_SIZE_0", "DATAOUT_SIZE_1", "CLIP_TRUNCATE")
        return task_core.Config(window_sums=False, shift=0, rounding=numerics.Rounding.EVEN)
    return decode_named.read_core(core, convolution)


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    dpu = registers.named("DPU")
    precision, channel = decode_named_dpu.arithmetic(dpu), dpu.fields("DATA_CUBE_CHANNEL")
    dpu.expect_zero("CPEND_ALU_CFG")
    dpu.waive("WDMA_SIZE_0", "PACKED_RUNS")
    mode, width = dpu.fields("FEATURE_MODE_CFG"), dpu("DATA_CUBE_WIDTH", "width")
    used = not dpu("EW_CFG", "ew_bypass") and not dpu("EW_CFG", "ew_lut_bypass")
    regroup = Regroup.ATOMS if dpu("BS_OW_CFG", "tp_atoms") else Regroup(dpu("BS_OW_CFG", "regroup"))
    if regroup is Regroup.LANES8 and dpu("WDMA_SIZE_0", "wide_lanes"):
        regroup = Regroup.LANES16
    return task_dpu.Config(
        flying=bool(mode["flying_mode"]),
        precision=precision,
        in_precision=precision,
        channels=channel["channel"],
        real_channels=channel["orig_channel"],
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=ChannelReduction(dpu("DATA_CUBE_HEIGHT", "minmax_ctl")),
        correction=decode_named_dpu.configure_correction(dpu, dpu("BS_OW_OP", "ow_op")),
        bias=decode_named_dpu.configure_bs(dpu, precision),
        norm=decode_named_dpu.configure_bn(dpu, precision),
        element_wise=decode_named_dpu.configure_ew(
            dpu, precision, decode_dpu.configure_table(registers, tables, used=used)
        ),
        out=decode_named_dpu.configure_out(dpu),
        write=decode_named_dpu.configure_write(
            dpu,
            regroup,
            surf_len=mode["surf_len"],
            run_atoms=1 if mode["rgp_each"] else width,
            spread=dpu("DATA_CUBE_WIDTH", "packed_run"),
            notch_bits=13,
        ),
    )


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers: RK3588's, with operands per channel in blocks of four."""
    readers = replace(rk3588.configure_readers(registers), operand_block=registers.chip.bias_group)
    return decode_named_dpu.with_arithmetic(readers, registers.named("DPU"))


configure_pooling = decode_named.read_pooling
