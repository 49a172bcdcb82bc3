"""RK3576 and RV1126B: RK3562's registers with sizes stored minus one, operands of BS and BN in tensors of their own.

What else is different: weights in groups of 32 bytes of kernels as on RK3588, rows of image kernels in 16 bytes each,
operands per channel in blocks of eight, a write DMA that counts what it skips after a channel group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openrknn.chip.fetch import Fetch
from openrknn.chip.rk3562 import decode_named, decode_named_cna, decode_named_dpu
from openrknn.chip.rk3562.decode import BLOCKS, configure_pooling
from openrknn.chip.rk3576 import operand_tensors
from openrknn.chip.rk3576.decode_bytes import configure_core, with_sums_of_bytes
from openrknn.chip.task_registers import NamedRegisters, Registers
from openrknn.errors import UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import ArgbInput, ChannelReduction, CombineUse, Regroup
from openrknn.task import cna as task_cna
from openrknn.task import dpu as task_dpu
from openrknn.task import lut, write
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import MIXED, surfaces_of
from openrknn.task.kinds import BufferUse

__all__ = [
    "BLOCKS", "configure_core", "configure_dpu", "configure_features", "configure_fetch", "configure_pooling",
    "configure_readers",
]  # fmt: skip

_ENTRY_BYTES = 64
_MAXIMUM = 0x25
_KEEPS_WEIGHTS = 2
_PAIRS = 2
"""Depthwise int8: so many weights, then as many negated zero points."""


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    cna, atom = registers.named("CNA"), registers.chip.atom_bytes
    con1, weight2, width = cna.fields("CONV_CON1"), cna.fields("WEIGHT_SIZE2"), cna("DATA_SIZE0", "datain_width")
    packed, features, arithmetic = ArgbInput(con1["argb_in"]).channels, *_formats(con1)
    real = cna("DATA_SIZE1", "datain_channel_real")
    channels = decode_named.whole_channels(real, features, atom)
    cna.expect_zero("UNKNOWN_1068", "UNKNOWN_106C", "UNKNOWN_109C")
    cna.waive("CBUF_BANKS", "CBUF_CON1", "LANE_PAD", "SURF_SIZE")
    if not packed:
        row_bytes = surfaces_of(channels, arithmetic, atom) * atom * width
        decode_named_cna.check_rows(cna, -(-row_bytes // _ENTRY_BYTES))
    line_bytes = decode_named_cna.line_pitch(cna, atom)
    rows = decode_named_cna.kept_rows(cna, line_bytes, packed=False) if cna("DIVISION", "data_reuse") else 0
    read = decode_named_cna.read_convolution(
        cna,
        channels=channels,
        line_bytes=line_bytes,
        surface_bytes=cna("SURF_STRIDE", "surf_stride") * atom,
        depthwise=bool(con1["dw_en"]),
        converter=decode_named_cna.read_converter(cna, arithmetic),
        weights=Precision(con1["weight_precision"]),
    )
    packed_rows = bool(con1["packed_rows"])
    return replace(
        read,
        feature_address=read.feature_address - rows * line_bytes,
        weight_channels=real // weight2["weight_width"] if packed_rows else read.weight_channels,
        inline_zero_points=_PAIRS if read.depthwise and read.kernels == _PAIRS else 0,
        folded_width=0 if packed else _folded_width(cna, read.height * read.width),
        packed_rows=packed_rows,
    )


def _formats(con1: Mapping[str, int]) -> tuple[Precision, Precision]:
    """Of the features and of the array; weights are in the array's, or in a narrower one beside such features."""
    features, arithmetic, weights = (
        Precision(con1[f"{name}_precision"]) for name in ("in", "proc", "weight")
    )
    if weights is not arithmetic and (features is not arithmetic or (features, weights) not in MIXED):
        text = f"{weights.name} weights with {features.name} features, multiplied as {arithmetic.name}, are not known"
        raise UnknownModeError(text, register="CONV_CON1")
    return features, arithmetic


