"""RK3562: RK3588's blocks with other registers, read into the same configurations.

What is different: weights in groups of 16 bytes of kernels, depthwise int8 weights with their zero points between them,
operands per channel in blocks of four, surfaces whose pitch is whole, the stages of `decode_named_dpu`.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.fetch import Fetch
from openrknn.chip.rk3562 import decode_named, decode_named_cna, decode_named_dpu
from openrknn.chip.rk3562.registers_dpu import LutCfg
from openrknn.chip.rk3588 import decode_dpu
from openrknn.chip.task_registers import Registers
from openrknn.isa import Precision
from openrknn.isa.enums import ArgbInput, ChannelReduction, Regroup
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import lut
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import element_bytes, surfaces
from openrknn.task.kinds import BufferUse

__all__ = [
    "BLOCKS", "configure_core", "configure_dpu", "configure_features", "configure_fetch", "configure_pooling",
    "configure_readers",
]  # fmt: skip

BLOCKS = frozenset({"CNA", "CORE", "DPU"})
"""The blocks that a convolution needs; DPU_RDMA may join them."""

_ENTRY_ATOMS = 4


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    cna, atom = registers.named("CNA"), registers.chip.atom_bytes
    con1, row, width = cna.fields("CONV_CON1"), cna.fields("CBUF_CON1"), cna("DATA_SIZE0", "datain_width")
    packed, size = ArgbInput(con1["argb_in"]).channels, element_bytes(weights := Precision(con1["proc_precision"]))
    real, precision = cna("DATA_SIZE1", "datain_channel_real"), Precision(con1["in_precision"])
    channels = decode_named.whole_channels(real, precision, atom)
    cna.expect_zero("UNKNOWN_1068")
    cna.waive("LANE_PAD", "SURF_SIZE", "UNKNOWN_106C")
    line_bytes = decode_named_cna.line_pitch(cna, atom)
    if packed:
        line_bytes = row["datain_width"] * packed * size
    else:
        row_bytes = surfaces(channels, size, atom) * atom * width
        decode_named_cna.check_rows(cna, -(-row_bytes // (_ENTRY_ATOMS * atom)))
    rows = decode_named_cna.kept_rows(cna, line_bytes, packed=packed > 0) if cna("DIVISION", "data_reuse") else 0
    read = decode_named_cna.read_convolution(
        cna,
        channels=channels,
        line_bytes=line_bytes,
        surface_bytes=cna("SURF_STRIDE", "surf_stride") * atom,
        depthwise=bool(con1["dw_en"]),
        converter=decode_named_cna.read_converter(cna, weights),
    )
    return replace(
        read,
        feature_address=read.feature_address - rows * line_bytes,
        inline_zero_points=2 if con1["inline_zero_points"] else 0,
        reuses_weights=bool(cna("CBUF_WEIGHTS", "weight_reuse")),
    )


def configure_fetch(registers: Registers, source: task_cna.Config) -> Fetch:
    """Read what CNA's registers say beside the convolution."""
    cna, packed = registers.named("CNA"), source.packed_channels
    division, entries = cna.fields("DIVISION"), cna("CBUF_CON1", "data_entries")
    kept = decode_named_cna.kept_rows(cna, source.line_bytes, packed=packed > 0) if division["data_reuse"] else 0
    use = BufferUse(division["data_b"], 0, entries // 4 if packed else entries, 0, False, kept,
                    cna("CBUF_ENTRIES", "start"))  # fmt: skip
    return Fetch(use, cna("DATA_SIZE1", "datain_channel_real"), source.reuses_weights)


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """Read CORE's registers."""
    core = registers.named("CORE")
    core.expect_zero("UNKNOWN_300C", "UNKNOWN_3010", "UNKNOWN_3014")
    return decode_named.read_core(core, convolution)


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    dpu = registers.named("DPU")
    precision, real = decode_named_dpu.arithmetic(dpu), dpu("DATA_CUBE_CHANNEL", "orig_channel")
    dpu.expect_zero("CPEND_ALU_CFG", "UNKNOWN_40C4")
    dpu.waive("WDMA_SIZE_0", "BUS", "PACKED_RUNS")
    pixels = dpu("DATA_CUBE_WIDTH", "width") * dpu("DATA_CUBE_HEIGHT", "height")
    out = decode_named_dpu.configure_out(dpu)
    used = not dpu("EW_CFG", "ew_bypass") and not dpu("EW_CFG", "ew_lut_bypass")
    table = decode_dpu.configure_table(registers, tables, used=used, config_register=LutCfg)
    return task_dpu.Config(
        flying=bool(dpu("FEATURE_MODE_CFG", "flying_mode")),
        precision=precision,
        in_precision=precision,
        channels=decode_named.whole_channels(real, out.precision, registers.chip.atom_bytes),
        real_channels=real,
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=ChannelReduction(dpu("DATA_CUBE_HEIGHT", "minmax_ctl")),
        correction=decode_named_dpu.configure_correction(dpu, dpu("BS_OW_OP", "ow_op")),
        bias=decode_named_dpu.configure_bs(dpu, precision),
        norm=decode_named_dpu.configure_bn(dpu, precision),
        element_wise=decode_named_dpu.configure_ew(dpu, precision, table),
        out=out,
        write=decode_named_dpu.configure_write(
            dpu,
            Regroup(dpu("BS_OW_CFG", "regroup")),
            surf_len=dpu("SURF_LEN", "surf_len"),
            run_atoms=pixels,
            spread=dpu("PACKED_RUN", "run"),
        ),
    )


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers."""
    return decode_named_dpu.with_arithmetic(decode_named.read_readers(registers), registers.named("DPU"))


configure_pooling = decode_named.read_pooling
