"""Convolutions: direct, depthwise, grouped, transposed, on feature maps and on pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import align, ceil_div
from openrknn.compiler.forms import Activation, Conv
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.constants import Packed, pack_constants
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.wide import is_wide, scale_task, wide_tensor
from openrknn.compiler.operators import NPU_FUNCTIONS
from openrknn.compiler.program import Place, Step, Task, Tensor
from openrknn.compiler.recipes.convolution import ConvolutionTask, Residual, convolution_task
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish, fp16_bits
from openrknn.compiler.recipes.stages import Stages
from openrknn.compiler.tile import Axis, Band, Columns, Shape, Share, folded, share_bands, shares, tile
from openrknn.container.parts import DataType
from openrknn.isa.enums import EwAlgorithm
from openrknn.layout.operands import Operands, pack_operands

_NAMES = {name: function.fused for name, function in NPU_FUNCTIONS.items()}


@dataclass(frozen=True, slots=True)
class _Geometry:
    """A convolution in the form of the CNA: transposed ones are direct ones over spread rows."""

    weights: Array
    strides: tuple[int, int]
    dilations: tuple[int, int]
    top: int
    left: int
    spread: tuple[int, int]
    group: int

    def inside(self, side: int, size: int, made: int) -> Array:
        """For each tap of a side: the share of windows in which it reads the map, not padding or what spreads it."""
        taps = np.arange(self.weights.shape[2 + side]) * self.dilations[side]
        places = np.arange(made)[:, None] * self.strides[side] + taps - (self.top, self.left)[side]
        is_inside = (places >= 0) & (places <= (size - 1) * self.spread[side]) & (places % self.spread[side] == 0)
        share: Array = is_inside.mean(0)
        return share


def lower_convolution(low: Lowering, op: Op) -> None:
    """One step; several tasks where the map is cut, or groups are."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    geometry = _geometry(low, op)
    residual = op.inputs[3] if len(op.inputs) > 3 else None
    conv, function = op.get(Conv), low.functions.get(op.output)
    kind = "ConvTranspose" if op.type == "ConvTranspose" else "Conv"
    kind += ("Add" if residual else "") + _suffix(op)
    step = low.step(op, kind, inputs=[op.inputs[0]], outputs=[op.output])
    step.macs = int(np.prod(target.cube)) * int(np.prod(geometry.weights.shape[1:]))
    bias = low.graph.constants[op.inputs[2]].astype(np.float64)
    written = wide_tensor(low, op.output) if is_wide(low, op) else target
    depthwise = geometry.group > 1 and geometry.group == source.cube[0] == target.cube[0] and source.layout != "picture"
    if depthwise:
        _part(low, op, step, geometry, geometry.weights, bias, 0, 0, source.cube[0], written, depthwise=True)
    else:
        for weights, part_bias, first_in, first_out, channels in _groups(low, geometry, bias, source):
            _part(low, op, step, geometry, weights, part_bias, first_in, first_out, channels, written, depthwise=False)
    if conv.edges:
        _correct_edges(low, op, step, *conv.edges)
        step.shares.clear()  # edges are corrected when all rows are there
    if residual:
        step.inputs.append(residual)
    if function is not None:
        step.table = function.key
        if written is not target:
            low.add_rows(step, scale_task(low, written, op.output, function))


def _correct_edges(
    low: Lowering, op: Op, step: Step, row_factors: tuple[float, ...], column_factors: tuple[float, ...]
) -> None:
    """Multiply the outermost rows and columns in place; corners get both factors."""
    tensor = low.tensor(op.output)
    channels, height, width = tensor.cube
    quantization = low.quantization(op.output)
    strips = [((channels, 1, width), row, 0, gain)
              for number, gain in enumerate(row_factors) for row in (number, height - 1 - number)]  # fmt: skip
    strips += [((channels, height, 1), 0, column, gain)
               for number, gain in enumerate(column_factors) for column in (number, width - 1 - number)]  # fmt: skip
    for size, row, column, gain in strips:
        finish = Finish(quantization.scale if quantization else 1.0, quantization, flying=True)
        finish.subtract_zero_point(quantization)
        finish.multiply(gain)
        finish.output()
        cube = Cube(tensor.at(0, row, column), tensor.pitch)
        low.add(step, Task(elementwise_task(low.format, size, cube, cube, finish.stages, line=width)))


