"""Convolutions that compute nothing, before and after tasks that repeat pixels.

The vendor's streams for RK3576 have two of them on either side ("clear_unpooling"): one pixel of 16 channels, weights
of zero, and what the buffer holds stays there.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import Place, Task
from openrknn.compiler.recipes.convolution import ConvolutionTask, convolution_task
from openrknn.compiler.recipes.stages import PLAIN
from openrknn.compiler.tile import Band
from openrknn.container.parts import DataType

_CHANNELS = 16
_SCRATCH_BYTES = 64
_BASE = "clear_unpooling"


def guard_tasks(low: Lowering) -> list[Task]:
    """As many as the chip wants on one side."""
    form, buffer = low.target.int8, low.target.buffer
    source, target, weights = (
        low.data(f"{_BASE}_{name}", bytes(size), (size,), DataType.INT8)
        for name, size in (("input", _SCRATCH_BYTES), ("output", _SCRATCH_BYTES), ("weight", _CHANNELS * _CHANNELS))
    )
    banks = buffer.data_banks[0] if buffer.data_banks else 1
    task = ConvolutionTask(
        format=form, band=Band(0, _CHANNELS, 0, 1, 0, 1, 0, banks, buffer.banks - banks, True),
        source=Place(source), weights=Place(weights), bias=Place(weights), target=Place(target), width=1, line_pixels=1,
        source_pitch=1, target_pitch=1, out_width=1, kernels=_CHANNELS, stored_kernels=_CHANNELS,
        kernel_bytes=_CHANNELS, kernel=(1, 1), strides=(1, 1), dilations=(1, 1), pad_left=0, pad_value=0, buffer=buffer,
    )  # fmt: skip
    made = convolution_task(task, PLAIN)
    guard = Task(replace(made, buffer=replace(made.buffer, reuses_data=True)))
    return [guard] * low.target.repeat_guards
