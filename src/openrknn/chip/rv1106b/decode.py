"""RV1103B and RV1106B ("w1"): no CORE and no PPU, two stages in the DPU; read into RK3588's configurations.

What is different: atoms of 8 bytes, weights in groups of 8 kernels by 16 inputs, depthwise weights of 8 channels and
then their zero points, corrections of one byte between the operands of two blocks of four channels, maximum pooling in
the array.
"""

from __future__ import annotations

from typing import NamedTuple

from openrknn import numerics
from openrknn.chip.rk3562 import decode_named_cna
from openrknn.chip.rk3562.decode_named_dpu import read_clamp
from openrknn.chip.rk3576 import operand_tensors
from openrknn.chip.task_registers import NamedRegisters, Registers, pad_bits
from openrknn.chips import CHIPS
from openrknn.errors import UnknownModeError
from openrknn.isa import BitPattern, Precision
from openrknn.isa.enums import (
    AluAlgorithm,
    ChannelReduction,
    CombineUse,
    EwAlgorithm,
    OperandKinds,
    OperandMode,
    PixelBits,
    PoolingMethod,
)
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import ew, lut, out_cvt, write
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import element_bytes
from openrknn.task.stage import Scaling, Stage

__all__ = [
    "BLOCKS", "configure_array_pooling", "configure_core", "configure_dpu", "configure_features", "configure_pooling",
    "configure_readers",
]  # fmt: skip

BLOCKS = frozenset({"CNA", "DPU"})
"""The blocks that a convolution needs; DPU_RDMA may join them."""

_CHIP = CHIPS["rv1106b"]
_ATOM = _CHIP.atom_bytes
_PAIRS = 2
_LANES = 4
_ENTRY_BYTES = 16
_PIXEL_BYTES = {3: 4}
"""Of pictures in CBUF, by the number of channels, where it is not that number."""
_MAXIMUM = 0x25
_PACKED = 2


class _Moves(NamedTuple):
    """What the DPU does with the places of numbers; E is not in a register."""

    precision: Precision
    """Of the elements by which readers count channels."""
    atoms: int
    transposes_atoms: bool = False
    lanes: int | None = None


_PLAIN = _Moves(Precision.INT8, 1)
_MOVES = {
    (0, 0x0000): _PLAIN,
    (2, 0x7777): _Moves(Precision.INT16, 8, lanes=8),
    (3, 0x3333): _Moves(Precision.INT16, 4, transposes_atoms=True),
}
"""By the codes for regrouping and for number formats."""
_RAW = 0x181


def _cna(registers: Registers) -> NamedRegisters:
    cna = registers.named("CNA")
    # CBUF and the bus; sizes that other registers hold as well.
    cna.waive("CBUF_ENTRIES", "ATOMICS", "LANE_PAD", "FC_DATA_SIZE0", "FC_DATA_SIZE1", "WEIGHT_REUSE")
    cna.waive("UNKNOWN_1030", "UNKNOWN_1040", "UNKNOWN_108C")
    cna.expect_zero("UNKNOWN_1070", "UNKNOWN_1104", "UNKNOWN_1184", "UNKNOWN_1188")
    return cna


def _pads(cna: NamedRegisters) -> tuple[int, int]:
    """Rows above and columns to the left."""
    return cna("DATA_SIZE3", "pad_top"), cna("PAD_CON0", "pad_left")