def _suffix(op: Op) -> str:
    name = _NAMES.get(op.activation.function, "Lut") if op.activation else ""
    return name + ("Relu" if op.get(Conv).post_relu else "")


def _geometry(low: Lowering, op: Op) -> _Geometry:
    weights = low.graph.constants[op.inputs[1]].astype(np.float64)
    conv = op.get(Conv)
    strides, dilations, group, (top, left) = conv.strides, conv.dilations, conv.group, conv.pads[:2]
    if op.type == "Conv":
        return _Geometry(weights, strides, dilations, top, left, (1, 1), group)
    inputs, outputs = weights.shape[0] // group, weights.shape[1]
    split = weights.reshape(group, inputs, outputs, *weights.shape[2:])
    flipped = split.transpose(0, 2, 1, 3, 4)[..., ::-1, ::-1].reshape(group * outputs, inputs, *weights.shape[2:])
    reach = [(size - 1) * step for size, step in zip(weights.shape[2:], dilations, strict=True)]
    return _Geometry(
        np.ascontiguousarray(flipped), (1, 1), dilations, reach[0] - top, reach[1] - left, strides, group
    )


def _groups(
    low: Lowering, geometry: _Geometry, bias: Array, source: Tensor
) -> list[tuple[Array, Array, int, int, int]]:
    """(weights, bias, first input, first output, inputs) of convolutions on whole atoms.

    Groups that are narrower than an atom are put together, with zeros where they do not meet.
    """
    weights, group = geometry.weights, geometry.group
    if group == 1:
        return [(weights, bias, 0, 0, weights.shape[1])]
    outputs, inputs = len(weights) // group, weights.shape[1]
    atom = low.format.atom
    together = next(
        (
            count
            for count in range(1, group + 1)
            if group % count == 0 and (inputs * count) % atom == 0 and (outputs * count) % atom == 0
        ),
        group,
    )
    if source.layout == "picture":
        together = group
    found = []
    for first in range(0, group, together):
        dense = filled((outputs * together, inputs * together, *weights.shape[2:]), "Conv")
        for number in range(together):
            rows = slice(number * outputs, (number + 1) * outputs)
            columns = slice(number * inputs, (number + 1) * inputs)
            dense[rows, columns] = weights[(first + number) * outputs : (first + number + 1) * outputs]
        part = bias[first * outputs : (first + together) * outputs]
        found.append((dense, part, first * inputs, first * outputs, inputs * together))
    return found


