"""Parameters as stages of the DPU."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.chips import Chip
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, EwAlgorithm, OperandKinds, OperandMode
from openrknn.npu.memory import Bytes
from openrknn.task import dpu as task_dpu
from openrknn.task import ew, lut, out_cvt, rdma, write
from openrknn.task.formats import element_bytes, is_float, surfaces
from openrknn.task.stage import Clamp, Scaling, Stage
from tools.fuzzing.valid.memory import CHANNELS, OPERAND, TARGET

__all__ = ["ALGORITHMS", "Grid", "byte_corrections", "channel_operands", "config", "readers"]

ALGORITHMS = ("max", "min", "add", "minus", "abs", "neg", "floor", "ceil", "div", "multiply")
_CODES = {"max": EwAlgorithm.MAX, "min": EwAlgorithm.MIN, "add": EwAlgorithm.ADD, "minus": EwAlgorithm.MINUS,
          "abs": EwAlgorithm.ABS, "neg": EwAlgorithm.NEG, "floor": EwAlgorithm.FLOOR, "ceil": EwAlgorithm.CEIL,
          "div": EwAlgorithm.DIV, "multiply": EwAlgorithm.MAX}  # fmt: skip
_NORM_OFFSET = 1 << 16
_MOST_BLOCKS = 512
_PIXEL = {"channel": OperandMode.PER_CHANNEL, "tensor": OperandMode.PER_PIXEL,
          "combined": OperandMode.PER_PIXEL, "pixel": OperandMode.PER_CHANNEL_BY_PIXEL}  # fmt: skip

Task = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """What the DPU computes."""

    channels: int
    real: int
    height: int
    width: int
    precision: Precision
    """Of the arithmetic."""
    chip: Chip

    @property
    def is_float(self) -> bool:
        return is_float(self.precision)


def config(task: Task, grid: Grid, in_precision: Precision, rng: random.Random, *, flying: bool) -> task_dpu.Config:
    """All stages as the task wants them."""
    out = _out(task, grid, rng)
    return task_dpu.Config(
        flying=flying, precision=grid.precision, in_precision=in_precision, channels=grid.channels,
        real_channels=grid.real, pad_bits=rng.choice((0, 0x8101, 0x3C00)), reduction=ChannelReduction(0),
        correction=_correction(task, grid), bias=_stage(task["bias"], task, grid, rng),
        norm=_stage(task["norm"], task, grid, rng, adds_first=grid.chip.family not in ("rk3588", "rk3566")),
        element_wise=_element_wise(task, grid, rng), out=out, write=_write(task, grid, out.precision, rng),
    )  # fmt: skip


def byte_corrections(task: Task, grid: Grid) -> bool:
    """Chips whose corrections are bytes; only integers have corrections."""
    return grid.chip.family == "rv1106b" and _corrects(task, grid)


def _correction(task: Task, grid: Grid) -> task_dpu.Correction | None:
    kind = task.get("correction", "none")
    if kind == "none" or grid.is_float:
        return None
    return task_dpu.Correction(None if kind == "channel" else 5)


def _number(task: Task, grid: Grid, rng: random.Random, reach: int) -> float:
    if grid.is_float:
        return float(np.float16(rng.uniform(-100, 100)))
    return rng.randint(-reach, reach) if task["style"] == "usual" else rng.randint(-(2**31), 2**31 - 1)


def _clamp(kind: str, grid: Grid, rng: random.Random) -> Clamp | None:
    top = float(np.float16(rng.uniform(0.5, 60))) if grid.is_float else rng.randint(1, 1 << 18)
    match kind:
        case "relu":
            return Clamp(None)
        case "relu6":
            return Clamp(top)
        case "pair":
            return Clamp(top, -top)
        case "below":
            return Clamp(top, -top, -top / 2 if grid.is_float else -(top // 2))
    return None


def _stage(kind: str, task: Task, grid: Grid, rng: random.Random, *, adds_first: bool = False) -> Stage | None:
    """`kind`: words of add, subtract, scale, leaky, two, larger; `channel` for operands from memory; a clamp."""
    words = kind.split()
    if words == ["none"]:
        return None
    channel = "channel" in words
    scaling = None
    if any(word in words for word in ("scale", "leaky", "two")):
        shift = 0 if grid.is_float else rng.randint(0, 24)
        scaling = Scaling(
            None if channel else _number(task, grid, rng, 32767) if grid.is_float else rng.randint(-32768, 32767),
            shift, shift if "two" not in words else rng.randint(0, 24), negative_only="leaky" in words,
        )  # fmt: skip
    adds = any(word in words for word in ("add", "subtract", "larger"))
    return Stage(
        addend=None if adds and channel else _number(task, grid, rng, 1 << 20), adds=adds,
        subtracts="subtract" in words, scaling=scaling, clamp=_clamp(words[-1], grid, rng), is_float=grid.is_float,
        adds_first=adds_first, takes_larger="larger" in words,
    )  # fmt: skip


def _table(kind: str, rng: random.Random) -> lut.Config:
    """A curve like an activation's, or noise; chips with pieces beyond the ends have up to three more."""
    place = np.linspace(-4, 4, 1025)
    curve = rng.randint(1, 4000) * place / (1 + np.exp(-3 * place)) * 8
    if "noise" in kind:
        curve = np.random.default_rng(rng.randrange(1 << 30)).integers(-32768, 32768, 1025)
    entries = np.rint(curve).clip(-32768, 32767).astype(np.int64)
    select = rng.choice((5, 5, 0, 3, 9, 14))
    pieces = tuple(
        lut.Piece((1 << 15) + number * 300, rng.randint(-32768, 32767), lut.Slope(rng.randint(-300, 300), 4))
        for number in range(3 if "pieces" in kind else 0)
    )
    below = tuple(lut.Piece(-piece.start, piece.value, piece.slope) for piece in pieces)
    return lut.Config(
        np.stack([entries[:513], entries[512:]]), -(512 << select), 0, 512 << select, select, select,
        lut.Slope(rng.randint(-300, 300), rng.randint(0, 20)), lut.Slope(rng.randint(0, 32767), rng.randint(8, 20)),
        below, pieces,
    )  # fmt: skip