def configure_features(registers: Registers) -> task_cna.Config:
    """Read CNA's registers."""
    cna = _cna(registers)
    con1, con3, shape = cna.fields("CONV_CON1"), cna.fields("CONV_CON3"), cna.fields("WEIGHT_SHAPE")
    size, (pad_top, pad_left) = cna.fields("DATA_SIZE0"), _pads(cna)
    out_height, out_width = decode_named_cna.out_size(cna)
    real = cna("DATA_SIZE1", "datain_channel_real")
    channels = -(-real // _ATOM) * _ATOM
    depthwise, image = bool(con1["dw_en"]), bool(con1["image"])
    taps = shape["weight_height"] * shape["weight_width"]
    zero, again = cna.fields("WEIGHT_ZERO_POINT").values()
    if zero != again:
        raise UnknownModeError("two zero points are not implemented", register="WEIGHT_ZERO_POINT")
    if image == bool(con1["features"]):
        raise UnknownModeError("the input is neither a picture nor a feature map", register="CONV_CON1")
    cna.waive("CVT_SCALE01", "CVT_SCALE23", *(f"CVT{channel}" for channel in range(_LANES)))
    entries = size["datain_width"] * (_PIXEL_BYTES[real] if image and real in _PIXEL_BYTES else real)
    decode_named_cna.check_rows(cna, -(-entries // _ENTRY_BYTES))
    pairs = _PAIRS if depthwise and shape["weight_kernels"] == _PAIRS else 1
    weight_bytes = cna("WEIGHT_SIZE0", "weight_bytes")
    line_bytes = cna("LINE_STRIDE", "line_stride") * _ATOM
    rows = decode_named_cna.kept_rows(cna, line_bytes, packed=False) if cna("DIVISION", "data_reuse") else 0
    converter = _converter(cna) if cna("CVT_LANES", "cvt_lanes") else None
    return task_cna.Config(
        feature_address=cna("FEATURE_DATA_ADDR", "feature_base_addr") - rows * line_bytes,
        height=size["datain_height"],
        width=size["datain_width"],
        channels=channels,
        packed_channels=real if image else 0,
        line_bytes=line_bytes,
        surface_bytes=cna("SURF_STRIDE", "surf_stride") * _ATOM,
        precision=Precision.INT8,
        is_unsigned=image and converter is not None,
        converter=converter,
        pad_top=pad_top,
        pad_left=pad_left,
        pad_bits=pad_bits(cna("PAD_CON1", "pad_value"), Precision.INT8),
        out_height=out_height,
        out_width=out_width,
        weight_address=cna("WEIGHT_ADDR", "weight_addr"),
        weight_bytes=weight_bytes,
        weight_channels=weight_bytes // (pairs * taps) if depthwise else con1["weight_bytes_per_kernel"] // taps,
        weight_precision=Precision.INT8,
        kernels=1 if depthwise else shape["weight_kernels"],
        kernel_height=shape["weight_height"],
        kernel_width=shape["weight_width"],
        stride_x=con3["conv_x_stride"],
        stride_y=con3["conv_y_stride"],
        dilation_x=con3["atrous_x_dilation"],
        dilation_y=con3["atrous_y_dilation"],
        spread_x=con3["deconv_x_stride"],
        spread_y=con3["deconv_y_stride"],
        depthwise=depthwise,
        atom_bytes=_ATOM,
        kernel_group=_CHIP.weight_group[0],
        input_group=_CHIP.weight_group[1],
        depthwise_group=_CHIP.depthwise_group,
        inline_zero_points=_CHIP.inline_zero_points if pairs == _PAIRS else 0,
        weight_offset=decode_named_cna.negated_zero_point(zero),
    )


def _converter(cna: NamedRegisters) -> task_cna.Converter:
    """(x * scale + offset) >> shift; pictures add after the shift, matrix products before the multiplication."""
    low, high = cna.fields("CVT_SCALE01"), cna.fields("CVT_SCALE23")
    lanes = [cna.fields(f"CVT{channel}") for channel in range(_LANES)]
    scales = (low["cvt_scale0"], low["cvt_scale1"], high["cvt_scale2"], high["cvt_scale3"])
    shifts = tuple(lane["cvt_truncate"] for lane in lanes)
    raised = [lane["cvt_offset"] for lane in lanes]
    units = [1 << shift for shift in shifts]
    add_first = any(offset % unit for offset, unit in zip(raised, units, strict=True))
    if add_first:
        units = list(scales)
    if any(offset % unit for offset, unit in zip(raised, units, strict=True)):
        raise UnknownModeError("offsets that are not whole are not implemented", register="CVT0")
    return task_cna.Converter(
        add_first=add_first,
        rounding=numerics.Rounding.EVEN,
        shifts=shifts,
        scales=scales,
        offsets=tuple(offset // unit for offset, unit in zip(raised, units, strict=True)),
        lanes=0xFFFF,
    )


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """There is no CORE: what it delivers is said in CNA."""
    sums = registers.named("CNA")("CONV_CON1", "qd_en")
    return task_core.Config(bool(sums) and not convolution.depthwise, 0, numerics.Rounding.EVEN)


def configure_array_pooling(registers: Registers) -> task_ppu.Config | None:
    """Maximum pooling: a convolution without weights whose windows come out one pixel after another."""
    cna, dpu = _cna(registers), registers.named("DPU")
    con1, shape, con3 = cna.fields("CONV_CON1"), cna.fields("WEIGHT_SHAPE"), cna.fields("CONV_CON3")
    if not con1["pooling"]:
        return None
    if cna("DIVISION", "data_reuse"):
        raise UnknownModeError("pooling that keeps rows is not implemented", register="DIVISION")
    size, (pad_top, pad_left) = cna.fields("DATA_SIZE0"), _pads(cna)
    out_height, out_width = decode_named_cna.out_size(cna)
    taps = shape["weight_height"] * shape["weight_width"]
    cna.waive("WEIGHT_SIZE0", "WEIGHT_ADDR", "WEIGHT_ZERO_POINT", "CBUF_CON1", "CVT_LANES")
    cna.waive("CVT_SCALE01", "CVT_SCALE23", *(f"CVT{channel}" for channel in range(_LANES)))
    mode, reduced = dpu.fields("FEATURE_MODE_CFG"), dpu("EW_OPERAND", "ew_operand") & 0xFF
    if mode["reduction"] != _MAXIMUM or reduced + 1 != taps or (dpu("SURF_LEN", "surf_len") >> 8) + 1 != taps:
        raise UnknownModeError("this form of pooling is not implemented", register="FEATURE_MODE_CFG")
    walk, out = _write(dpu, _PLAIN), _out(dpu)
    stages = _bias(dpu), _element_wise(dpu, None)
    if stages != (None, None) or (out.scale, out.shift, out.offset) != (1, 0, 0):
        raise UnknownModeError("pooling that computes more is not implemented", register="BS_CFG")
    operand_tensors.configure_table(dpu, None)
    return task_ppu.Config(
        method=PoolingMethod.MAX,
        precision=Precision.INT8,
        source_address=cna("FEATURE_DATA_ADDR", "feature_base_addr"),
        source_line_bytes=cna("LINE_STRIDE", "line_stride"),
        source_surface_bytes=cna("SURF_STRIDE", "surf_stride") * _ATOM,
        target_address=walk.address,
        target_line_bytes=walk.line_bytes,
        target_surface_bytes=walk.group_step_bytes,
        channels=cna("DATA_SIZE1", "datain_channel_real"),
        height=size["datain_height"],
        width=size["datain_width"],
        out_height=out_height,
        out_width=out_width,
        kernel_height=shape["weight_height"],
        kernel_width=shape["weight_width"],
        stride_y=con3["conv_y_stride"],
        stride_x=con3["conv_x_stride"],
        pad_top=pad_top,
        pad_left=pad_left,
        pad_value=BitPattern(cna("PAD_CON1", "pad_value") << 8).int16 >> 8,
        reciprocal_width=0,
        reciprocal_height=0,
        atom_bytes=_ATOM,
    )


def configure_dpu(registers: Registers, tables: lut.Tables) -> task_dpu.Config:
    """Read DPU's registers."""
    dpu = registers.named("DPU")
    mode, form, channel = (dpu.fields(name) for name in ("FEATURE_MODE_CFG", "DATA_FORMAT", "DATA_CUBE_CHANNEL"))
    moves = _MOVES.get((form["regroup"], form["formats"]))
    if moves is None:
        raise UnknownModeError("floating point is not implemented for this chip", register="DATA_FORMAT")
    if mode["reduction"] or mode["flag_1"] or mode["flag_10"] or mode["copies"] not in {0, 1, _PACKED}:
        raise UnknownModeError("this way of the data is not implemented for this chip", register="FEATURE_MODE_CFG")
    operands = registers.named("DPU_RDMA").fields("RDMA_BRDMA_CFG")
    real = channel["orig_channel"]
    return task_dpu.Config(
        flying=bool(mode["flying_mode"]),
        precision=Precision.INT8,
        in_precision=moves.precision,
        channels=-(-real // _ATOM) * _ATOM,
        real_channels=real,
        pad_bits=dpu("OFFSET_PEND", "offset_pend"),
        reduction=ChannelReduction(0),
        correction=task_dpu.Correction(None) if operands["cpend"] and not mode["flying_mode"] else None,
        bias=_bias(dpu),
        norm=None,
        element_wise=_element_wise(dpu, operand_tensors.configure_table(dpu, tables)),
        out=_out(dpu),
        write=_write(dpu, moves, packed=mode["copies"] == _PACKED),
    )


def _bias(dpu: NamedRegisters) -> Stage | None:
    config, shift = dpu.fields("BS_CFG"), dpu.fields("BS_SHIFT")
    addend, factor = dpu("BS_ALU_CFG", "bs_alu_operand"), dpu("BS_MUL_CFG", "bs_mul_operand")
    clamp = read_clamp(dpu, "BS", Precision.INT8)
    if config["bs_bypass"]:
        return None
    if not config["bs_alu_bypass"] and config["bs_alu_algo"] != AluAlgorithm.ADD:
        raise UnknownModeError("the adder is on, but its algorithm is unknown", register="BS_CFG")
    scaling = Scaling(
        operand=None if config["bs_mul_src"] else BitPattern(factor).int16,
        shift=shift["bs_mul_shift_value"],
        shift_negative=shift["bs_mul_shift_value_neg"],
        negative_only=False,
    )
    return Stage(
        adds=not config["bs_alu_bypass"],
        addend=None if config["bs_alu_src"] else BitPattern(addend).int32,
        subtracts=False,
        scaling=None if config["bs_mul_bypass"] else scaling,
        clamp=clamp,
        is_float=False,
    )


def _element_wise(dpu: NamedRegisters, table: lut.Config | None) -> ew.Config | None:
    config, scale = dpu.fields("EW_CFG"), dpu.fields("EW_CVT_SCALE_VALUE")
    operand, clamp = BitPattern(dpu("EW_OPERAND", "ew_operand")).int16, read_clamp(dpu, "EW", Precision.INT8)
    dpu.expect_zero("UNKNOWN_4054", "UNKNOWN_4058")
    if config["ew_bypass"]:
        return None
    parts = [part for part in ("mul", "div", "alu") if not config[f"ew_{part}_bypass"]]
    if len(parts) > 1 or "div" in parts:
        raise UnknownModeError(f"{' and '.join(parts)} is not implemented for this chip", register="EW_CFG")
    if not parts:
        return ew.Config(table=table, operation=None, clamp=clamp)
    (part,) = parts
    converter = ew.Converter(
        add_first=True,
        offset=scale["ew_op_cvt_offset"],
        scale=scale["ew_op_cvt_scale"],
        shift=config["ew_op_cvt_shift"],
        rounding=numerics.Rounding.EVEN,
    )
    is_tensor = bool(config[f"ew_{part}_src"])
    operation = ew.Operation(
        multiplies=part == "mul",
        algorithm=EwAlgorithm(config["ew_alu_algo"]),
        operand=None if is_tensor else operand,
        converter=converter if is_tensor else None,
        negative_only=bool(config["ew_mul_prelu"]),
        shift=0,
        shift_negative=0,
    )
    return ew.Config(table=table, operation=operation, clamp=clamp)


def _out(dpu: NamedRegisters) -> out_cvt.Config:
    converter = dpu.fields("OUT_CVT")
    return out_cvt.Config(
        precision=Precision.INT8,
        scale=converter["out_cvt_scale"],
        shift=converter["out_cvt_shift"],
        offset=dpu("OUT_CVT_OFFSET", "out_cvt_offset"),
        add_first=False,
        rounding=numerics.Rounding.EVEN,
        minus_exponent=0,
    )


def _write(dpu: NamedRegisters, moves: _Moves, *, packed: bool = False) -> write.Config:
    size, form, sizes = dpu.fields("WDMA_SIZE"), dpu.fields("PACKING"), dpu.fields("DATA_CUBE_SIZE")
    dpu.waive("DATA_CUBE_CHANNEL", "DATA_FORMAT", "SURF_LEN", "OFFSET_PEND", "UNKNOWN_406C", "UNKNOWN_4074")
    line = (size["width_wdma"] + dpu("DATA_CUBE_NOTCH_ADDR", "notch_addr_0")) * _ATOM
    whole = (size["height_wdma"] - 1) * line + size["width_wdma"] * _ATOM
    run = (sizes["width"] * sizes["height"] - 1) * _ATOM + form["kept"]
    return write.Config(
        address=dpu("DST_BASE_ADDR", "dst_base_addr"),
        per_pixel=moves.atoms,
        width=size["width_wdma"],
        height=size["height_wdma"],
        line_bytes=line,
        atom_step_bytes=dpu("DST_SURF_STRIDE", "dst_surf_stride") * _ATOM,
        group_step_bytes=whole + dpu("SURFACE_ADD", "surf_add") * _ATOM,
        packed_bytes=_ATOM if packed else None,
        transposes_atoms=moves.transposes_atoms,
        transposed_lanes=moves.lanes,
        atom_bytes=_ATOM,
        packed_run_bytes=run if packed and form["kept"] else None,
        packed_limit_bytes=dpu("SURF_LEN", "surf_len") * _ATOM if packed else None,
    )


def configure_readers(registers: Registers) -> task_rdma.Config:
    """Read DPU_RDMA's registers."""
    reader = registers.named("DPU_RDMA")
    mode, brdma, erdma = (
        reader.fields(name) for name in ("RDMA_FEATURE_MODE_CFG", "RDMA_BRDMA_CFG", "RDMA_ERDMA_CFG")
    )
    size = reader.fields("RDMA_DATA_CUBE_SIZE")
    reader.waive("RDMA_WEIGHT", "UNKNOWN_5080", "RDMA_EW_SURF_NOTCH", "RDMA_EW_CUBE_SIZE")
    reader.expect_zero("UNKNOWN_507C")
    if mode["formats"] not in {0, _RAW} or mode["flag_8"]:
        raise UnknownModeError("this format is not implemented for this chip", register="RDMA_FEATURE_MODE_CFG")
    width, height = size["width"], size["height"]
    main = task_rdma.walk(
        reader("RDMA_SRC_BASE_ADDR", "src_base_addr"),
        width,
        height,
        line_notch=reader("RDMA_LINE_NOTCH", "line_notch_addr"),
        surface_notch=reader("RDMA_SURF_NOTCH", "surf_notch_addr"),
        atom_bytes=_ATOM,
    )
    operand = task_rdma.Walk(
        reader("RDMA_EW_BASE_ADDR", "ew_base_addr"),
        width * _ATOM,
        reader("RDMA_EW_SURF_STRIDE", "ew_surf_stride") * _ATOM,
    )
    kinds = OperandKinds(0)
    for name, kind in (("alu", OperandKinds.ALU), ("mul", OperandKinds.MUL), ("cpend", OperandKinds.CPEND)):
        kinds |= kind if brdma[name] else OperandKinds(0)
    return task_rdma.Config(
        width=width,
        height=height,
        channels=reader("RDMA_DATA_CUBE_CHANNEL", "channel"),
        precision=Precision.INT16 if mode["formats"] == _RAW else Precision.INT8,
        proc_precision=Precision.INT8,
        main=None if mode["mrdma_disable"] else main,
        bias_kinds=kinds,
        bias_address=reader("RDMA_BS_BASE_ADDR", "bs_base_addr"),
        norm_kinds=OperandKinds(0),
        norm_address=0,
        operand=None
        if erdma["erdma_disable"]
        else task_rdma.Operand(
            OperandMode(erdma["erdma_data_mode"]), element_bytes(PixelBits(erdma["erdma_data_size"])), operand
        ),
        combine=CombineUse(0),
        repeat_x=1,
        repeat_y=1,
        repeats=False,
        operand_block=_CHIP.bias_group,
        atom_bytes=_ATOM,
        byte_corrections=True,
    )


def configure_pooling(_: Registers) -> task_ppu.Config:
    """There is no PPU."""
    raise UnknownModeError("this chip has no PPU; it pools in the array")
