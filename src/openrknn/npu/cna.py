"""CNA: fetches features and weights, converts pictures, pads.

    features[c, y, x] = memory[base + (c div C2) * surface + y * line + x * 16 + (c mod C2) * bytes]
    packed picture    = memory[base + (y * line_pixels + x) * channels * bytes + c * bytes]
    converter         = round((x + offset) * scale >> shift)   or   round(x * scale >> shift) + offset
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import ConvMode, Precision, cna
from openrknn.isa.rk3588 import RK3588
from openrknn.npu.compression import Compression, decompressed, read_compression
from openrknn.npu.formats import ATOM_BYTES, Numbers, decode, element_bytes, is_float, surfaces
from openrknn.npu.memory import Bytes, Memory
from openrknn.npu.named import NamedRegisters
from openrknn.npu.registers import Registers

__all__ = ["NOT_A_BYTE", "Config", "Converter", "configure", "fetch_features", "fetch_weights", "pairs_of",
           "stored_weights"]

_KERNEL_BYTES_PER_GROUP = 32
_INPUTS_PER_GROUP = 32
_DEPTHWISE_BYTES_PER_GROUP = 64
NOT_A_BYTE = -128
"""In place of a negated zero point of 128, which does not fit."""
_ENTRY_ATOMS = 4
_ENTRY_BITS = 15


@dataclass(frozen=True, slots=True)
class Converter:
    """The input converter; lane k serves the channels c with c mod 4 = k."""

    add_first: bool
    rounding: numerics.Rounding
    shifts: tuple[int, ...]
    scales: tuple[int, ...]
    offsets: tuple[int, ...]
    lanes: int
    """Bit k: channels c with c mod 16 = k are converted."""


@dataclass(frozen=True, slots=True)
class Config:
    """One convolution's input side, in natural units."""

    feature_address: int
    height: int
    width: int
    channels: int
    packed_channels: int
    """Channels of a packed picture; 0 for feature maps."""
    line_bytes: int
    surface_bytes: int
    precision: Precision
    is_unsigned: bool
    converter: Converter | None
    pad_top: int
    pad_left: int
    pad_bits: int
    out_height: int
    out_width: int
    weight_address: int
    weight_bytes: int
    weight_channels: int
    weight_precision: Precision
    kernels: int
    kernel_height: int
    kernel_width: int
    stride_x: int
    stride_y: int
    dilation_x: int
    dilation_y: int
    spread_x: int
    """Transposed convolution: distance between input pixels once pad values stand between them; 1 = none."""
    spread_y: int
    depthwise: bool
    atom_bytes: int = ATOM_BYTES
    kernel_group: int = 32
    """Kernels in one group of weights."""
    input_group: int = 32
    depthwise_group: int = 64
    inline_zero_points: int = 0
    """Depthwise: this many weights, then as many negated zero points, take turns; the weight is their sum."""
    weight_offset: int = 0
    """Depthwise: negated zero point of all weights."""
    folded_width: int = 0
    """Feature maps: the one input row lies in memory as lines of so many pixels; 0: it does not."""
    packed_rows: bool = False
    """Image weights: each row of a kernel fills whole 16 bytes of its own, [group, row, kernel, column and channel]."""
    input_major: bool = False
    """Weights of one pixel lie as [input, kernel], as a fully connected layer with zero skipping wants them."""
    reuses_weights: bool = False
    """The buffer holds them already: no result depends on it, but what is read does."""
    compression: Compression | None = None
    """None: the weights are stored as they are."""

    @property
    def is_float(self) -> bool:
        return is_float(self.weight_precision)

    def pads(self, channels: int) -> Numbers:
        """The padding value of each channel.

        Integers take the low byte; depthwise int8 has two lanes, even channels the low byte, odd ones the next.
        """
        bits = self.pad_bits
        if self.precision is Precision.INT8:
            low, high = (int(np.int8(np.uint8(bits >> shift & 0xFF))) for shift in (0, 8))
            pads = np.full(channels, low, np.int64)
            if self.depthwise:
                pads[1::2] = high
            return pads
        pattern = np.array([bits & 0xFFFF], np.uint16)
        if self.precision is Precision.INT16:
            return np.full(channels, int(pattern.view(np.int16)[0]), np.int64)
        value = numerics.decode_bf16(pattern) if self.precision is Precision.BF16 else numerics.decode_fp16(pattern)
        return np.full(channels, value[0], np.float32)