def _element_wise(task: Task, grid: Grid, rng: random.Random) -> ew.Config | None:
    operand, table, clamp = task["operand"], task["table"], task["last_clamp"]
    if operand == table == clamp == "none":
        return None
    operation = None
    if operand != "none":
        usual = task["style"] == "usual"
        converter = None
        if task["operand_converter"] != "none" and not grid.is_float:
            converter = ew.Converter(
                task["operand_converter"] == "add first", rng.randint(-300, 300), rng.randint(-32768, 32767),
                rng.randint(0, 12), numerics.Rounding.EVEN if usual else rng.choice(list(numerics.Rounding)),
            )  # fmt: skip
        shifts = (0, 0) if usual or grid.is_float else (rng.randint(0, 4), rng.randint(0, 4))
        constant = (2.5 if grid.is_float else rng.randint(-(2**15), 2**15)) if operand == "constant" else None
        multiplies = task["algorithm"] == "multiply"
        negative_only = multiplies and not usual and rng.random() < 0.5
        operation = ew.Operation(multiplies, _CODES[task["algorithm"]], constant, converter, negative_only, *shifts)
    factor = 0.5 if grid.is_float and operation is not None and task.get("factor") else None
    return ew.Config(_table(table, rng) if table != "none" else None, operation, _clamp(clamp, grid, rng), factor)


def _out(task: Task, grid: Grid, rng: random.Random) -> out_cvt.Config:
    precision = Precision[task["out"].upper()]
    if grid.is_float:
        return out_cvt.Config(precision, rng.choice((1, 1, 3)), 0, 0, add_first=False,
                              rounding=numerics.Rounding.EVEN, minus_exponent=rng.choice((0, 0, 4)))  # fmt: skip
    usual = task["style"] == "usual"
    exponent = rng.choice((0, 4, 12)) if is_float(precision) else 0
    return out_cvt.Config(
        precision, rng.randint(1 << 14, (1 << 15) - 1) if usual else rng.randint(-32768, 32767),
        rng.randint(14, 30) if usual else rng.randint(0, 40),
        rng.randint(-128, 127) if usual else rng.randint(-(2**16), 2**16),
        add_first=not usual and rng.random() < 0.5,
        rounding=numerics.Rounding.EVEN if usual else rng.choice(list(numerics.Rounding)), minus_exponent=exponent,
    )  # fmt: skip


