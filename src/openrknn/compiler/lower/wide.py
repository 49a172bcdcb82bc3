"""fp16 functions by table where the output converter cannot scale: fp32 in between, and a task that multiplies.

The table holds integers. RK3588's output converter divides them by a power of two; RK3566's does not, so its streams
write them as fp32 and read them again, with two multipliers: their product is what makes them real numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace

from openrknn.compiler.formats import align
from openrknn.compiler.functions import Function
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import Tensor
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.stages import Stages, fp16_number, multiplied, scaled
from openrknn.container.parts import DataType, Kind
from openrknn.isa.enums import Precision
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address

_BYTES = 4
_LANES = 4


def is_wide(low: Lowering, op: Op) -> bool:
    """Whether its function goes this way."""
    return op.output in low.functions and low.format.name == "fp16" and not low.target.scales_tables


def wide_tensor(low: Lowering, name: str) -> Tensor:
    """A scratch map in fp32 for the value, four channels to an atom of 16 bytes."""
    like = low.tensor(name)
    channels, height, width = like.cube
    pixels = height * width
    surfaces = align(-(-channels // _LANES), 2 * low.format.depthwise_group // _LANES)
    tensor = Tensor(
        f"{name}_wide", Kind.INTERNAL, DataType.FLOAT32, (1, *like.cube), "feature", cube=like.cube,
        pitch=align(pixels, 4) if pixels > 1 else 1, native_shape=(1, surfaces, height, width, _LANES),
        element_bytes=_BYTES, atom_bytes=_BYTES * _LANES,
    )  # fmt: skip
    tensor.size_bytes = surfaces * tensor.pitch * tensor.atom_bytes
    low.program.tensors[tensor.name] = tensor
    return tensor


def scale_task(low: Lowering, source: Tensor, target: str, function: Function) -> Elementwise[Address]:
    """fp32 times 1 / gain, a power of two in two parts, to fp16."""
    power = round(math.log2(function.gain))
    channels, rows, columns = low.tensor(target).cube
    step = source.atom_bytes // low.format.atom_bytes
    stages = Stages(
        bias=multiplied(scaled(fp16_number(2.0 ** -(power // 2))), is_float=True),
        norm=multiplied(scaled(fp16_number(2.0 ** -(power - power // 2))), is_float=True),
    )
    made = elementwise_task(
        low.format, (channels, rows, columns), Cube(source.at(), source.pitch), low.cube(target), stages
    )
    assert made.reader.main is not None
    # The reader counts the chip's atoms from the end of a surface to the next one.
    surface = (rows * columns + step * (source.pitch - rows * columns)) * low.format.atom_bytes
    main = replace(made.reader.main, surface_bytes=surface)
    return replace(
        made, dpu=replace(made.dpu, in_precision=Precision.FP32),
        reader=replace(made.reader, precision=Precision.FP32, main=main),
    )  # fmt: skip
