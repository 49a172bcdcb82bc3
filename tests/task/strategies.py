"""Tasks as the chips of one family can hold them: drawn at random, so that nothing in them is lost in registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from openrknn.chips import CHIPS, Chip
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, EwAlgorithm, OperandKinds, OperandMode, PoolingMethod
from openrknn.numerics import Rounding
from openrknn.task import cna, core, dpu, ew, lut, out_cvt, ppu, rdma, write
from openrknn.task.formats import MIXED, element_bits, element_bytes, is_float
from openrknn.task.kinds import BufferUse, Convolution, Elementwise, Pooling
from openrknn.task.stage import Clamp, Scaling, Stage

SMALL = st.integers(1, 7)
LOWEST = {Precision.INT8: -128, Precision.FP16: 0xFBFF}
TABLE_BITS = 14


@dataclass(frozen=True)
class Kind:
    """What a family can hold."""

    name: str

    @property
    def chip(self) -> Chip:
        return CHIPS[self.name]

    @property
    def is_named(self) -> bool:
        """RK3562's stages."""
        return self.chip.family in {"rk3562", "rk3576", "rv1106"}

    @property
    def is_rk3588(self) -> bool:
        return self.chip.family == "rk3588"

    @property
    def is_rk3566(self) -> bool:
        return self.chip.family == "rk3566"

    @property
    def is_rk3576(self) -> bool:
        return self.chip.family == "rk3576"


def addresses(kind: Kind) -> st.SearchStrategy[int]:
    return st.integers(1, (1 << 20) - 1).map(lambda number: number * kind.chip.atom_bytes)


def numbers(precision: Precision, width: int) -> st.SearchStrategy[float]:
    """Operands that a register of so many bits holds; not the one that stands for no bound."""
    if is_float(precision):
        return st.floats(1 / 64, 60000, width=width)  # type: ignore[arg-type]
    return st.integers(-(1 << width - 1) + 1, (1 << width - 1) - 2)


def _is_bound(number: float) -> bool:
    return number != (1 << 31) - 1


@st.composite
def poolings(draw: st.DrawFn, kind: Kind) -> Pooling:
    atom, sides = kind.chip.atom_bytes, st.integers(1, 8000)
    atoms = st.integers(1, 5000).map(lambda number: number * atom)
    width, method = draw(sides), draw(st.sampled_from([PoolingMethod.AVERAGE, PoolingMethod.MAX]))
    precision = draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    has_pad = method is PoolingMethod.AVERAGE and precision is Precision.INT8
    lowest = 0 if method is PoolingMethod.AVERAGE else LOWEST[precision]
    pad = st.integers(-128, 127) if has_pad or kind.is_rk3588 else st.just(lowest)
    pads = st.integers(0, 7)
    return Pooling(ppu.Config(
        method=method, precision=precision, source_address=draw(addresses(kind)), source_line_bytes=draw(atoms),
        source_surface_bytes=draw(atoms), target_address=draw(addresses(kind)),
        target_line_bytes=(width + draw(st.integers(0, 8000))) * atom, target_surface_bytes=draw(atoms),
        channels=draw(st.integers(1, 8192)), height=draw(sides), width=draw(sides), out_height=draw(sides),
        out_width=width, kernel_height=draw(SMALL), kernel_width=draw(SMALL), stride_y=draw(SMALL),
        stride_x=draw(SMALL), pad_top=draw(pads), pad_left=draw(pads), pad_value=draw(pad),
        reciprocal_width=draw(st.integers(0, (1 << 17) - 1)), reciprocal_height=draw(st.integers(0, (1 << 17) - 1)),
        atom_bytes=atom, pad_right=draw(pads), pad_bottom=draw(pads),
    ))  # fmt: skip