def _write(task: Task, grid: Grid, precision: Precision, rng: random.Random) -> write.Config:
    """Surfaces one after the other with gaps; other counters than the grid's; packed."""
    atom = grid.chip.atom_bytes
    height, width = grid.height, grid.width
    per_pixel = task["per_pixel"]
    if task["counters"] == "folded":  # as many pixels in other rows
        height, width = 1, height * width
    elif task["counters"] == "turned":
        height, width = width, height
    elif task["counters"] == "split" and height % 2 == 0:  # each half of the rows is a group
        height //= 2
        count = surfaces(grid.channels, element_bytes(precision), atom)
        per_pixel = count if count <= 8 else per_pixel
    line = (width + task["gap"]) * atom
    surface = line * height + task["gap"] * atom
    packed = {"none": None, "whole": atom, "half": atom // 2, "element": element_bytes(precision)}[task["packed"]]
    return write.Config(
        address=TARGET + 4096, per_pixel=per_pixel, width=width, height=height, line_bytes=line,
        atom_step_bytes=surface, group_step_bytes=surface * per_pixel, packed_bytes=packed, transposes_atoms=False,
        transposed_lanes=None, atom_bytes=atom,
    )  # fmt: skip


def channel_operands(task: Task, grid: Grid, rng: np.random.Generator) -> Bytes:
    """Operands per channel of BS and, `_NORM_OFFSET` behind them, of BN: blocks of channels, in each kind by kind."""
    data = rng.integers(-127, 129, _NORM_OFFSET).astype(np.int16).view(np.uint8).copy()
    if byte_corrections(task, grid):
        return data
    block = grid.chip.bias_group
    for start, corrects in ((0, _corrects(task, grid)), (_NORM_OFFSET, False)):
        kinds = [("alu", "<f4" if grid.is_float else "<i4", block), ("mul", "<u2" if grid.is_float else "<i2", block)]
        layout = np.dtype([kinds[0], ("cpend", "<i2", block), kinds[1]] if corrects else kinds)
        blocks = data[start : start + _MOST_BLOCKS * layout.itemsize].view(layout)
        if grid.is_float:
            single = (rng.normal(0, 20, (2, _MOST_BLOCKS, block)) * rng.choice([1, 1, 0, -0.0, 1e-4], (2, 1, block)))
            encode = numerics.encode_bf16 if grid.precision is Precision.BF16 else numerics.encode_fp16
            blocks["alu"], blocks["mul"] = single[0], encode(single[1].astype(np.float32))
        else:
            reach = 1 << (20 if task["style"] == "usual" else 31)
            blocks["alu"] = rng.integers(-reach, reach, blocks["alu"].shape)
            low = -200 if task["style"] == "usual" else -(1 << 15)
            blocks["mul"] = rng.integers(low, 1 << (14 if task["style"] == "usual" else 15), blocks["mul"].shape)
    return data


def _corrects(task: Task, grid: Grid) -> bool:
    return task.get("correction") == "channel" and not grid.is_float


def readers(task: Task, grid: Grid, precision: Precision, main: rdma.Walk | None, channels: int) -> rdma.Config:
    """Everything that the DPU may want from memory."""
    atom = grid.chip.atom_bytes
    operand = task["operand"]
    line = (grid.width + task["gap"]) * atom
    surface = line * grid.height
    combined = operand == "combined"
    combine = CombineUse.ENABLE | CombineUse.OPERAND if combined else CombineUse(0)
    if combined and main is None:
        main = rdma.Walk(OPERAND, 2 * line, 2 * surface)
    size = 4 if task["operand_size"] == "wide" else element_bytes(grid.precision)
    if task["operand_size"] == "byte" and not grid.is_float:
        size = 1
    walk = rdma.Walk(OPERAND + atom, line, surface + task["gap"] * atom)
    corrects = _corrects(task, grid)
    kinds = OperandKinds.ALU | OperandKinds.MUL
    return rdma.Config(
        width=grid.width, height=grid.height, channels=channels, precision=precision, proc_precision=grid.precision,
        main=main, bias_kinds=kinds | OperandKinds.CPEND if corrects else kinds, bias_address=CHANNELS,
        norm_kinds=kinds, norm_address=CHANNELS + _NORM_OFFSET,
        operand=rdma.Operand(_PIXEL[operand], size, walk) if operand in _PIXEL else None, combine=combine,
        repeat_x=1, repeat_y=1, repeats=False, atom_bytes=atom, operand_block=grid.chip.bias_group,
        byte_corrections=byte_corrections(task, grid),
    )  # fmt: skip
