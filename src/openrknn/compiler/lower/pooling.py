"""Maximum and average over windows, on the PPU."""

from __future__ import annotations

from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.recipes.pooling import PoolingTask, pooling_registers
from openrknn.compiler.program import POOLING, Task
from openrknn.compiler.tile import stripes

__all__ = ["lower_pool"]


def lower_pool(low: Lowering, op: Op) -> None:
    """One task per stripe of columns."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    kernel, strides = op.attributes["kernel"], op.attributes["strides"]
    top, left = op.attributes["pads"][:2]
    average = op.attributes["method"] == "average"
    channels, height, width = source.cube
    _, out_height, out_width = target.cube
    rows = min(height, (out_height - 1) * strides[0] + kernel[0] - top)
    bottom = max(0, (out_height - 1) * strides[0] + kernel[0] - top - rows)
    quantization = low.quantization(op.inputs[0])
    step = low.step(op, "AveragePool" if average else "MaxPool")
    for stripe in stripes(width, out_width, kernel, strides, left):
        task = PoolingTask(
            format=low.format, average=average, channels=channels, rows=rows, columns=stripe.columns,
            out_rows=out_height, out_columns=stripe.out_columns, kernel=kernel, strides=strides,
            pads=(top, stripe.pad_left, bottom, stripe.pad_right), source=source.at(column=stripe.column),
            line_pixels=width, source_pitch=source.pitch, target=target.at(column=stripe.out_column),
            target_pitch=target.pitch, target_notch=out_width - stripe.out_columns,
            zero_point=quantization.zero_point if quantization else 0,
        )  # fmt: skip
        low.add(step, Task(POOLING, pooling_registers(task)))