def _part(
    low: Lowering, op: Op, step: Step, geometry: _Geometry, weights: Array, bias: Array, first_in: int, first_out: int,
    channels: int, target: Tensor, *, depthwise: bool,
) -> None:  # fmt: skip
    form = low.format
    source = low.tensor(op.inputs[0])
    rows, columns = (geometry.inside(side, source.cube[1 + side], target.cube[1 + side]) for side in (0, 1))
    inside = np.multiply.outer(rows, columns)
    packed = pack_constants(low, op, weights, bias, first_in, inside, depthwise=depthwise)
    step.inputs += [packed.weights, packed.bias]
    is_picture = source.layout == "picture"
    _, height, width = source.cube
    _, out_height, out_width = target.cube
    kernel = (weights.shape[2], weights.shape[3])
    top, left = max(geometry.top, 0), max(geometry.left, 0)
    skip_rows, skip_columns = max(-geometry.top, 0), max(-geometry.left, 0)
    reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, geometry.dilations, strict=True)]
    used_rows, used_columns = height - skip_rows, width - skip_columns
    if geometry.spread == (1, 1):
        used_rows = min(used_rows, (out_height - 1) * geometry.strides[0] + reach[0] - top)
        if low.target.crops_columns:
            used_columns = min(used_columns, (out_width - 1) * geometry.strides[1] + reach[1] - left)
    if min(used_rows, used_columns) < 1:
        raise UnsupportedOperatorError(
            f"{op.name!r} never sees its input of {height} x {width} pixels, only padding: its result is constant. "
            "Export the model without it, or for a larger input"
        )
    row_pixels = align(width, form.atom) if is_picture else 0
    stride, dilation, spread = (pair[1] for pair in (geometry.strides, geometry.dilations, geometry.spread))
    axis = Axis(used_columns, out_width, kernel[1], stride, dilation, left, spread)
    is_plain = len(op.inputs) < 4 and target.atom_bytes == form.atom_bytes and out_width < low.target.longest_line
    shape = Shape(
        channels=channels, height=used_rows,
        width=used_columns * (geometry.spread[1] if low.target.buffer.counts_spread else 1), out_height=out_height,
        kernel=kernel, stride=geometry.strides[0], dilation=geometry.dilations[0], pad_top=top, depthwise=depthwise,
        stored_kernels=packed.kernels, kernel_channels=packed.channels, picture_row=row_pixels,
        spread=geometry.spread[0], pixels=out_height * out_width, buffer=low.target.buffer, axis=axis,
        can_skip=is_plain and low.target.skips_columns,
    )  # fmt: skip
    if (used_rows, used_columns) == (height, width):
        shape = folded(shape, form, wants_rows=bool(low.options.core_counts))
    line, out_line = (width, out_width)
    if shape.axis is not None and shape.out_height != out_height:
        line = out_line = shape.axis.size
    finish = _finish(low, op, packed, first_out, len(bias))

    def made(band: Band, share: Share) -> Task:
        chunk = band.channels if depthwise else share.kernels
        skipped = _stored(low, band.channel) * packed.kernels if depthwise else 0
        stored = _stored(low, chunk) if depthwise else packed.channels
        kernel_bytes = stored * kernel[0] * kernel[1] * form.element_bytes
        first = band.channel if depthwise else share.kernel
        skipped_bytes = skipped * kernel[0] * kernel[1] * form.element_bytes + share.kernel * kernel_bytes
        part = band.columns or Columns(0, min(used_columns, line), 0, out_line, left)
        place = (skip_rows + band.row) * line + skip_columns + part.column
        out_place = band.out_row * out_line + part.out_column
        task = ConvolutionTask(
            format=form, band=band,
            source=(_pixels(source, skip_rows + band.row, skip_columns, row_pixels) if is_picture
                    else source.pixel(first_in + band.channel, place)),
            weights=Place(packed.weights, skipped_bytes), bias=Place(packed.bias, first * packed.operand_bytes),
            target=target.pixel(first_out + first, out_place),
            width=part.columns, line_pixels=line, source_pitch=source.pitch,
            target_pitch=target.pitch * target.atom_bytes // form.atom_bytes,
            out_width=part.out_columns, target_line=out_line, kernels=chunk,
            stored_kernels=_kernels(packed, share, len(bias)),
            kernel_bytes=kernel_bytes, kernel=kernel, strides=geometry.strides,
            dilations=geometry.dilations, pad_left=part.pad_left, pad_value=_pad_value(low, op), depthwise=depthwise,
            spread=geometry.spread, buffer=low.target.buffer,
            picture_channels=source.cube[0] if is_picture else 0, picture_row=row_pixels,
            picture_height=height, residual=_residual(low, op, first_out + share.kernel, out_place),
        )  # fmt: skip
        work = convolution_task(task, _slope_chunk(finish.stages, first))
        return Task(work, picture=source.name if is_picture else None, first_row=band.row)

    whole = Share(0, shape.out_height, 0, len(bias))
    for band in tile(shape, form, op.name):
        kernels = min(band.kernels, len(bias) - band.kernel) or len(bias)
        low.add(step, made(band, Share(0, shape.out_height, band.kernel, kernels)))
    weight_bytes = int(np.prod(weights.shape)) * form.element_bytes
    for cores in low.options.core_counts:
        parts = shares(shape, form, len(bias), weight_bytes, cores) or [whole]
        low.share(
            step, cores,
            [[made(band, part) for band in share_bands(
                replace(shape, stored_kernels=_kernels(packed, part, len(bias))), form, op.name, part)]
             for part in parts],
        )  # fmt: skip


