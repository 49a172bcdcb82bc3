"""Maximum and average over windows, on the PPU."""

from __future__ import annotations

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import Pool
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import Task
from openrknn.compiler.recipes.pooling import pooling_task
from openrknn.compiler.tile import Rows, parts, pool_rows, stripes


def lower_pool(low: Lowering, op: Op) -> None:
    """One task per stripe of columns; cores share the rows of the output."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    pool = op.get(Pool)
    kernel, strides, (top, left), average = pool.kernel, pool.strides, pool.pads[:2], pool.method == "average"
    channels, height, width = source.cube
    _, out_height, out_width = target.cube
    quantization = low.quantization(op.inputs[0])
    if average and quantization is None and not low.target.averages_floats:
        raise UnsupportedOperatorError(
            f"{op.name!r} would be a mean of fp16 numbers, which the pooling unit of {low.target.chip.title} has never "
            "been seen to take; leave it in int8 (--fp16-layers without it), or compile the whole model in fp16"
        )
    step = low.step(op, "AveragePool" if average else "MaxPool")

    def made(rows: Rows) -> list[Task]:
        return [
            Task(pooling_task(
                low.format, average=average, channels=channels, rows=rows.rows, columns=stripe.columns,
                out_rows=rows.out_rows, out_columns=stripe.out_columns, kernel=kernel, strides=strides,
                pads=(rows.pad_top, stripe.pad_left, rows.pad_bottom, stripe.pad_right),
                source=source.at(row=rows.row, column=stripe.column), line_pixels=width, source_pitch=source.pitch,
                target=target.at(row=rows.out_row, column=stripe.out_column), target_pitch=target.pitch,
                target_notch=out_width - stripe.out_columns if rows.out_rows > 1 else 0,
                zero_point=quantization.zero_point if quantization else 0,
            ))
            for stripe in stripes(width, out_width, kernel, strides, left)
        ]  # fmt: skip

    whole = pool_rows(height, kernel[0], strides[0], top, 0, out_height)
    assert whole is not None
    for task in made(whole):
        low.add(step, task)
    for cores in low.options.core_counts:
        bands = [pool_rows(height, kernel[0], strides[0], top, *part) for part in parts(out_height, 1, cores)]
        can = bool(bands) and all(band is not None for band in bands)
        low.share(step, cores, [made(band) for band in bands if band] if can else [step.tasks])