def configure(registers: Registers) -> Config:
    """Read CNA's registers."""
    con1 = registers.read(cna.ConvCon1)
    con2 = registers.read(cna.ConvCon2)
    con3 = registers.read(cna.ConvCon3)
    size0, size1 = registers.read(cna.DataSize0), registers.read(cna.DataSize1)
    size2, size3 = registers.read(cna.DataSize2), registers.read(cna.DataSize3)
    weight1, weight2 = registers.read(cna.WeightSize1), registers.read(cna.WeightSize2)
    pad0 = registers.read(cna.PadCon0)
    dma = registers.read(cna.FcDataSize0)
    line, surface = registers.read(cna.DmaCon1).line_stride, registers.read(cna.DmaCon2).surf_stride
    registers.expect_zero(cna.FcCon0, cna.FcCon1, cna.FcCon2)
    registers.waive(cna.DmaCon0, cna.FcDataSize1, cna.SPointer, cna.OperationEnable, cna.ClkGate)
    if con2.csc_do_en or con2.csc_wo_en or con2.cmd_fifo_srst:
        raise UnknownModeError("the sequencer is told not to deliver data", register="CONV_CON2")
    if size2.dataout_width == 0 or size3.dataout_atomics % size2.dataout_width:
        raise ExecutionError(
            f"{size3.dataout_atomics} output pixels are not whole rows of {size2.dataout_width}", register="DATA_SIZE3"
        )
    precision, weight_precision = con1.in_precision, con1.proc_precision
    packed = con1.argb_in.channels
    line_bytes, surface_bytes = _pitches(con1, line, surface, dma.dma_width, element_bytes(precision))
    taps = weight2.weight_height * weight2.weight_width
    config = Config(
        feature_address=registers.read(cna.FeatureDataAddr).feature_base_addr,
        height=size0.datain_height,
        width=size0.datain_width,
        channels=size1.datain_channel,
        packed_channels=packed,
        line_bytes=line_bytes,
        surface_bytes=surface_bytes,
        precision=precision,
        is_unsigned=not registers.read(cna.CvtCon0).data_sign and precision is Precision.INT8 and packed > 0,
        converter=_converter(registers, weight_precision),
        pad_top=pad0.pad_top,
        pad_left=pad0.pad_left,
        pad_bits=registers.read(cna.PadCon1).pad_value,
        out_height=size3.dataout_atomics // size2.dataout_width,
        out_width=size2.dataout_width,
        weight_address=registers.read(cna.DcompAddr0).decompress_addr0,
        weight_bytes=registers.read(cna.WeightSize0).weight_bytes,
        weight_channels=weight1.weight_bytes_per_kernel // (element_bytes(weight_precision) * max(taps, 1)),
        weight_precision=weight_precision,
        kernels=weight2.weight_kernels,
        kernel_height=weight2.weight_height,
        kernel_width=weight2.weight_width,
        stride_x=con3.conv_x_stride,
        stride_y=con3.conv_y_stride,
        dilation_x=con3.atrous_x_dilation,
        dilation_y=con3.atrous_y_dilation,
        spread_x=con3.deconv_x_stride if con1.deconv else 1,
        spread_y=con3.deconv_y_stride if con1.deconv else 1,
        depthwise=con1.conv_mode is ConvMode.DEPTHWISE,
        kernel_group=_KERNEL_BYTES_PER_GROUP // element_bytes(weight_precision),
        input_group=_INPUTS_PER_GROUP,
        depthwise_group=_DEPTHWISE_BYTES_PER_GROUP // element_bytes(weight_precision),
        reuses_weights=bool(registers.read(cna.CbufCon0).weight_reuse),
        compression=read_compression(NamedRegisters(registers, RK3588.block("CNA")), weight_precision),
    )
    _check_rows(config, registers.read(cna.CbufCon1).data_entries)
    return config


