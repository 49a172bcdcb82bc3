"""RK3588: registers of CNA, CORE, DPU_RDMA, PPU and of the DPU as a whole; its stages are in `rk3588_dpu`."""

from __future__ import annotations

from openrknn import numerics
from openrknn.chip.compression import read_compression
from openrknn.chip.fetch import Fetch
from openrknn.chip.limits import row_entries
from openrknn.chip.rk3588 import cna, core, decode_dpu, dpu, dpu_rdma, dpu_stages, ppu, ppu_rdma
from openrknn.chip.task_registers import Registers, line_bytes
from openrknn.chips import CHIPS
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import ConvMode, Precision
from openrknn.isa.enums import CombineUse, PixelBits, PoolingMethod
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import lut
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import ATOM_BYTES, element_bits, element_bytes, is_float, surfaces_of
from openrknn.task.kinds import BufferUse

__all__ = [
    "BLOCKS", "check_pooling", "configure_core", "configure_dpu", "configure_features", "configure_fetch",
    "configure_pooling", "configure_readers", "read_convolution", "read_pooling", "uses_table",
]  # fmt: skip

BLOCKS = frozenset({"CNA", "CORE", "DPU"})
"""The blocks that a convolution needs; DPU_RDMA may join them."""

_CHIP = CHIPS["rk3588"]
_ENTRY_ATOMS = 4
_ENTRY_BITS = 15
_REAL_CHANNELS = 64
"""DATA_SIZE1 counts channels that carry data modulo this."""


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    con1, con2, pad = registers.read(cna.ConvCon1), registers.read(cna.ConvCon2), registers.read(cna.PadCon0)
    line, surface = registers.read(cna.DmaCon1).line_stride, registers.read(cna.DmaCon2).surf_stride
    registers.waive(cna.DmaCon0, cna.FcDataSize1, cna.SPointer, cna.OperationEnable, cna.ClkGate)
    if con2.csc_do_en or con2.csc_wo_en or con2.cmd_fifo_srst:
        raise UnknownModeError("a sequencer that delivers no data is not implemented", register="CONV_CON2")
    precision, packed = con1.in_precision, con1.argb_in.channels
    width, height = registers.read(cna.FcDataSize0).dma_width, registers.read(cna.DataSize0).datain_height
    config = read_convolution(
        registers, precision, con1.proc_precision, packed=packed,
        pitches=_pitches(con1, line, surface, (height, width), element_bits(precision)),
        data_sign=registers.read(cna.CvtCon0).data_sign, converter=registers.part(_converter, con1.proc_precision),
        pads=(pad.pad_top, pad.pad_left, registers.read(cna.PadCon1).pad_value), deconv=con1.deconv,
        depthwise=con1.conv_mode is ConvMode.DEPTHWISE, input_group=_CHIP.weight_group[1],
    )  # fmt: skip
    _check_rows(config, registers.read(cna.CbufCon1).data_entries)
    return config


def read_convolution(
    registers: Registers, precision: Precision, weights: Precision, *, packed: int, pitches: tuple[int, int],
    data_sign: bool, converter: task_cna.Converter | None, pads: tuple[int, int, int], deconv: bool, depthwise: bool,
    input_group: int,
) -> task_cna.Config:  # fmt: skip
    """What RK3566's registers say as RK3588's do, with the rest given."""
    con3 = registers.read(cna.ConvCon3)
    size0, size1 = registers.read(cna.DataSize0), registers.read(cna.DataSize1)
    size2, size3 = registers.read(cna.DataSize2), registers.read(cna.DataSize3)
    weight1, weight2 = registers.read(cna.WeightSize1), registers.read(cna.WeightSize2)
    registers.expect_zero(cna.FcCon0, cna.FcCon1, cna.FcCon2)
    if size2.dataout_width == 0 or size3.dataout_atomics % size2.dataout_width:
        raise ExecutionError(
            f"{size3.dataout_atomics} output pixels are not whole rows of {size2.dataout_width}", register="DATA_SIZE3"
        )
    bits, taps, chip = element_bits(weights), weight2.weight_height * weight2.weight_width, registers.chip
    return task_cna.Config(
        feature_address=registers.read(cna.FeatureDataAddr).feature_base_addr,
        height=size0.datain_height,
        width=size0.datain_width,
        channels=size1.datain_channel,
        packed_channels=packed,
        line_bytes=pitches[0],
        surface_bytes=pitches[1],
        precision=precision,
        is_unsigned=not data_sign and precision is Precision.INT8 and packed > 0,
        converter=converter,
        pad_top=pads[0],
        pad_left=pads[1],
        pad_bits=pads[2],
        out_height=size3.dataout_atomics // size2.dataout_width,
        out_width=size2.dataout_width,
        weight_address=registers.read(cna.DcompAddr0).decompress_addr0,
        weight_bytes=registers.read(cna.WeightSize0).weight_bytes,
        weight_channels=weight1.weight_bytes_per_kernel * 8 // (bits * max(taps, 1)),
        weight_precision=weights,
        kernels=weight2.weight_kernels,
        kernel_height=weight2.weight_height,
        kernel_width=weight2.weight_width,
        stride_x=con3.conv_x_stride,
        stride_y=con3.conv_y_stride,
        dilation_x=con3.atrous_x_dilation,
        dilation_y=con3.atrous_y_dilation,
        spread_x=con3.deconv_x_stride if deconv else 1,
        spread_y=con3.deconv_y_stride if deconv else 1,
        depthwise=depthwise,
        atom_bytes=chip.atom_bytes,
        kernel_group=chip.weight_group[0] * 8 // bits,
        input_group=input_group,
        depthwise_group=chip.depthwise_group * 8 // bits,
        reuses_weights=bool(registers.read(cna.CbufCon0).weight_reuse),
        compression=registers.part(_compression, weights),
    )