def _kernels(packed: Packed, share: Share, kernels: int) -> int:
    """Kernels in memory: only the last share has those that fill up; depthwise ones count as one."""
    if share.kernel + share.kernels == kernels:
        return packed.kernels - share.kernel
    return share.kernels


def _stored(low: Lowering, channels: int) -> int:
    """Channels of depthwise weights in memory."""
    return low.target.depthwise_weights(channels, 1, 1, low.format.element_bytes).shape[1] if channels else 0


def _pixels(source: Tensor, row: int, column: int, row_pixels: int) -> Place:
    """Of a picture."""
    return Place(source.name, (row * row_pixels + column) * source.cube[0] * source.element_bytes)


def _pad_value(low: Lowering, op: Op) -> int:
    value = op.get(Conv).pad_value
    quantization = low.quantization(op.inputs[0])
    if quantization is None:
        return fp16_bits(value)
    return int(np.clip(round(value / quantization.scale) + quantization.zero_point, -128, 127))


def _residual(low: Lowering, op: Op, first_out: int, pixel: int) -> Residual | None:
    if len(op.inputs) <= 3:
        return None
    tensor = low.tensor(op.inputs[3])
    return Residual(tensor.pixel(first_out, pixel), tensor.pitch)


def _writes_fp16(low: Lowering, op: Op) -> bool:
    """int8 with results in fp16."""
    return low.format is low.target.int8 and low.quantization(op.output) is None


def _finish(low: Lowering, op: Op, packed: Packed, first_out: int, count: int) -> Finish:
    target = low.quantization(op.output)
    finish = Finish(packed.unit, target, flying=False, whole=low.format is low.target.int8)
    if _writes_fp16(low, op) and len(op.inputs) > 3:
        raise UnsupportedOperatorError(f"{op.name!r}: nothing of fp16 can be added in the task of an int8 product")
    finish.convolution(corrects=packed.corrects)
    if packed.power:
        finish.divide(packed.power)
    largest = max(abs(target.low), abs(target.high)) if target is not None else 0.0
    if op.activation:
        apply_activation(low, op, finish, op.activation, largest, first_out, count)
    if len(op.inputs) > 3:
        other = low.quantization(op.inputs[3])
        finish.operand(EwAlgorithm.ADD, other, relu=op.get(Conv).post_relu)
    if _writes_fp16(low, op):
        finish.real_output()
    else:
        finish.output()
    return finish


def apply_activation(
    low: Lowering, op: Op, finish: Finish, activation: Activation, largest: float, first: int, count: int
) -> None:
    """The activation stage of a convolution or of a flying task."""
    function, (alpha, bound) = activation.function, activation.numbers
    if function == "relu":
        finish.relu()
    elif function == "clip":
        finish.clip(bound)
    elif function == "leaky":
        finish.leaky(alpha, largest / min(1.0, abs(alpha) or 1.0))
    elif function == "prelu":
        slope = np.asarray(activation.slope)[first : first + count]
        finish.leaky(Place(_slopes(low, op, slope)), largest / max(1e-2, min(1.0, float(np.abs(slope).max()))))
    else:
        source = low.quantization(op.inputs[0]) if finish.flying else None
        finish.lookup(low.functions[op.output], source, wide=is_wide(low, op))


def _slopes(low: Lowering, op: Op, slope: Array) -> str:
    """Multipliers per channel: Q14 integers or fp16 numbers, room for whole groups."""
    if low.format.element_bytes == 1:
        numbers = np.clip(np.rint(slope * 2**14), -32768, 32767).astype(np.int64)
    else:
        numbers = slope.astype(np.float16).view(np.int16).astype(np.int64)
    operands = Operands(None, None, tuple(int(value) for value in numbers))
    stream = pack_operands(operands, low.target.operand_group, channels=align(len(slope), 64))
    return low.data(f"{op.name}_slope", stream, (ceil_div(len(stream), 2),), DataType.INT16)


def _slope_chunk(stages: Stages, channel: int) -> Stages:
    """Chunks of a depthwise convolution start further on in the slopes."""
    place = stages.norm_address
    if not isinstance(place, Place) or not channel:
        return stages
    return replace(stages, norm_address=Place(place.tensor, place.offset + 2 * channel))