def _pitches(con1: cna.ConvCon1, line: int, surface: int, dma_width: int, size: int) -> tuple[int, int]:
    """Bytes from line to line and from surface to surface."""
    if con1.argb_in.channels:
        return line * con1.argb_in.channels * size, 0
    if con1.group_line_off:
        return line * ATOM_BYTES, (surface + dma_width) * ATOM_BYTES
    return line * ATOM_BYTES // 4, (surface + 4 * dma_width) * ATOM_BYTES


def _converter(registers: Registers, precision: Precision) -> Converter | None:
    con0 = registers.read(cna.CvtCon0)
    con1, con2 = registers.read(cna.CvtCon1), registers.read(cna.CvtCon2)
    con3, con4 = registers.read(cna.CvtCon3), registers.read(cna.CvtCon4)
    lanes = int(registers.read(cna.CvtCon5).per_channel_cvt_en)
    if con0.cvt_bypass:
        return None
    if is_float(precision):
        raise UnknownModeError("the input converter on floating point data is not implemented", register="CVT_CON0")
    return Converter(
        add_first=con0.cvt_type,
        rounding=numerics.Rounding(int(con0.round_type)),
        shifts=(con0.cvt_truncate_0, con0.cvt_truncate_1, con0.cvt_truncate_2, con0.cvt_truncate_3),
        scales=(con1.cvt_scale0, con2.cvt_scale1, con3.cvt_scale2, con4.cvt_scale3),
        offsets=(con1.cvt_offset0, con2.cvt_offset1, con3.cvt_offset2, con4.cvt_offset3),
        lanes=lanes,
    )