@st.composite
def stages(draw: st.DrawFn, kind: Kind, precision: Precision, *, is_norm: bool) -> Stage | None:
    """BS or BN. Chips with operand tensors hold shifts of whole numbers only."""
    if draw(st.booleans()):
        return None
    adds = draw(st.booleans())
    shifts = st.integers(0, 31) if not (kind.is_rk3576 and is_float(precision)) else st.just(0)
    scaling = Scaling(draw(st.none() | numbers(precision, 16)), draw(shifts), draw(shifts), draw(st.booleans()))
    return Stage(
        addend=draw(st.none() | numbers(precision, 32)) if adds else 0, adds=adds,
        subtracts=adds and kind.is_rk3588 and draw(st.booleans()), scaling=draw(st.none() | st.just(scaling)),
        # The largest whole number bounds nothing, and is how RK3562 writes that there is no bound.
        clamp=draw(st.none() | st.builds(Clamp, st.none() | numbers(precision, 32).map(abs).filter(_is_bound))),
        is_float=is_float(precision), adds_first=is_norm and kind.is_named,
        takes_larger=adds and draw(st.booleans()) if kind.is_rk3566 or (is_norm and kind.name in {"rk3562", "rv1106"})
        else False,
    )  # fmt: skip


@st.composite
def element_wises(draw: st.DrawFn, kind: Kind, precision: Precision) -> ew.Config | None:
    parts = draw(st.sampled_from(["none", "table", "operation", "both"]))
    if parts == "none":
        return None
    start, end = draw(st.integers(-30000, -1)), draw(st.integers(1, 30000))
    slopes = st.builds(lut.Slope, st.integers(-30000, 30000), st.integers(0, 31))
    entries = np.arange(2 * lut.ENTRIES).reshape(2, -1)
    middle = 0 if kind.is_rk3576 else draw(st.integers(start, end))
    table = lut.Config(entries, start, middle, end, 5, 5, draw(slopes), draw(slopes))
    multiplies = draw(st.booleans())
    converter = ew.Converter(
        (multiplies and kind.is_rk3576) or draw(st.booleans()), draw(st.integers(-999, 999)),
        draw(st.integers(-30000, 30000)), draw(st.integers(0, 31)), Rounding.EVEN,
    )  # fmt: skip
    algorithm = draw(st.sampled_from([EwAlgorithm.MAX, EwAlgorithm.MIN, EwAlgorithm.ADD]))
    if multiplies:
        algorithm = EwAlgorithm.NONE if kind.is_rk3576 else EwAlgorithm.MAX
    operation = ew.Operation(multiplies, algorithm, None, None if is_float(precision) else converter, False, 0, 0)
    return ew.Config(table if parts != "operation" else None, operation if parts != "table" else None,
                     draw(st.none() | st.just(Clamp(None))))  # fmt: skip


@st.composite
def outs(draw: st.DrawFn, kind: Kind, precision: Precision, *, looks_up: bool) -> out_cvt.Config:
    exponent = 0 if kind.is_rk3566 else draw(st.integers(0, 15))
    rounding = Rounding.EVEN if kind.is_rk3566 else draw(st.sampled_from(Rounding))
    if is_float(precision) and looks_up and kind.is_named:  # floats leave a table through that of whole numbers
        return out_cvt.Config(precision, 1 << TABLE_BITS, TABLE_BITS, 1, False, rounding, TABLE_BITS + exponent)
    scale, shift = (1, 0) if is_float(precision) else (draw(st.integers(-30000, 30000)), draw(st.integers(0, 31)))
    return out_cvt.Config(precision, scale, shift, draw(st.integers(-128, 127)), False, rounding, exponent)


def kinds_of(stage: Stage | None) -> OperandKinds:
    """What a stage reads per channel."""
    found = OperandKinds(0)
    if stage is not None and stage.adds and stage.addend is None:
        found |= OperandKinds.ALU
    if stage is not None and stage.scaling is not None and stage.scaling.operand is None:
        found |= OperandKinds.MUL
    return found