def _compression(registers: Registers, weights: Precision) -> task_cna.Compression | None:
    return read_compression(registers.named("CNA"), weights)


def _pitches(con1: cna.ConvCon1, line: int, surface: int, fetched: tuple[int, int], bits: int) -> tuple[int, int]:
    """Bytes from line to line and from surface to surface."""
    if con1.argb_in.channels:
        return line * con1.argb_in.channels * bits // 8, 0
    (height, width), alone = fetched, con1.group_line_off
    pitch = line_bytes(line, ATOM_BYTES, alone=alone, height=height, width=width)
    return pitch, (surface + (width if alone else 4 * width)) * ATOM_BYTES


def _converter(registers: Registers, precision: Precision) -> task_cna.Converter | None:
    con0 = registers.read(cna.CvtCon0)
    con1, con2 = registers.read(cna.CvtCon1), registers.read(cna.CvtCon2)
    con3, con4 = registers.read(cna.CvtCon3), registers.read(cna.CvtCon4)
    lanes = int(registers.read(cna.CvtCon5).per_channel_cvt_en)
    if con0.cvt_bypass:
        return None
    if is_float(precision):
        raise UnknownModeError("the input converter on floating point data is not implemented", register="CVT_CON0")
    return task_cna.Converter(
        add_first=con0.cvt_type,
        rounding=numerics.Rounding(int(con0.round_type)),
        shifts=(con0.cvt_truncate_0, con0.cvt_truncate_1, con0.cvt_truncate_2, con0.cvt_truncate_3),
        scales=(con1.cvt_scale0, con2.cvt_scale1, con3.cvt_scale2, con4.cvt_scale3),
        offsets=(con1.cvt_offset0, con2.cvt_offset1, con3.cvt_offset2, con4.cvt_offset3),
        lanes=lanes,
    )


