"""Softmax over channels, in fp16:  e = exp(x - max(x));  y = e / sum(e).

The vendor's converter has the same steps, but takes the exponential from the bits of a rounded number, which is up to
4 % wrong; here it comes from a table that is right to 2**-16. The maximum of each pixel is packed, one number after the
other; a 1x1 convolution with ones spreads it over the channels. Another one adds up, and spreads too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openrknn.compiler.formats import FP16, align
from openrknn.compiler.functions import SOFTMAX_REACH, Function
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, moved, pointwise_task, scratch
from openrknn.compiler.program import ELEMENTWISE, Place, Task
from openrknn.compiler.recipes.base import merge
from openrknn.compiler.recipes.elementwise import Cube, elementwise_registers
from openrknn.compiler.recipes.finish import Finish, fp16_bits, fp32_bits
from openrknn.container.parts import DataType
from openrknn.isa.enums import ChannelReduction, EwAlgorithm, Rounding
from openrknn.layout.weights import pack_weights

__all__ = ["lower_softmax", "softmax_table"]

_LOWEST = 0xFBFF
"""-65504, the lowest number of fp16."""
_TABLE_UNITS = 1 << 14
_TOGETHER = 64
"""Up to so many channels, one convolution adds up and spreads: its weights are a square."""


def softmax_table() -> Function:
    """The table of the exponential: all of them are equal."""
    return Function("softmax", (), SOFTMAX_REACH, power_of_two=True)


def lower_softmax(low: Lowering, op: Op) -> None:
    """Three steps: the distance from the maximum, the table, the division."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    channels, rows, columns = source.cube
    pixels, groups = rows * columns, int(op.attributes["groups"])
    size = channels // groups
    padded = align(channels, FP16.atom)
    pitch = align(pixels, 4)
    x, y = Line(source.at(), source.pitch, channels), Line(target.at(), target.pitch, channels)
    wide = padded // FP16.atom * pitch * 16 * (2 if channels % FP16.group else 1)
    spread = Line(Place(scratch(low, f"{op.output}_spread", wide)), pitch, channels)
    power = Line(Place(scratch(low, f"{op.output}_power", wide)), pitch, channels)
    peaks = scratch(low, f"{op.output}_peaks", groups * align(pixels, 8) * 2)
    lines = line_pixels(low.target, channels, pixels)

    step = low.step(op, "exSoftmax13", outputs=[power.place.tensor])
    if channels % FP16.atom:
        # In place, unless somebody else reads what would be there then.
        readers = [other for other in low.graph.ops if op.inputs[0] in other.inputs]
        alone = len(readers) == 1 and op.inputs[0] not in low.graph.outputs
        guarded = x if alone else power
        low.add(step, _guard(x, guarded, pixels, whole=not alone))
        x = guarded
    for group in range(groups):
        part, wide_part = (_channels(line, group * size, size) for line in (x, spread))
        if not low.target.reduces_channels:
            for first, count in lines:
                for task in _largest(low, op, part.at(first), wide_part.at(first), count):
                    low.add(step, task)
            continue
        ones = _weights(low, f"{op.name}_spread", np.ones((size, 1)), packed=True)
        for first, count in lines:
            peak = Place(peaks, 2 * (group * align(pixels, 8) + first))
            low.add(step, _peak(part.at(first), count, peak))
            spreading = pointwise_task(low.target, Line(peak, 1, 1), wide_part.at(first), count, ones, packed=True)
            low.add(step, spreading)
    for first, count in lines:
        low.add(step, _two(x.at(first), spread.at(first), power.at(first), count, EwAlgorithm.MINUS))

    step = low.step(op, "Exp", inputs=[power.place.tensor], outputs=[power.place.tensor])
    function = low.functions[id(op.attributes)]
    step.table = function.key
    for first, count in lines:
        low.add(step, _exponential(low, power.at(first), count, function))

    step = low.step(op, "exSoftmaxDiv", inputs=[power.place.tensor])
    for first, count in lines:
        for task in _sums(low, op, power.at(first), spread.at(first), count, groups):
            low.add(step, task)
        low.add(step, _two(power.at(first), spread.at(first), y.at(first), count, EwAlgorithm.DIV))


