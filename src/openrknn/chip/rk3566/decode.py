"""RK3566 and RK3568: the same blocks as RK3588 with other registers, read into the same configurations.

What is different: atoms of 8 bytes, weights in groups of 16 bytes of kernels by 32 bytes of inputs, operands per
channel in blocks of four, pitches that are whole instead of notched, the counters of the write DMA taken from the size
of the data, window sums that are always there, and pad values in PAD_CON0. Everything that computes is RK3588's.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn import numerics
from openrknn.chip.fetch import Fetch
from openrknn.chip.rk3566 import registers as regs
from openrknn.chip.rk3588 import cna, decode_dpu, dpu, dpu_rdma, dpu_stages, ppu
from openrknn.chip.rk3588.decode import read_convolution, read_pooling
from openrknn.chip.task_registers import Registers, pad_bits
from openrknn.chips import CHIPS
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import ConvMode, Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, OperandKinds, RegroupCount
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import lut, write
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma as task_rdma
from openrknn.task.dpu import Correction
from openrknn.task.formats import element_bytes, is_float
from openrknn.task.kinds import BufferUse

__all__ = [
    "BLOCKS", "configure_core", "configure_dpu", "configure_features", "configure_fetch", "configure_pooling",
    "configure_readers",
]  # fmt: skip

BLOCKS = frozenset({"CNA", "CMAC", "CORE", "DPU"})
"""The blocks that a convolution needs; DPU_RDMA may join them."""

_CHIP = CHIPS["rk3566"]
_ATOM = _CHIP.atom_bytes
_BS = decode_dpu.BS._replace(config=regs.BsCfg)
_BN = decode_dpu.BN._replace(config=regs.BnCfg)


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    con1, pad = registers.read(regs.ConvCon1), registers.read(regs.PadCon0)
    line, surface = registers.read(regs.DmaCon1).line_stride, registers.read(regs.DmaCon2).surf_stride
    registers.waive(cna.ConvCon2, regs.CbufCon1, regs.DmaCon0, regs.ImageSize)
    registers.waive(cna.FcDataSize0, cna.FcDataSize1)
    registers.waive_unknown(regs.CNA)
    precision, weights = con1.in_precision, con1.proc_precision
    return read_convolution(
        registers, precision, weights, packed=con1.argb_in.channels, pitches=(line * _ATOM, surface * _ATOM),
        data_sign=registers.read(regs.CvtCon0).data_sign, converter=_converter(registers, weights),
        pads=(pad.pad_top, pad.pad_left, pad_bits(pad.pad_value, precision)), deconv=con1.deconv,
        depthwise=con1.conv_mode is ConvMode.DEPTHWISE, input_group=_CHIP.weight_group[1] // element_bytes(weights),
    )  # fmt: skip


def _converter(registers: Registers, precision: Precision) -> task_cna.Converter | None:
    con0 = registers.read(regs.CvtCon0)
    con1, con2 = registers.read(cna.CvtCon1), registers.read(cna.CvtCon2)
    con3, con4 = registers.read(cna.CvtCon3), registers.read(cna.CvtCon4)
    if not con0.cvt_en:
        return None
    if is_float(precision):
        raise UnknownModeError("the input converter on floating point data is not implemented", register="CVT_CON0")
    shifts = (con0.cvt_truncate_0, con0.cvt_truncate_1, con0.cvt_truncate_2, con0.cvt_truncate_3)
    return task_cna.Converter(
        add_first=con0.cvt_type,
        rounding=numerics.Rounding(int(con0.round_type)),
        shifts=shifts,
        scales=(con1.cvt_scale0, con2.cvt_scale1, con3.cvt_scale2, con4.cvt_scale3),
        offsets=(con1.cvt_offset0, con2.cvt_offset1, con3.cvt_offset2, con4.cvt_offset3),
        lanes=0xFFFF,
    )


def configure_fetch(registers: Registers, source: task_cna.Config) -> Fetch:
    """Read what CNA's registers say beside the convolution."""
    use, row = registers.read(cna.CbufCon0), registers.read(regs.CbufCon1)
    packed, rows = source.packed_channels * element_bytes(source.precision), 0
    if packed:
        rows = source.surface_bytes // _ATOM // (source.line_bytes // packed)
    return Fetch(
        BufferUse(use.data_bank, use.weight_bank, row.data_entries, 0, bool(use.data_reuse)),
        registers.read(cna.DataSize1).datain_channel_real, bool(use.weight_reuse), rows,
    )  # fmt: skip


