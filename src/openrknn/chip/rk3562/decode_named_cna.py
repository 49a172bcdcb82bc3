"""CNA of RK3562, RK3576 and RV1103/06: readers of registers that differ only in their places."""

from __future__ import annotations

from openrknn import numerics
from openrknn.chip.compression import read_compression
from openrknn.chip.task_registers import NamedRegisters, line_bytes, pad_bits
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import ArgbInput
from openrknn.task import cna as task_cna
from openrknn.task.formats import element_bits, is_float

__all__ = [
    "check_rows", "kept_rows", "line_pitch", "negated_zero_point", "out_size", "read_converter", "read_convolution",
]  # fmt: skip

_LANES = 4
_ALL_LANES = 0xFFFF_FFFF


def line_pitch(cna: NamedRegisters, atom_bytes: int) -> int:
    """Bytes from line to line of a tensor."""
    size, alone = cna.fields("DATA_SIZE0"), bool(cna("CONV_CON1", "group_line_off"))
    stride, height, width = cna("DMA_CON1", "line_stride"), size["datain_height"], size["datain_width"]
    return line_bytes(stride, atom_bytes, alone=alone, height=height, width=width)


def read_convolution(
    cna: NamedRegisters,
    *,
    channels: int,
    line_bytes: int,
    surface_bytes: int,
    depthwise: bool,
    converter: task_cna.Converter | None,
    weights: Precision | None = None,
) -> task_cna.Config:
    """The registers that all of them have; what a chip keeps elsewhere, or alone, its own file gives or puts in.

    `weights` is their number format where it may be another than that of the array; they are grouped as if it were not.
    """
    con1, con3, size0 = cna.fields("CONV_CON1"), cna.fields("CONV_CON3"), cna.fields("DATA_SIZE0")
    weight2, pad, (out_height, out_width) = cna.fields("WEIGHT_SIZE2"), cna.fields("PAD_CON0"), out_size(cna)
    precision, arithmetic = Precision(con1["in_precision"]), Precision(con1["proc_precision"])
    stored, packed = arithmetic if weights is None else weights, ArgbInput(con1["argb_in"]).channels
    bits, wide = element_bits(stored), element_bits(arithmetic)
    taps = max(weight2["weight_height"] * weight2["weight_width"], 1)
    # A dense convolution with one kernel has the number here too, and in BS_OW_OP, which corrects its sums for it.
    zero_point = negated_zero_point(cna("DW_ZERO_POINT", "negated"))
    # The order of the work, CBUF and the bus; sizes that other registers hold as well.
    cna.waive("CONV_CON2", "CBUF_CON0", "CBUF_ENTRIES", "FC_DATA_SIZE0", "FC_DATA_SIZE1", "DMA_CON0", "READ_SIZE")
    return task_cna.Config(
        feature_address=cna("FEATURE_DATA_ADDR", "feature_base_addr"),
        height=size0["datain_height"],
        width=size0["datain_width"],
        channels=channels,
        packed_channels=packed,
        line_bytes=line_bytes,
        surface_bytes=surface_bytes,
        precision=precision,
        is_unsigned=packed > 0 and precision is Precision.INT8 and not cna("CVT_CON0", "data_sign"),
        converter=converter,
        pad_top=pad["pad_top"],
        pad_left=pad["pad_left"],
        pad_bits=pad_bits(cna("PAD_CON1", "pad_value"), precision),
        out_height=out_height,
        out_width=out_width,
        weight_address=cna("DCOMP_ADDR0", "decompress_addr0"),
        weight_bytes=cna("WEIGHT_SIZE0", "weight_bytes"),
        weight_channels=cna("WEIGHT_SIZE1", "weight_bytes_per_kernel") * 8 // (bits * taps),
        weight_precision=stored,
        kernels=weight2["weight_kernels"],
        kernel_height=weight2["weight_height"],
        kernel_width=weight2["weight_width"],
        stride_x=con3["conv_x_stride"],
        stride_y=con3["conv_y_stride"],
        dilation_x=con3["atrous_x_dilation"],
        dilation_y=con3["atrous_y_dilation"],
        spread_x=con3["deconv_x_stride"],
        spread_y=con3["deconv_y_stride"],
        depthwise=depthwise,
        atom_bytes=cna.chip.atom_bytes,
        kernel_group=cna.chip.weight_group[0] * 8 // wide,
        input_group=cna.chip.weight_group[1],
        depthwise_group=cna.chip.depthwise_group * 8 // wide,
        weight_offset=zero_point if depthwise else 0,
        compression=read_compression(cna, stored),
    )


def out_size(cna: NamedRegisters) -> tuple[int, int]:
    """Height and width of the output."""
    atomics, width = cna("DATA_SIZE3", "dataout_atomics"), cna("DATA_SIZE2", "dataout_width")
    if not width or atomics % width:
        raise ExecutionError("the output pixels are not whole rows", register="DATA_SIZE3")
    return atomics // width, width


def negated_zero_point(byte: int) -> int:
    """Of all depthwise weights, from its byte: 128 does not fit, and 0x80 stands for it."""
    return byte - 256 if byte > 128 else byte


def kept_rows(cna: NamedRegisters, line_bytes: int, *, packed: bool) -> int:
    """Rows of the task before that are still in CBUF. The DMA leaves them out; they are in memory before the others."""
    fetched = cna.fields("FC_DATA_SIZE0")
    if packed and not line_bytes:
        raise ExecutionError("rows of a packed picture have no width", register="DATA_SIZE0")
    rows = fetched["dma_width"] * cna.chip.atom_bytes // line_bytes if packed else fetched["dma_height"]
    return cna("DATA_SIZE0", "datain_height") - rows


def check_rows(cna: NamedRegisters, needed: int) -> None:
    """A row must have its room in CBUF: with too few entries rows would overlap. A single row overlaps nothing."""
    entries, rows = cna("CBUF_CON1", "data_entries"), cna("DATA_SIZE0", "datain_height")
    if entries < needed and rows > 1:
        text = f"a row needs {needed} entries of CBUF and gets {entries}: rows would overlap"
        raise ExecutionError(text, register="CBUF_CON1")


def read_converter(cna: NamedRegisters, precision: Precision) -> task_cna.Converter | None:
    """The input converter; None where it is off."""
    con0, low, high = cna.fields("CVT_CON0"), cna.fields("CVT_SCALE01"), cna.fields("CVT_SCALE23")
    offsets = tuple(cna(f"CVT_OFFSET{channel}", "cvt_offset") for channel in range(_LANES))
    lanes, packed = cna("CVT_LANES", "cvt_lanes"), cna("CONV_CON1", "argb_in")
    if con0["cvt_bypass"]:
        return None
    if is_float(precision) or not (packed or lanes == _ALL_LANES):
        raise UnknownModeError("this form of the input converter is not implemented", register="CVT_CON0")
    return task_cna.Converter(
        add_first=bool(con0["cvt_type"]),
        rounding=numerics.Rounding(con0["round_type"]),
        shifts=tuple(con0[f"cvt_truncate_{channel}"] for channel in range(_LANES)),
        scales=(low["cvt_scale0"], low["cvt_scale1"], high["cvt_scale2"], high["cvt_scale3"]),
        offsets=offsets,
        lanes=0xFFFF,
    )