def _folded_width(cna: NamedRegisters, pixels: int) -> int:
    """The width of the lines that the DMA fetches, if they are contiguous."""
    dma, height = cna.fields("FC_DATA_SIZE0"), cna("DATA_SIZE0", "datain_height")
    folded = height == 1 < dma["dma_height"] and dma["dma_height"] * dma["dma_width"] == pixels
    return dma["dma_width"] if folded else 0


def configure_fetch(registers: Registers, source: task_cna.Config) -> Fetch:
    """Read what CNA's registers say beside the convolution."""
    cna = registers.named("CNA")
    reuse, division, entries = cna("CBUF_BANKS", "reuse"), cna.fields("DIVISION"), cna.fields("CBUF_ENTRIES")
    kept = source.height - cna("FC_DATA_SIZE0", "dma_height") if division["data_reuse"] else 0
    use = BufferUse(division["data_b"], 0, entries["data_entries"], 0, bool(reuse & 1), kept, entries["start"])
    return Fetch(use, cna("DATA_SIZE1", "datain_channel_real"), bool(reuse & _KEEPS_WEIGHTS))


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    dpu = registers.named("DPU")
    precision, real = decode_named_dpu.arithmetic(dpu), dpu("DATA_CUBE_CHANNEL", "orig_channel")
    dpu.expect_zero("CPEND_ALU_CFG", "PACKED_RUNS", "UNKNOWN_40C4")
    dpu.waive("WDMA_SIZE_0", "BUS", "UNKNOWN_40D0")
    out = decode_named_dpu.configure_out(dpu)
    pixels = dpu("DATA_CUBE_WIDTH", "width") * dpu("DATA_CUBE_HEIGHT", "height")
    reduction, run = _reduction(dpu("DATA_CUBE_HEIGHT", "reduction")), dpu("PACKED_RUN", "run")
    walk = decode_named_dpu.configure_write(
        dpu,
        Regroup(dpu("BS_OW_CFG", "regroup")),
        surf_len=dpu("SURF_LEN", "surf_len"),
        run_atoms=pixels,
        spread=registers.chip.atom_bytes if reduction else run,
    )
    bias, norm = operand_tensors.tables_of(registers)
    config = task_dpu.Config(
        flying=bool(dpu("FEATURE_MODE_CFG", "flying_mode")),
        precision=precision,
        in_precision=precision,
        channels=decode_named.whole_channels(real, out.precision, registers.chip.atom_bytes),
        real_channels=real,
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=reduction,
        correction=decode_named_dpu.configure_correction(dpu, bias.correction),
        bias=operand_tensors.configure_bs(dpu, precision, bias),
        norm=operand_tensors.configure_bn(dpu, precision, norm),
        element_wise=decode_named_dpu.configure_ew(dpu, precision, operand_tensors.configure_table(dpu, tables)),
        out=out,
        write=replace(walk, group_step_bytes=_group_step(walk)),
        reduced_pixels=dpu("EW_CVT_OFFSET_VALUE", "reduced"),
    )
    return with_sums_of_bytes(registers, config)


def _reduction(code: int) -> ChannelReduction:
    if code not in {0, _MAXIMUM}:
        raise UnknownModeError(f"the reduction {code:#x} is not implemented", register="DATA_CUBE_HEIGHT")
    return ChannelReduction.ENABLE | ChannelReduction.MAXIMUM if code else ChannelReduction(0)


def _group_step(walk: write.Config) -> int:
    """From the end of the last line of a channel group on, the register says how far it is to the next group."""
    return walk.group_step_bytes + (walk.height - 1) * walk.line_bytes + walk.width * walk.atom_bytes


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers."""
    reader = registers.named("DPU_RDMA")
    readers = decode_named.read_readers(registers)
    if readers.operand is not None and reader("RDMA_ERDMA_CFG", "after_core"):  # the notch is that of two surfaces
        surface = reader("RDMA_EW_SURF_STRIDE", "ew_surf_stride") * readers.atom_bytes
        walk = replace(readers.operand.walk, surface_bytes=surface)
        readers = replace(readers, operand=replace(readers.operand, walk=walk))
    if reader("RDMA_FEATURE_MODE_CFG", "comb_main"):
        readers = replace(readers, combine=CombineUse.ENABLE | CombineUse.MAIN)
    return decode_named_dpu.with_arithmetic(readers, registers.named("DPU"))