_SUMMED_AS = {Precision.BF16: Precision.FP16}
"""CORE knows one kind of float: layer normalisation leaves fp16 in it where CNA and CMAC say bf16."""


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """Read CMAC's and CORE's registers; window sums are always delivered."""
    array, misc = registers.read(regs.CmacMiscCfg), registers.read(regs.CoreMiscCfg)
    registers.waive_unknown(regs.CMAC)
    registers.waive_unknown(regs.CORE)
    registers.waive(*(regs.CORE.by_name[f"DATAOUT_SIZE_{number}"] for number in (0, 1)))  # CNA has the same sizes
    summed = _SUMMED_AS.get(convolution.weight_precision, convolution.weight_precision)
    same = array.proc_precision is convolution.weight_precision and array.dw_en == misc.dw_en == convolution.depthwise
    if not same or misc.proc_precision not in {summed, array.proc_precision}:
        raise ExecutionError("CMAC, CORE and CNA do not agree on the kind of convolution", register="MISC_CFG")
    shift = registers.read(regs.CoreClipTruncate).clip_truncate
    return task_core.Config(not convolution.is_float, shift, numerics.Rounding.EVEN)


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    mode, form = registers.read(regs.FeatureModeCfg), registers.read(dpu.DataFormat)
    sizes, channel = registers.read(dpu_stages.BsOwCfg), registers.read(dpu.DataCubeChannel)
    operand = registers.read(dpu_stages.BsOwOp).ow_op
    registers.expect_zero(dpu.Unknown40C4)
    precision, walk = form.proc_precision, _writer(registers, mode, sizes)
    channels, rows = channel.channel, 1 if mode.flying_mode else _rows_as_groups(registers, walk)
    return task_dpu.Config(
        flying=mode.flying_mode,
        precision=precision,
        in_precision=form.in_precision,
        channels=channels // rows,
        real_channels=channel.orig_channel,
        pad_bits=int(registers.read(dpu.OffsetPend).offset_pend),
        reduction=registers.read(dpu.DataCubeHeight).minmax_ctl & ChannelReduction.ENABLE,
        correction=None if sizes.od_bypass else Correction(None if sizes.ow_src else operand),
        bias=decode_dpu.configure_bs(registers, precision, _BS),
        norm=decode_dpu.configure_bn(registers, precision, _BN),
        element_wise=decode_dpu.configure_ew(registers, precision, tables, regs.EwCfg),
        out=decode_dpu.configure_out(registers),
        write=replace(walk, skips_surplus=rows > 1),
    )


def _rows_as_groups(registers: Registers, walk: write.Config) -> int:
    """In how many channel groups the DPU sees the rows of a convolution that is spread by columns.

    A map [rows, columns, channels] that grows to [rows, 4 columns] is one of [columns, 1, rows * channels] for the DPU:
    each row a channel group, each pixel a row, so that its counters reach every fourth column.
    """
    size = registers.named("CORE").fields("DATAOUT_SIZE_0")
    rows, rest = divmod(size["dataout_width"] * size["dataout_height"], walk.width * walk.height)
    return 1 if rest or not rows else rows


def _atom(precision: Precision) -> int:
    """8 bytes; 32-bit numbers stay four to an atom, as on the other chips, and fill 16."""
    return 2 * _ATOM if element_bytes(precision) == 4 else _ATOM


