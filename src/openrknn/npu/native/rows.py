"""Rows that follow each other in memory are one row: kernels prepare each row, and rows of one pixel take long."""

from __future__ import annotations

from openrknn.nativelib.structures import Convolution, Cube, Flying
from openrknn.npu.native.program import NOTHING, TENSOR
from openrknn.task.formats import ATOM_BYTES

_MOST_APART = 4
"""Columns: those between are read, too."""


def join_rows(step: Flying | Convolution) -> None:
    """Make the grid one row where its pixels keep their places. Nothing of a pixel depends on its row."""
    dpu, cubes, apart = step.dpu, [step.source] if isinstance(step, Flying) else [], 1
    if isinstance(step, Flying):
        height, width = step.height, step.width
    else:
        height, width = step.out_height, step.out_width
        # Rows of one pixel may have gaps: a row whose pixels are some columns apart.
        apart = step.line // ATOM_BYTES if width == 1 else 1
        if not _is_product(step) or step.line != width * apart * ATOM_BYTES or not 1 <= apart <= _MOST_APART:
            return
    if dpu.element_wise.operation != NOTHING and dpu.element_wise.operand_kind == TENSOR:
        cubes.append(dpu.element_wise.operand)
    if height == 1 or dpu.halves or not all(_has_no_gaps(cube, width) for cube in cubes):
        return
    dpu.width = step.width = height * width
    step.height = 1
    if isinstance(step, Convolution):
        step.out_height, step.out_width = 1, height * width
        step.width, step.stride_x = (height * width - 1) * apart + 1, apart


def _is_product(step: Convolution) -> bool:
    """Whether each output pixel needs one input pixel, in the same order; of floats, as rows of integers are fast."""
    ones = (step.kernel_height, step.kernel_width, step.stride_y, step.stride_x, step.spread_y, step.spread_x)
    return (
        bool(step.dpu.is_float)
        and set(ones) == {1}
        and not (step.picture or step.depthwise or step.pad_top or step.pad_left)
        and step.out_width == step.width
        and step.out_height <= step.height
    )


def _has_no_gaps(cube: Cube, width: int) -> bool:
    return all(line == width * ATOM_BYTES for line in cube.line)