def _check_rows(config: Config, entries: int) -> None:
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
        whole, rest = divmod(surfaces(config.channels, element_bytes(config.precision)), _ENTRY_ATOMS)
        needed = whole * config.width + (config.width if rest == 3 else -(-rest * config.width // _ENTRY_ATOMS))
    if entries < needed % (1 << _ENTRY_BITS):
        raise ExecutionError(
            f"a row needs {needed} entries of CBUF and gets {entries}: rows would overlap", register="CBUF_CON1"
        )


def fetch_features(config: Config, memory: Memory) -> Numbers:
    """The input as [channel, row, column]: int64 or float32, converted, not padded."""
    size = element_bytes(config.precision)
    if config.packed_channels:
        pixel = config.packed_channels * size
        raw = memory.strided(
            config.feature_address, (config.height, config.width, pixel), (config.line_bytes, pixel, 1), "CNA picture"
        )
        typed = np.ascontiguousarray(raw) if config.is_unsigned else decode(raw, config.precision)
        features: Numbers = typed.transpose(2, 0, 1)
    else:
        count = surfaces(config.channels, size, config.atom_bytes)
        width = config.folded_width or config.width
        raw = memory.strided(
            config.feature_address,
            (count, config.height * config.width // width, width, config.atom_bytes),
            (config.surface_bytes, config.line_bytes, config.atom_bytes, 1),
            "CNA features",
        )
        cube = decode(raw, config.precision)
        features = cube.transpose(0, 3, 1, 2).reshape(-1, config.height, config.width)[: config.channels]
    wide = features.astype(np.float32 if config.is_float else np.int64)
    return _convert(wide, config.converter, config.precision) if config.converter else wide


def _convert(features: Numbers, converter: Converter, precision: Precision) -> Numbers:
    """The input converter; its result is a number of the feature format, so it saturates."""
    result = features.copy()
    for channel in range(len(features)):
        if not converter.lanes >> (channel % 16) & 1:
            continue
        lane = channel % 4
        shift, scale, offset = converter.shifts[lane], converter.scales[lane], converter.offsets[lane]
        if converter.add_first:
            value = numerics.shift_right((features[channel] + offset) * scale, shift, converter.rounding)
        else:
            value = numerics.shift_right(features[channel] * scale, shift, converter.rounding) + offset
        if precision is Precision.INT8:
            result[channel] = numerics.saturate(value, np.int8)
        else:
            result[channel] = numerics.saturate(value, np.int16)
    return result


def stored_weights(config: Config, memory: Memory) -> Bytes:
    """The bytes of the weights, decompressed where they have to be."""
    if config.compression is None:
        return memory.view(config.weight_address, config.weight_bytes, "CNA weights")
    return decompressed(config.compression, memory, config.weight_bytes, element_bytes(config.weight_precision))


def fetch_weights(config: Config, memory: Memory) -> Numbers:
    """The weights as [kernel, row, column, channel], depthwise as [channel, row, column]."""
    values = decode(stored_weights(config, memory), config.weight_precision)
    if config.input_major:
        length = config.kernels * config.weight_channels
        matrix = _take(values, 0, length, config).reshape(config.weight_channels, config.kernels)
        return matrix.T.reshape(config.kernels, 1, 1, config.weight_channels)
    if config.packed_rows:
        return _rows(values, config)
    if config.inline_zero_points:
        values = _with_zero_points(values, config.inline_zero_points)
    elif config.weight_offset:
        values = values.astype(np.int16) + config.weight_offset
    return _depthwise(values, config) if config.depthwise else _direct(values, config)


def pairs_of(values: Numbers, run: int) -> Numbers:
    """[pair, weights or zero points, run]."""
    if values.size % (2 * run):
        text = f"{values.size} bytes are not pairs of {run} weights and zero points"
        raise ExecutionError(text, register="WEIGHT_SIZE0")
    return values.reshape(-1, 2, run)


def _with_zero_points(values: Numbers, run: int) -> Numbers:
    """`run` weights and `run` negated zero points take turns; 128 does not fit into a byte, and -128 stands for it."""
    pairs = pairs_of(values, run).astype(np.int16)
    negated = np.where(pairs[:, 1] == NOT_A_BYTE, -NOT_A_BYTE, pairs[:, 1])
    return (pairs[:, 0] + negated).reshape(-1)


def _rows(values: Numbers, config: Config) -> Numbers:
    """Groups of kernels, in each row, kernel, and whole 16 bytes with column and channel side by side."""
    rows, columns, channels = config.kernel_height, config.kernel_width, config.weight_channels
    atom = ATOM_BYTES // element_bytes(config.weight_precision)
    row = -(-columns * channels // atom) * atom
    weights = np.empty((config.kernels, rows, columns, channels), values.dtype)
    at = 0
    for first in range(0, config.kernels, config.kernel_group):
        count = min(config.kernel_group, config.kernels - first)
        block = _take(values, at, rows * count * row, config).reshape(rows, count, row)[..., : columns * channels]
        weights[first : first + count] = block.reshape(rows, count, columns, channels).transpose(1, 0, 2, 3)
        at += rows * count * row
    return weights


def _direct(values: Numbers, config: Config) -> Numbers:
    """Groups of kernels, in each groups of inputs, in each row, column, kernel, input; last groups are short."""
    rows, columns = config.kernel_height, config.kernel_width
    weights = np.empty((config.kernels, rows, columns, config.weight_channels), values.dtype)
    at = 0
    for first in range(0, config.kernels, config.kernel_group):
        count = min(config.kernel_group, config.kernels - first)
        for channel in range(0, config.weight_channels, config.input_group):
            width = min(config.input_group, config.weight_channels - channel)
            length = rows * columns * count * width
            block = _take(values, at, length, config).reshape(rows, columns, count, width)
            weights[first : first + count, :, :, channel : channel + width] = block.transpose(2, 0, 1, 3)
            at += length
    return weights


def _depthwise(values: Numbers, config: Config) -> Numbers:
    """Groups of channels, in each row, column, channel."""
    rows, columns = config.kernel_height, config.kernel_width
    weights = np.empty((config.weight_channels, rows, columns), values.dtype)
    at = 0
    for first in range(0, config.weight_channels, config.depthwise_group):
        count = min(config.depthwise_group, config.weight_channels - first)
        length = rows * columns * count
        block = _take(values, at, length, config).reshape(rows, columns, count)
        weights[first : first + count] = block.transpose(2, 0, 1)
        at += length
    return weights


def _take(values: Numbers, start: int, count: int, config: Config) -> npt.NDArray[np.generic]:
    if start + count > values.size:
        raise ExecutionError(
            f"{config.kernels} kernels of {config.weight_channels} channels are more than {config.weight_bytes} bytes",
            register="WEIGHT_SIZE0",
        )
    return values[start : start + count]