def _channels(line: Line, first: int, count: int) -> Line:
    return Line(moved(line.place, first // FP16.atom * line.pitch), line.pitch, count)


def _guard(x: Line, target: Line, pixels: int, *, whole: bool) -> Task:
    """Lanes of the last atom that are no channels must not win: they become the lowest number."""
    rest = x.channels if whole else x.channels % FP16.atom
    last, made = (_channels(line, x.channels - rest, rest) for line in (x, target))
    size = (align(rest, FP16.atom), 1, pixels)
    registers = elementwise_registers(FP16, size, Cube(last.place, x.pitch), Cube(made.place, target.pitch), {})
    merge(registers, {
        "DPU.OFFSET_PEND": {"offset_pend": _LOWEST},
        "DPU.DATA_CUBE_CHANNEL": {"channel": rest, "orig_channel": rest},
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": {"channel": rest},
    })  # fmt: skip
    return Task(ELEMENTWISE, registers)


def _peak(x: Line, pixels: int, target: Place) -> Task:
    """The largest channel of each pixel, packed."""
    padded = align(x.channels, FP16.atom)
    size = (padded, 1, pixels)
    registers = elementwise_registers(FP16, size, Cube(x.place, x.pitch), Cube(target, 0), {})
    merge(registers, {
        "DPU.FEATURE_MODE_CFG": {"nonalign": 1, "surf_len": align(pixels * FP16.element_bytes, 16) // 16},
        "DPU.OFFSET_PEND": {"offset_pend": _LOWEST},
        "DPU.DATA_CUBE_HEIGHT": {
            "minmax_ctl": ChannelReduction.ENABLE | ChannelReduction.MAXIMUM | ChannelReduction.VALUE_ONLY
        },
        "DPU.DATA_CUBE_CHANNEL": {"orig_channel": x.channels},
        "DPU.OUT_CVT_SCALE": {"fp32tofp16_en": 0},
        "DPU.OUT_CVT_SHIFT": {"cvt_round": Rounding.TIES_AWAY},
        "DPU_RDMA.RDMA_ERDMA_CFG": {"ov4k_bypass": 1},
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": {"mrdma_fp16tofp32_en": 0},
    })  # fmt: skip
    return Task(ELEMENTWISE, registers)


def _largest(low: Lowering, op: Op, x: Line, target: Line, pixels: int) -> Iterator[Task]:
    """The largest channel of each pixel in all of them, without a reduction: fp16 moves through it unchanged.

    The larger of two halves of the surfaces, until one is left; then of its lanes and the same turned by 4, 2 and 1,
    which convolutions do; one more convolution spreads the first lane.
    """
    surfaces = align(x.channels, FP16.atom) // FP16.atom
    pitch = align(pixels, 4)
    room = max(2, -(-surfaces // 2)) * pitch * 16
    buffers = [Place(scratch(low, f"{op.output}_half{number}", room)) for number in range(3)]
    now = x
    while surfaces > 1:
        half = -(-surfaces // 2)
        first, second = (Line(moved(now.place, skip * now.pitch), now.pitch, half * FP16.atom)
                         for skip in (0, surfaces - half))  # fmt: skip
        made = Line(buffers[0], pitch, half * FP16.atom)
        yield _two(first, second, made, pixels, EwAlgorithm.MAX)
        now, surfaces = made, half
        buffers = [buffers[1], buffers[0], buffers[2]]
    for shift in (4, 2, 1):
        turned, made = Line(buffers[2], pitch, FP16.atom), Line(buffers[0], pitch, FP16.atom)
        lanes = np.roll(np.eye(FP16.atom), shift, axis=1)
        now = Line(now.place, now.pitch, FP16.atom)
        yield pointwise_task(low.target, now, turned, pixels, _weights(low, f"{op.name}_turn{shift}", lanes))
        yield _two(now, turned, made, pixels, EwAlgorithm.MAX)
        now = made
        buffers = [buffers[1], buffers[0], buffers[2]]
    each = np.zeros((x.channels, FP16.atom))
    each[:, 0] = 1.0
    yield pointwise_task(low.target, now, target, pixels, _weights(low, f"{op.name}_each_lane", each))


def _two(left: Line, right: Line, target: Line, pixels: int, method: EwAlgorithm) -> Task:
    finish = Finish(1.0, None, flying=True)
    finish.operand(method, None, per_channel=False, relu=False)
    if method is EwAlgorithm.DIV:  # as the vendor has it: fp16 all the way
        finish.set("DPU.EW_CFG", ew_op_cvt_bypass=1)
        finish.set("DPU.OUT_CVT_SCALE", fp32tofp16_en=0)
        finish.set("DPU_RDMA.RDMA_FEATURE_MODE_CFG", mrdma_fp16tofp32_en=0)
    registers = elementwise_registers(
        FP16, (left.channels, 1, pixels), Cube(left.place, left.pitch), Cube(target.place, target.pitch),
        finish.registers, Cube(right.place, right.pitch),
    )  # fmt: skip
    return Task(ELEMENTWISE, registers)


def _exponential(low: Lowering, line: Line, pixels: int, function: Function) -> Task:
    finish = Finish(1.0, None, flying=True)
    finish.lookup(function, None)
    if low.target.continues_tables:
        finish.set("DPU.LUT_ENDS", first=function.table.low[0], last=function.table.high[-1])
    finish.set("DPU.BN_ALU_CFG", bn_alu_operand=fp32_bits(float(_TABLE_UNITS)))
    cube = Cube(line.place, line.pitch)
    return Task(ELEMENTWISE, elementwise_registers(FP16, (line.channels, 1, pixels), cube, cube, finish.registers))


def _sums(low: Lowering, op: Op, power: Line, target: Line, pixels: int, groups: int) -> list[Task]:
    """The sum of each group of channels, in each of its channels; 1 in lanes that pad, which are divided too."""
    channels, one = power.channels, fp16_bits(1.0)
    size = channels // groups
    if channels <= _TOGETHER:
        square = np.kron(np.eye(groups), np.ones((size, size)))
        return [pointwise_task(low.target, power, target, pixels, _weights(low, f"{op.name}_sum", square), fill=one)]
    few = Line(Place(scratch(low, f"{op.output}_few", 2 * align(groups, 8) // 8 * pixels * 16)), pixels, groups)
    rows = np.kron(np.eye(groups), np.ones((1, size)))
    return [
        pointwise_task(low.target, power, few, pixels, _weights(low, f"{op.name}_add", rows)),
        pointwise_task(low.target, few, target, pixels, _weights(low, f"{op.name}_each", rows.T), fill=one),
    ]


def _weights(low: Lowering, name: str, matrix: Array, *, packed: bool = False) -> Place:
    outputs, inputs = matrix.shape
    make = (low.target.picture_weights if packed else None) or low.target.weights
    tiles = make((outputs, inputs, 1, 1), FP16.element_bytes)
    stored = pack_weights(matrix.astype(np.float16)[:, :, None, None], tiles, np.zeros(outputs, np.float16))
    return Place(low.data(name, stored.tobytes(), (outputs, inputs, 1, 1), DataType.FLOAT16, "weights"))