def _writer(registers: Registers, mode: regs.FeatureModeCfg, sizes: dpu_stages.BsOwCfg) -> write.Config:
    width, height = registers.read(dpu.DataCubeWidth).width, registers.read(dpu.DataCubeHeight).height
    notch = registers.read(dpu.DataCubeNotchAddr)
    if mode.tp_en:  # pixels become counter e, surfaces counter w
        lanes = _ATOM // element_bytes(registers.read(dpu.DataFormat).in_precision)
        width = registers.read(dpu.DataCubeChannel).channel // lanes
    if mode.to_ppu == mode.to_memory:
        raise UnknownModeError("a result that goes nowhere, or to two places", register="FEATURE_MODE_CFG")
    atom = _atom(registers.read(dpu.DataFormat).out_precision)
    if sizes.rgp_cnter is not RegroupCount.ALL:
        raise UnknownModeError("leaving out atoms is not implemented", register="BS_OW_CFG")
    return write.Config(
        address=registers.read(dpu.DstBaseAddr).dst_base_addr,
        per_pixel=sizes.size_e_0,
        width=width,
        height=height,
        line_bytes=_line(width * atom // _ATOM, notch.notch_addr_0),
        atom_step_bytes=registers.read(regs.DstSurfStride).dst_surf_stride * _ATOM,
        group_step_bytes=registers.read(regs.SurfaceAdd).surf_add * _ATOM,
        packed_bytes=atom if mode.nonalign else None,
        transposes_atoms=mode.tp_en,
        transposed_lanes=(4 if registers.read(dpu.DataFormat).in_precision is Precision.INT16 else 8)
        if sizes.tp_org_en
        else None,
        atom_bytes=atom,
    )


def _line(units: int, notch: int) -> int:
    """Bytes from line to line. The notch counts 8 bytes, whatever the atoms are: rows of a 32-bit matrix show it."""
    return (write.pitch(units, notch) if notch else units) * _ATOM


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers."""
    mode, source = registers.read(regs.RdmaFeatureModeCfg), registers.read(dpu_rdma.SrcDmaCfg)
    erdma = registers.read(dpu_rdma.ErdmaCfg)
    width, height = registers.read(dpu_rdma.DataCubeWidth).width, registers.read(dpu_rdma.DataCubeHeight).height
    brdma, nrdma = registers.read(regs.BrdmaCfg), registers.read(regs.NrdmaCfg)
    operand_surface = registers.read(regs.EwSurfStride).ew_surf_stride * _ATOM
    if not mode.flying_mode:
        registers.waive(regs.SurfNotch, dpu_rdma.SrcBaseAddr)
    operand_address = registers.read(dpu_rdma.EwBaseAddr).ew_base_addr
    registers.expect_zero(dpu_rdma.PadCfg)
    registers.waive(dpu_rdma.Weight, regs.BrdmaChannel, regs.NrdmaChannel, regs.EwSurfLast)
    operand = task_rdma.Operand(
        erdma.erdma_data_mode,
        element_bytes(mode.proc_precision),
        task_rdma.Walk(operand_address, width * _ATOM, operand_surface),
        operand_surface,
    )
    return task_rdma.Config(
        width=width,
        height=height,
        channels=registers.read(dpu_rdma.DataCubeChannel).channel,
        precision=Precision.FP16 if decode_dpu.keeps_fp16(registers.read(dpu.DataFormat)) else mode.in_precision,
        proc_precision=mode.proc_precision,
        main=_main(registers, width, height, _atom(mode.in_precision)) if mode.flying_mode else None,
        bias_kinds=OperandKinds(0) if brdma.brdma_disable else brdma.brdma_data_use,
        bias_address=registers.read(dpu_rdma.BsBaseAddr).bs_base_addr,
        norm_kinds=OperandKinds(0) if nrdma.nrdma_disable else nrdma.nrdma_data_use,
        norm_address=registers.read(dpu_rdma.BnBaseAddr).bn_base_addr,
        operand=None if erdma.erdma_disable else operand,
        combine=CombineUse(0),
        repeat_x=source.kernel_width,
        repeat_y=source.kernel_height,
        repeats=source.unpooling_en,
        atom_bytes=_atom(mode.in_precision),
        operand_block=_CHIP.bias_group,
    )


def _main(registers: Registers, width: int, height: int, atom: int) -> task_rdma.Walk:
    """The surfaces' notch counts 8 bytes, whatever the atoms are."""
    address = registers.read(dpu_rdma.SrcBaseAddr).src_base_addr
    line = width + registers.read(dpu_rdma.SrcDmaCfg).line_notch_addr
    notch = registers.read(regs.SurfNotch).surf_notch_addr
    return task_rdma.Walk(address, line * atom, ((height - 1) * line + width) * atom + notch * _ATOM)


def configure_pooling(registers: Registers) -> task_ppu.Config:
    """Read PPU's and PPU_RDMA's registers."""
    pads = [int(registers.read(register).pad_value) & 0x7FFFF for register in regs.PaddingValues]
    registers.waive(ppu.MiscCtrl, regs.RdmaDataFormat)
    registers.waive_unknown(regs.PPU_RDMA)
    config = read_pooling(registers, (pads[0] ^ 1 << 18) - (1 << 18))
    is_chained = not registers.read(regs.OperationModeCfg).flying_mode
    if is_chained and (config.kernel_width, config.kernel_height) != (1, 1):
        raise UnknownModeError("pooling straight from the DPU is not implemented", register="OPERATION_MODE_CFG")
    return config