@st.composite
def pipes(
    draw: st.DrawFn, kind: Kind, precision: Precision, size: tuple[int, int], *, flying: bool, depthwise: bool = False
) -> tuple[dpu.Config, rdma.Config]:
    """The DPU and its readers."""
    (rows, columns), atom, chip = size, kind.chip.atom_bytes, kind.chip
    element = element_bytes(precision)
    line = (columns + (0 if kind.is_rk3566 else draw(st.integers(0, 9)))) * atom
    surface = rows * line + draw(st.integers(1, 99)) * atom
    bias, norm = draw(stages(kind, precision, is_norm=False)), draw(stages(kind, precision, is_norm=True))
    element_wise, real = draw(element_wises(kind, precision)), draw(st.integers(1, 300))
    lanes = atom // element
    channels = -(-real // lanes) * lanes
    correction = None
    if not flying and bias is not None and precision is Precision.INT8 and not (kind.is_rk3576 and depthwise):
        constants = st.builds(dpu.Correction, st.none() if kind.is_rk3566 else st.none() | st.integers(-128, 127))
        correction = draw(st.none() | constants)
    looks_up = element_wise is not None and element_wise.table is not None
    per_pixel = draw(st.integers(1, 8))
    config = dpu.Config(
        flying=flying, precision=precision, in_precision=precision, channels=channels, real_channels=real,
        pad_bits=draw(st.integers(0, 0xFFFF)), reduction=ChannelReduction(0), correction=correction, bias=bias,
        norm=norm, element_wise=element_wise, out=draw(outs(kind, precision, looks_up=looks_up)),
        write=write.Config(draw(addresses(kind)), per_pixel, columns, rows, line, surface, per_pixel * surface, None,
                           flying and precision is Precision.FP16 and not kind.is_rk3566 and draw(st.booleans()), None,
                           atom_bytes=atom),
    )  # fmt: skip
    operand: rdma.Operand | None = None
    walk = rdma.Walk(draw(addresses(kind)), line, surface)
    if element_wise is not None and element_wise.operation is not None:
        stride = surface if kind.is_rk3566 or not flying else draw(st.integers(1, 99)) * atom
        operand = rdma.Operand(OperandMode.PER_PIXEL, element, walk, stride)
    bias_kinds, norm_kinds = kinds_of(bias), kinds_of(norm)
    if correction is not None and correction.operand is None:
        bias_kinds |= OperandKinds.CPEND
    read, reads = precision, bool(bias_kinds or norm_kinds or operand)
    if kind.is_rk3566 and not flying and is_float(precision) and operand is None and not looks_up:
        read = Precision.FP32
    reader = rdma.Config(
        width=columns, height=rows, channels=(real if reads else 1) if kind.is_rk3576 and not flying else channels,
        precision=read, proc_precision=precision,
        main=rdma.Walk(draw(addresses(kind)), line, surface) if flying else None, bias_kinds=bias_kinds,
        bias_address=draw(addresses(kind)) if bias_kinds else 0, norm_kinds=norm_kinds,
        norm_address=draw(addresses(kind)) if norm_kinds else 0, operand=operand, combine=CombineUse(0), repeat_x=1,
        repeat_y=1, repeats=False, atom_bytes=2 * atom if kind.is_rk3566 and read is Precision.FP32 else atom,
        operand_block=chip.bias_group,
    )  # fmt: skip
    return config, reader


@st.composite
def elementwises(draw: st.DrawFn, kind: Kind) -> Elementwise:
    precision = draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    size = draw(st.integers(2, 90)), draw(st.integers(2, 90))
    config, reader = draw(pipes(kind, precision, size, flying=True))
    is_narrow = kind.is_rk3588 and is_float(precision) and draw(st.booleans())
    return Elementwise(config, reader, is_narrow, draw(st.booleans()))


@st.composite
def converters(draw: st.DrawFn, kind: Kind) -> cna.Converter:
    def four(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=4, max_size=4)))

    add_first = kind.name != "rv1106" and draw(st.booleans())
    return cna.Converter(add_first, Rounding.EVEN, four(0, 15), four(-30000, 30000), four(-128, 127), 0xFFFF)