def _check_rows(config: task_cna.Config, entries: int) -> None:
    """Rows must have their room in CBUF: with too few entries they overlap, and the board computes nonsense.

    A single row overlaps nothing, and Expand of one pixel asks for 0 entries.
    """
    if config.height == 1:
        return
    if config.packed_channels and max(config.spread_x, config.spread_y) > 1:  # a transposed convolution of a picture
        needed = -(-config.width // _ENTRY_ATOMS)
    elif config.packed_channels:
        needed = config.width * config.height
    else:
        needed = row_entries(surfaces_of(config.channels, config.precision), config.width, _ENTRY_ATOMS)
    if entries < needed % (1 << _ENTRY_BITS):
        raise ExecutionError(
            f"a row needs {needed} entries of CBUF and gets {entries}: rows would overlap", register="CBUF_CON1"
        )


def configure_fetch(registers: Registers, source: task_cna.Config) -> Fetch:
    """Read what CNA's registers say beside the convolution."""
    use, size = registers.read(cna.CbufCon0), registers.read(cna.DataSize1)
    rest, rows = size.datain_channel_real, 0
    if source.packed_channels:
        surface = registers.read(cna.DmaCon2).surf_stride + source.width
        rows = surface // registers.read(cna.DmaCon1).line_stride
    entries, grains = registers.read(cna.CbufCon1).data_entries, registers.read(cna.ConvCon2).feature_grains
    return Fetch(
        BufferUse(use.data_bank, use.weight_bank, entries, grains, bool(use.data_reuse)),
        (size.datain_channel - rest) // _REAL_CHANNELS * _REAL_CHANNELS + rest, bool(use.weight_reuse), rows,
    )  # fmt: skip


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """Read CORE's registers; they must agree with CNA's."""
    misc = registers.read(core.MiscCfg)
    clip = registers.read(core.ClipTruncate)
    size = registers.read(core.DataoutSize0)
    registers.expect_zero(core.Unknown3030)
    registers.waive(core.DataoutSize1, core.SPointer, core.OperationEnable, core.MacGating)
    if misc.dw_en != convolution.depthwise or misc.proc_precision is not convolution.weight_precision:
        raise ExecutionError("CORE and CNA do not agree on the kind of convolution", register="MISC_CFG")
    if (size.dataout_height, size.dataout_width) != (convolution.out_height, convolution.out_width):
        raise ExecutionError(
            f"CORE delivers {size.dataout_height} x {size.dataout_width} pixels, CNA feeds "
            f"{convolution.out_height} x {convolution.out_width}",
            register="DATAOUT_SIZE_0",
        )
    return task_core.Config(misc.qd_en, clip.clip_truncate, numerics.Rounding(int(clip.round_type)))


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers."""
    mode = registers.read(dpu_rdma.FeatureModeCfg)
    source = registers.read(dpu_rdma.SrcDmaCfg)
    erdma = registers.read(dpu_rdma.ErdmaCfg)
    height = registers.read(dpu_rdma.DataCubeHeight)
    width = registers.read(dpu_rdma.DataCubeWidth).width
    registers.expect_zero(dpu_rdma.PadCfg)
    registers.waive(dpu_rdma.Weight, dpu_rdma.SPointer, dpu_rdma.OperationEnable)
    if erdma.erdma_nonalign or erdma.erdma_surf_mode:
        raise UnknownModeError("packed or serial EW operands are not implemented", register="RDMA_ERDMA_CFG")
    if source.pooling_method:
        raise UnknownModeError("unpooling other than repetition is not implemented", register="RDMA_SRC_DMA_CFG")
    main_notch = registers.read(dpu_rdma.SurfNotch).surf_notch_addr
    operand_notch = registers.read(dpu_rdma.EwSurfNotch).ew_surf_notch
    main_address = registers.read(dpu_rdma.SrcBaseAddr).src_base_addr
    operand_address = registers.read(dpu_rdma.EwBaseAddr).ew_base_addr
    operand_stride = registers.read(dpu_rdma.EwSurfStride).ew_surf_stride
    rows = height.height
    return task_rdma.Config(
        width=width,
        height=rows,
        channels=registers.read(dpu_rdma.DataCubeChannel).channel,
        precision=Precision.FP16 if decode_dpu.keeps_fp16(registers.read(dpu.DataFormat)) else mode.in_precision,
        proc_precision=mode.proc_precision,
        main=task_rdma.walk(main_address, width, rows, line_notch=source.line_notch_addr, surface_notch=main_notch)
        if not mode.mrdma_disable or mode.comb_use & CombineUse.ENABLE
        else None,
        bias_kinds=registers.read(dpu_rdma.BrdmaCfg).brdma_data_use,
        bias_address=registers.read(dpu_rdma.BsBaseAddr).bs_base_addr,
        norm_kinds=registers.read(dpu_rdma.NrdmaCfg).nrdma_data_use,
        norm_address=registers.read(dpu_rdma.BnBaseAddr).bn_base_addr,
        operand=None
        if erdma.erdma_disable
        else task_rdma.Operand(
            erdma.erdma_data_mode,
            element_bytes(erdma.erdma_data_size),
            task_rdma.walk(
                operand_address, width, rows, line_notch=height.ew_line_notch_addr, surface_notch=operand_notch
            ),
            operand_stride * ATOM_BYTES,
        ),
        combine=mode.comb_use,
        repeat_x=source.kernel_width,
        repeat_y=source.kernel_height,
        repeats=source.unpooling_en,
    )


_SIZES = {1: PixelBits.BITS8, 2: PixelBits.BITS16}


def configure_pooling(registers: Registers) -> task_ppu.Config:
    """Read PPU's and PPU_RDMA's registers."""
    low, high = registers.read(ppu.PaddingValue1Cfg), registers.read(ppu.PaddingValue2Cfg)
    value = int(low.pad_value_0) & 0xFFFFFFFF | (int(high.pad_value_1) & 7) << 32
    config = read_pooling(registers, (value ^ 1 << 34) - (1 << 34))
    check_pooling(registers)
    if registers.read(ppu_rdma.DataFormat).in_precision is not _SIZES[element_bytes(config.precision)]:
        raise ExecutionError("PPU and its reader do not agree on the element size", register="RDMA_DATA_FORMAT")
    return config


def check_pooling(registers: Registers) -> None:
    """Reject features that no known program uses."""
    unit = registers.named("PPU")
    misc, mode = unit.fields("MISC_CTRL"), unit.fields("OPERATION_MODE_CFG")
    if not mode["flying_mode"] or unit("DATA_FORMAT", "dpu_flyin"):
        raise UnknownModeError("pooling straight from the DPU is not implemented", register="OPERATION_MODE_CFG")
    if mode["index_en"] or mode["use_cnt"] or misc["nonalign"] or misc["mc_surf_out"]:
        raise UnknownModeError("this form of pooling output is not implemented", register="MISC_CTRL")


def read_pooling(registers: Registers, pad_value: int) -> task_ppu.Config:
    """What PPU and PPU_RDMA of all chips have."""
    unit, reader, atom = registers.named("PPU"), registers.named("PPU_RDMA"), registers.chip.atom_bytes
    mode, kernel, padding = (
        unit.fields(name) for name in ("OPERATION_MODE_CFG", "POOLING_KERNEL_CFG", "POOLING_PADDING_CFG")
    )
    unit.waive("DATA_CUBE_OUT_CHANNEL", "S_POINTER", "OPERATION_ENABLE")
    reader.waive("RDMA_CUBE_IN_WIDTH", "RDMA_CUBE_IN_HEIGHT", "RDMA_CUBE_IN_CHANNEL")
    reader.waive("RDMA_S_POINTER", "RDMA_OPERATION_ENABLE")
    out_width = unit("DATA_CUBE_OUT_WIDTH", "cube_out_width")
    return task_ppu.Config(
        method=PoolingMethod(mode["pooling_method"]),
        precision=unit.precision("DATA_FORMAT", "proc_precision"),
        source_address=reader("RDMA_SRC_BASE_ADDR", "src_base_addr"),
        source_line_bytes=reader("RDMA_SRC_LINE_STRIDE", "src_line_stride") * atom,
        source_surface_bytes=reader("RDMA_SRC_SURF_STRIDE", "src_surf_stride") * atom,
        target_address=unit("DST_BASE_ADDR", "dst_base_addr"),
        target_line_bytes=(out_width + mode["notch_addr"]) * atom,
        target_surface_bytes=unit("DST_SURF_STRIDE", "dst_surf_stride") * atom,
        channels=unit("DATA_CUBE_IN_CHANNEL", "cube_in_channel"),
        height=unit("DATA_CUBE_IN_HEIGHT", "cube_in_height"),
        width=unit("DATA_CUBE_IN_WIDTH", "cube_in_width"),
        out_height=unit("DATA_CUBE_OUT_HEIGHT", "cube_out_height"),
        out_width=out_width,
        kernel_height=kernel["kernel_height"],
        kernel_width=kernel["kernel_width"],
        stride_y=kernel["kernel_stride_height"],
        stride_x=kernel["kernel_stride_width"],
        pad_top=padding["pad_top"],
        pad_left=padding["pad_left"],
        pad_value=pad_value,
        reciprocal_width=int(unit("RECIP_KERNEL_WIDTH", "recip_kernel_width")),
        reciprocal_height=int(unit("RECIP_KERNEL_HEIGHT", "recip_kernel_height")),
        atom_bytes=atom,
        pad_right=padding["pad_right"],
        pad_bottom=padding["pad_bottom"],
    )


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    mode, form = registers.read(dpu.FeatureModeCfg), registers.read(dpu.DataFormat)
    sizes = registers.read(dpu_stages.BsOwCfg)
    channel = registers.read(dpu.DataCubeChannel)
    operand = registers.read(dpu_stages.BsOwOp).ow_op
    registers.expect_zero(dpu.Unknown40C4)
    registers.waive(dpu.DataCubeWidth, dpu.SPointer, dpu.OperationEnable)
    precision = form.proc_precision
    return task_dpu.Config(
        flying=mode.flying_mode,
        precision=precision,
        in_precision=form.in_precision,
        channels=channel.channel,
        real_channels=channel.orig_channel,
        pad_bits=int(registers.read(dpu.OffsetPend).offset_pend),
        reduction=registers.read(dpu.DataCubeHeight).minmax_ctl,
        correction=None if sizes.od_bypass else task_dpu.Correction(None if sizes.ow_src else operand),
        bias=registers.part(decode_dpu.configure_bs, precision),
        norm=registers.part(decode_dpu.configure_bn, precision),
        element_wise=decode_dpu.configure_ew(registers, precision, tables),
        out=registers.part(decode_dpu.configure_out),
        write=decode_dpu.configure_write(registers),
    )


def uses_table(registers: Registers) -> bool:
    """Whether a task that loads a table also works with it, as programs for boards do (allbilly/rk3588 silu)."""
    config = registers.read(dpu_stages.EwCfg)
    return not config.ew_bypass and not config.ew_lut_bypass
