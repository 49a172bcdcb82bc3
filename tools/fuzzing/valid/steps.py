"""Parameters as steps: convolution, element-wise, moves, pooling."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.chips import CHIPS, Chip
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, OperandKinds, OperandMode, PoolingMethod
from openrknn.npu.memory import Bytes
from openrknn.npu.task import Convolution, Flying, Pooling, Step
from openrknn.task import cna, core, ppu, rdma
from openrknn.task.formats import element_bits, element_bytes, is_float, surfaces, surfaces_of
from tools.fuzzing.valid.memory import OPERAND, SOURCE, TARGET, WEIGHTS, Recording, recording
from tools.fuzzing.valid.spaces import convolution_output
from tools.fuzzing.valid.stages import Grid, channel_operands, config, readers

__all__ = ["build"]

Task = dict[str, Any]
_EVEN = numerics.Rounding.EVEN
_PLACES = {"apart": SOURCE + 64, "same": TARGET + 4096, "shifted": TARGET + 4096 + 48}
_FARTHEST = 0xFF_FFFF


def build(task: Task) -> tuple[Step, Recording]:
    """The step, and memory in which NumPy can run it."""
    return _BUILDERS[task["kind"]](task, random.Random(task["seed"]))


def _kind(precision: Precision, data: str) -> str:
    name = precision.name.lower()
    return "bytes" if name in {"int4", "int8"} else f"{name} {data}"


def _formats(task: Task) -> tuple[Precision, Precision]:
    """Of features and weights."""
    names = task["precision"].upper().split()
    return Precision[names[0]], Precision[names[-1]]


def _memory(
    task: Task, grid: Grid, precision: Precision, *, constant: bool = True, weights: Bytes | None = None,
    stored: Precision | None = None,
) -> Recording:
    kinds = {SOURCE: _kind(precision, task["data"]), WEIGHTS: _kind(stored or precision, task["data"])}
    kinds[OPERAND] = _kind(grid.precision, task["data"])
    if task.get("operand_size") == "wide":
        kinds[OPERAND] = _kind(Precision.FP32 if grid.is_float else Precision.INT32, task["data"])
    channels = channel_operands(task, grid, np.random.default_rng(task["seed"]))
    return recording(kinds, channels, task["seed"], constant=constant, weights=weights)


def _pitch(line: int, task: Task, atom: int, count: int) -> int:
    """Bytes from surface to surface; if there is one, the next may be as far away as registers can say."""
    if count == 1 and task["seed"] % 2:
        return _FARTHEST * atom
    return line * int(task["height"]) + int(task["gap"]) * atom


# ---------------------------------------------------------------------------------------------------- convolution


def _convolution(task: Task, rng: random.Random) -> tuple[Step, Recording]:
    chip, (precision, stored) = CHIPS[task["chip"]], _formats(task)
    source = _features(task, chip, precision, stored)
    made = source.weight_channels if source.depthwise else source.kernels
    lanes = chip.atom_bytes * 8 // element_bits(precision)
    channels = -(-made // lanes) * lanes + task["surplus"]
    real = min(source.channels, made) if source.depthwise else made
    arithmetic = precision if is_float(precision) else Precision.INT8
    grid = Grid(channels, real, source.out_height, source.out_width, arithmetic, chip)
    step = Convolution(
        0, 0, _memory(task, grid, precision, constant=task["weights"] != "fresh", weights=_pairs(source, task),
                      stored=stored),
        source=source,
        array=core.Config(window_sums=task["correction"] != "none" and not grid.is_float,
                          shift=0 if grid.is_float else task["truncate"],
                          rounding=rng.choice(list(numerics.Rounding))),
        dpu=config(task, grid, precision, rng, flying=False),
        reader=readers(task, grid, precision, None, channels),
    )  # fmt: skip
    return step, step.memory  # type: ignore[return-value]


def _features(task: Task, chip: Chip, precision: Precision, stored: Precision) -> cna.Config:
    bits, atom = element_bits(precision), chip.atom_bytes
    is_plain = stored is precision and precision is not Precision.INT4
    depthwise = task["mode"] == "depthwise"
    packed = int(task["mode"].split()[1]) if task["mode"].startswith("picture") else 0
    lanes = atom * 8 // bits
    channels = lanes if packed else task["channels"]
    wanted = packed or channels + task["weight_surplus"]
    weight_channels = -(-wanted // lanes) * lanes if task["weight_surplus"] != 1 else wanted
    rows, columns = convolution_output(task)
    weights = task["weights"] if precision is Precision.INT8 and is_plain else "plain"
    inline = (chip.inline_zero_points or 2) if weights == "inline" and depthwise else 0
    major = weights == "input major" and not depthwise and (task["kernel_height"], task["kernel_width"]) == (1, 1)
    packed_rows = weights == "rows" and packed > 0
    kernels = 1 if depthwise else task["kernels"]
    line = (task["width"] + task["gap"]) * (packed * bits // 8 or atom)
    return cna.Config(
        feature_address=_PLACES[task["place"]], height=task["height"], width=task["width"], channels=channels,
        packed_channels=packed, line_bytes=line, precision=precision,
        surface_bytes=_pitch(line, task, atom, 1 if packed else surfaces_of(channels, precision, atom)),
        is_unsigned=packed > 0 and task["converter"] in ("add first", "add last") and not is_float(precision),
        converter=_converter(task, precision), pad_top=task["pad_top"], pad_left=task["pad_left"],
        pad_bits=0 if precision is Precision.INT4 else task["pad_value"], out_height=rows,
        out_width=columns, weight_address=WEIGHTS,
        weight_bytes=_weight_bytes(task, element_bits(stored), kernels, weight_channels, inline=inline,
                                   packed_rows=packed_rows),
        weight_channels=weight_channels, weight_precision=stored, kernels=kernels,
        kernel_height=task["kernel_height"], kernel_width=task["kernel_width"], stride_x=task["stride_x"],
        stride_y=task["stride_y"], dilation_x=task["dilation_x"], dilation_y=task["dilation_y"],
        spread_x=task["spread_x"], spread_y=task["spread_y"], depthwise=depthwise, atom_bytes=atom,
        kernel_group=max(chip.weight_group[0] * 8 // bits, 1), input_group=chip.weight_group[1],
        depthwise_group=max(chip.depthwise_group * 8 // bits, 1), inline_zero_points=inline,
        weight_offset=7 if weights == "offset" and depthwise else 0, packed_rows=packed_rows, input_major=major,
    )  # fmt: skip


def _weight_bytes(
    task: Task, bits: int, kernels: int, channels: int, *, inline: int, packed_rows: bool
) -> int:
    rows, columns = int(task["kernel_height"]), int(task["kernel_width"])
    if packed_rows:
        return kernels * rows * -(-columns * channels * bits // 128) * 16
    count = kernels * rows * columns * channels
    return -(-count // inline) * inline * 2 if inline else -(-count * bits // 8)


def _pairs(source: cna.Config, task: Task) -> Bytes | None:
    """Weights and negated zero points that take turns; the zero points are those of the channels, or one for all."""
    run = source.inline_zero_points
    if not run:
        return None
    rng = np.random.default_rng(task["seed"])
    data = rng.integers(0, 256, source.weight_bytes, np.uint8)
    zeros = rng.integers(0, 256, source.depthwise_group, np.uint8)
    if source.weight_channels % source.depthwise_group:
        zeros[:] = zeros[0]
    pairs = data.reshape(-1, 2, run)
    pairs[:, 1] = np.resize(zeros, pairs[:, 1].size).reshape(-1, run)
    return data


def _converter(task: Task, precision: Precision) -> cna.Converter | None:
    if task["converter"] == "none" or is_float(precision) or precision is Precision.INT4:
        return None
    return cna.Converter(
        add_first=task["converter"] == "add first", rounding=_EVEN, shifts=(14, 13, 14, 15),
        scales=(16384, 9000, -7000, 20000), offsets=(-128, 3, 40, -9),
        lanes=0x00FF if task["converter"] == "some lanes" else 0xFFFF,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- element-wise


def _main(task: Task, chip: Chip, size: int) -> tuple[rdma.Walk, rdma.Walk]:
    """Where the main data are: all surfaces, or the even ones; and the odd ones."""
    line = (task["width"] + task["gap"]) * chip.atom_bytes
    surface = _pitch(line, task, chip.atom_bytes, surfaces(task["channels"], size, chip.atom_bytes))
    if task["main"] == "combined":
        return rdma.Walk(SOURCE + 64, line, 2 * surface), rdma.Walk(SOURCE + 64 + surface, line, 2 * surface)
    walk = rdma.Walk(_PLACES[task["place"]], line, surface)
    return walk, walk


def _flying(task: Task, rng: random.Random) -> tuple[Step, Recording]:
    chip, precision = CHIPS[task["chip"]], Precision[task["precision"].upper()]
    size = element_bytes(precision)
    if size == 4 and chip.atom_bytes == 8:
        chip = replace(chip, atom_bytes=16)
    lanes = chip.atom_bytes // size
    arithmetic = precision if task["arithmetic"] == "same" else Precision[task["arithmetic"].upper()]
    channels = -(-(task["channels"] + task["missing"]) // lanes) * lanes
    grid = Grid(channels, max(task["channels"] - task["surplus"], 1), task["height"], task["width"], arithmetic, chip)
    even, odd = _main(task, chip, size)
    reader = readers(task, grid, precision, even, task["channels"])
    if task["main"] == "combined" and task["operand"] in ("none", "constant"):
        operand = rdma.Operand(_TENSOR, size, odd)
        reader = replace(reader, operand=operand, combine=CombineUse.ENABLE | CombineUse.MAIN)
    memory = _memory(task, grid, precision)
    return Flying(0, 0, memory, dpu=config(task, grid, precision, rng, flying=True), reader=reader), memory


def _move(task: Task, rng: random.Random) -> tuple[Step, Recording]:
    task = {**_PLAIN, **task, "out": task["precision"]}
    chip, precision = CHIPS[task["chip"]], Precision[task["precision"].upper()]
    size = element_bytes(precision)
    count = surfaces(task["channels"], size, chip.atom_bytes)
    channels = count * chip.atom_bytes // size
    grid = Grid(channels, channels, task["height"], task["width"], precision, chip)
    even, odd = _main(task, chip, size)
    reader = readers(task, grid, precision, even, task["channels"])
    if task["main"] == "combined":
        reader = replace(
            reader, operand=rdma.Operand(_TENSOR, size, odd), combine=CombineUse.ENABLE | CombineUse.MAIN
        )
    reader = replace(reader, bias_kinds=OperandKinds(0), norm_kinds=OperandKinds(0))
    repeats = task["move"] == "repeat"
    if repeats:
        grid = replace(grid, width=task["width"] * task["repeat_x"])
        reader = replace(reader, repeats=True, repeat_x=task["repeat_x"], repeat_y=task["repeat_y"])
    dpu = config(task, grid, precision, rng, flying=True)
    if task["move"] == "lanes":
        dpu = replace(dpu, write=replace(dpu.write, transposed_lanes=chip.atom_bytes // size))
    elif task["move"] == "atoms":
        dpu = replace(dpu, write=replace(dpu.write, transposes_atoms=True))
    elif not repeats:
        kind = ChannelReduction.MAXIMUM if task["move"] == "largest" else ChannelReduction(0)
        dpu = replace(dpu, reduction=ChannelReduction.ENABLE | kind)
    memory = _memory(task, grid, precision)
    return Flying(0, 0, memory, dpu=dpu, reader=reader), memory


# ---------------------------------------------------------------------------------------------------- pooling


def _pooling(task: Task, rng: random.Random) -> tuple[Step, Recording]:
    if task["whole"]:
        task = {**task, "kernel_height": task["height"], "kernel_width": task["width"], "pad_top": 0, "pad_left": 0,
                "pad_bottom": 0, "pad_right": 0}  # fmt: skip
    chip, precision = CHIPS[task["chip"]], Precision[task["precision"].upper()]
    atom = chip.atom_bytes
    rows, columns = convolution_output(task)
    reciprocals = [65536 // task["kernel_width"], 65536 // task["kernel_height"]]
    if precision is Precision.FP16:
        reciprocals = [int(np.float16(size).view(np.uint16)) if size < 65536 else 0x7C00 for size in reciprocals]
    count = surfaces(task["channels"], element_bytes(precision), atom)
    line, target_line = (task["width"] + task["gap"]) * atom, (columns + task["gap"]) * atom
    found = ppu.Config(
        method=PoolingMethod[task["method"].upper()], precision=precision, source_address=_PLACES[task["place"]],
        source_line_bytes=line, source_surface_bytes=_pitch(line, task, atom, count), target_address=TARGET + 4096,
        target_line_bytes=target_line, target_surface_bytes=target_line * rows + task["gap"] * atom,
        channels=task["channels"], height=task["height"], width=task["width"], out_height=rows, out_width=columns,
        kernel_height=task["kernel_height"], kernel_width=task["kernel_width"], stride_y=task["stride_y"],
        stride_x=task["stride_x"], pad_top=task["pad_top"], pad_left=task["pad_left"], pad_value=task["pad_value"],
        reciprocal_width=reciprocals[0], reciprocal_height=reciprocals[1], atom_bytes=atom,
    )  # fmt: skip
    grid = Grid(task["channels"], task["channels"], rows, columns, precision, chip)
    memory = _memory({**_PLAIN, **task}, grid, precision)
    return Pooling(0, 0, memory, config=found), memory


_TENSOR = OperandMode.PER_PIXEL
_PLAIN: Task = {"bias": "none", "norm": "none", "table": "none", "operand": "none", "algorithm": "max",
                "operand_converter": "none", "operand_size": "same", "last_clamp": "none", "style": "usual",
                "packed": "none", "main": "alone"}  # fmt: skip
"""A DPU that computes nothing."""
_BUILDERS = {
    "convolution": _convolution, "formats": _convolution, "flying": _flying, "move": _move, "pooling": _pooling,
}  # fmt: skip