@st.composite
def convolutions(draw: st.DrawFn, kind: Kind, *, depthwise: bool) -> Convolution:
    chip, atom = kind.chip, kind.chip.atom_bytes
    precision = Precision.INT8 if kind.name == "rv1106" else draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    is_int8, element = precision is Precision.INT8, element_bytes(precision)
    lanes, real = atom // element, draw(st.integers(1, 120))
    channels, (height, width) = -(-real // lanes) * lanes, (draw(st.integers(1, 20)), draw(st.integers(1, 20)))
    taps, pad = (draw(SMALL), draw(SMALL)), draw(st.integers(0, 0xFF if is_int8 else 0xFFFF))
    has_pairs = depthwise and is_int8 and chip.inline_zero_points > 0
    kernels = (chip.inline_zero_points if has_pairs else 1) if depthwise else draw(st.integers(2, 200))
    spread = draw(st.sampled_from([(1, 1), (2, 2), (1, 3)]))
    size = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    config, reader = draw(pipes(kind, precision, size, flying=False, depthwise=depthwise))
    weights = precision
    if kind.is_rk3576 and not depthwise:
        weights = draw(st.sampled_from([precision, *(narrow for wide, narrow in sorted(MIXED) if wide is precision)]))
    source = cna.Config(
        feature_address=draw(addresses(kind)), height=height, width=width, channels=channels, packed_channels=0,
        line_bytes=(width + draw(st.integers(0, 3))) * atom, surface_bytes=draw(st.integers(100, 900)) * 4 * atom,
        precision=precision, is_unsigned=False, converter=draw(st.none() | converters(kind)) if is_int8 else None,
        pad_top=draw(st.integers(0, 7)), pad_left=draw(st.integers(0, 7)),
        pad_bits=pad * 0x0101 if is_int8 else pad, out_height=size[0], out_width=size[1],
        weight_address=draw(addresses(kind)),
        weight_bytes=channels * taps[0] * taps[1] * element_bits(weights) // 8 * kernels,
        weight_channels=channels, weight_precision=weights, kernels=kernels, kernel_height=taps[0],
        kernel_width=taps[1], stride_x=draw(SMALL), stride_y=draw(SMALL), dilation_x=draw(SMALL),
        dilation_y=draw(SMALL), spread_x=spread[1], spread_y=spread[0], depthwise=depthwise, atom_bytes=atom,
        kernel_group=chip.weight_group[0] // element,
        input_group=chip.weight_group[1] // (element if kind.is_rk3566 else 1),
        depthwise_group=chip.depthwise_group // element,
        inline_zero_points=chip.inline_zero_points if has_pairs else 0, reuses_weights=draw(st.booleans()),
    )  # fmt: skip
    sums = is_int8 and not depthwise
    if kind.is_rk3566:
        sums = is_int8
    elif kind.is_rk3588 or (not depthwise and not kind.is_rk3576):
        sums = draw(st.booleans())
    entries = channels * element // atom * width
    is_old, reuses = kind.is_rk3588 or kind.is_rk3566, kind.name != "rk3562" and draw(st.booleans())
    # RK3576's encoder corrects a recipe whose rows do not fit into the banks that it names.
    is_small = not kind.is_rk3576 or entries * source.height <= 4 * 1024
    buffer = BufferUse(
        draw(st.sampled_from([4, 5])) if is_small else 5, draw(SMALL) if is_old else 0, entries,
        draw(st.integers(1, 99)) if kind.is_rk3588 else 0, reuses,
    )  # fmt: skip
    array = core.Config(sums, 0, Rounding.EVEN)
    return Convolution(source, array, config, reader, buffer, real, 0, draw(st.booleans()))
