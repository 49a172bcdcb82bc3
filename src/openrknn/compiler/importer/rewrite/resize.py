"""Resize and Upsample that later stages have no recipe for: along each axis a product with a constant matrix.

Rows and columns are turned into channels for it, where a 1x1 convolution is that product. Sizes are filled up to whole
runs of channels, so that the NPU does the turning itself; what was added is cut off at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.importer.rewrite.interpolation import matrix, outside
from openrknn.compiler.importer.rewrite.writer import Writer, attribute
from openrknn.compiler.ir import Array

_LARGEST_FACTOR = 8
_RUN = 16
_SMALL = 2048
"""Elements of maps that the CPU turns as quickly as the NPU would be asked to."""
_MOST_PRODUCTS = 1 << 34
_OLD = 10
"""Up to this opset Resize had no coordinate modes."""
_INPUTS = {"roi": 1, "scales": 2, "sizes": 3}


def _resize(writer: Writer, node: Any) -> None:
    """Whole factors: pixels repeated, or a transposed convolution; every n-th pixel; any other by constant matrices."""
    shape, out = writer.shape(node.input[0]), writer.shape(node.output[0])
    if shape is None or out is None or writer.constant(node.input[0]) is not None:
        return
    if shape == out and attribute(node, "coordinate_transformation_mode") != "tf_crop_and_resize":
        writer.add("Identity", node.input[0], to=node.output[0])
        return
    how, found = _how(writer, node), _factors(writer, node, shape, out)
    if found is None or how["mode"] not in {"nearest", "linear", "cubic"}:
        return
    scales, regions = found
    axes = [axis for axis in range(len(shape)) if shape[axis] != out[axis] or regions[axis] != (0.0, 1.0)]
    if not axes or axes[0] < 2 or shape[0] != 1 or len(shape) not in (3, 4):
        return
    if _is_known(node, shape, out, how) or _every_nth(writer, node, shape, out, how):
        return
    each = {axis: (shape[axis], out[axis], scales[axis], how, regions[axis]) for axis in axes}
    beyond = [outside(*each[axis]) if axis in each else np.zeros(out[axis], bool) for axis in (*range(len(out)),)]
    four = shape if len(shape) == 4 else (*shape[:2], 1, shape[2])
    source = node.input[0] if four == shape else writer.reshape(node.input[0], four)
    matrices = {axis + 4 - len(shape): matrix(*given) for axis, given in each.items()}
    made = _products(writer, source, four, matrices)
    if made is None:
        writer.undo()
        return
    if any(side.any() for side in beyond) and how["extrapolation_value"]:
        frame = np.zeros((1, 1, *out[-2:]) if len(out) == 4 else (1, 1, 1, out[-1]))
        for axis, side in enumerate(beyond[2:], start=4 - len(out) + 2):
            frame[(slice(None),) * axis + (side,)] = how["extrapolation_value"]
        made = writer.add("Add", made, writer.new(np.broadcast_to(frame, (1, out[1], *frame.shape[2:]))))
    writer.reshape(made, out, to=node.output[0])


def _how(writer: Writer, node: Any) -> dict[str, Any]:
    """Attributes with their defaults; before opset 11 pixels start at the first one."""
    is_old = writer.facts.opset <= _OLD or node.op_type == "Upsample"
    mode = str(attribute(node, "mode", "nearest"))
    return {
        "mode": "linear" if mode == "bilinear" else mode,
        "coordinate_transformation_mode": "asymmetric" if is_old else attribute(
            node, "coordinate_transformation_mode", "half_pixel"
        ),
        "nearest_mode": "floor" if is_old else attribute(node, "nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": attribute(node, "cubic_coeff_a", -0.75),
        "exclude_outside": int(attribute(node, "exclude_outside", 0)),
        "extrapolation_value": float(attribute(node, "extrapolation_value", 0.0)),
        "antialias": int(attribute(node, "antialias", 0)),
    }


def _factors(
    writer: Writer, node: Any, shape: tuple[int, ...], out: tuple[int, ...]
) -> tuple[list[float], list[tuple[float, float]]] | None:
    """Of every axis the factor, and which part of it is taken; None where they are computed."""
    rank = len(shape)
    axes = [int(axis) % rank for axis in attribute(node, "axes") or range(rank)]
    scales, regions = [1.0] * rank, [(0.0, 1.0)] * rank
    given = attribute(node, "scales")
    if given is None:
        is_short = writer.facts.opset <= _OLD or node.op_type == "Upsample"
        array = writer.operand(node, 1 if is_short else _INPUTS["scales"])
        given = None if array is None or not array.size else array.reshape(-1).tolist()
    if given is not None:
        if len(given) != len(axes):
            return None
        for axis, scale in zip(axes, given, strict=True):
            scales[axis] = float(scale)
    else:
        sizes = writer.operand(node, _INPUTS["sizes"])
        if sizes is None or sizes.size != len(axes):
            return None
        ratios = [float(size) / shape[axis] for axis, size in zip(axes, sizes.reshape(-1), strict=True)]
        policy = attribute(node, "keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(ratios)
        for axis, ratio in zip(axes, ratios, strict=True):
            scales[axis] = ratio
    if attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = writer.operand(node, _INPUTS["roi"])
        if roi is None or roi.size != 2 * len(axes):
            return None
        bounds = roi.reshape(2, -1)
        for at, axis in enumerate(axes):
            regions[axis] = float(bounds[0, at]), float(bounds[1, at])
    return scales, regions


def _is_known(node: Any, shape: tuple[int, ...], out: tuple[int, ...], how: dict[str, Any]) -> bool:
    """Whether `normalise` has a recipe: whole factors up to 8, nearest as repetition or linear by half pixels."""
    sides = list(zip(shape, out, strict=True))
    if len(shape) != 4 or any(made % size or made // size > _LARGEST_FACTOR for size, made in sides):
        return False
    if how["mode"] == "nearest":
        given = ((size, made, made / size, how, (0.0, 1.0)) for size, made in zip(shape[2:], out[2:], strict=True))
        return all(np.array_equal(matrix(*one).argmax(1), np.arange(one[1]) // (one[1] // one[0])) for one in given)
    centres = how["coordinate_transformation_mode"] in {"half_pixel", "pytorch_half_pixel"}
    return how["mode"] == "linear" and centres and min(shape[2:]) > 1 and node.op_type == "Resize"


def _every_nth(writer: Writer, node: Any, shape: tuple[int, ...], out: tuple[int, ...], how: dict[str, Any]) -> bool:
    """Nearest resizing by 1/n that starts at the first pixel."""
    if how["mode"] != "nearest" or len(shape) != 4 or how["nearest_mode"] == "ceil":
        return False
    steps = [have // want for have, want in zip(shape[2:], out[2:], strict=True)]
    if how["coordinate_transformation_mode"] != "asymmetric" or any(
        step < 1 or have != step * want for step, have, want in zip(steps, shape[2:], out[2:], strict=True)
    ):
        return False
    if writer.facts.opset < _OLD:
        return False
    numbers = [writer.new(value, np.int64) for value in ([0, 0], list(shape[2:]), [2, 3], steps)]
    writer.add("Slice", node.input[0], *numbers, to=node.output[0])
    return True


def _products(writer: Writer, source: str, shape: tuple[int, ...], matrices: dict[int, Array]) -> str | None:
    """[1, C, H, W] with rows and columns multiplied by matrices; None where that is too much work."""
    _, channels, height, width = shape
    rows, columns = (matrices.get(axis) for axis in (2, 3))
    if (height, width) == (1, 1):
        return _spread(writer, source, channels, rows, columns)
    made = [len(entry) if entry is not None else size for entry, size in ((rows, height), (columns, width))]
    work = channels * made[0] * width * (height if rows is not None else 0) + (
        channels * prod(made) * (width if columns is not None else 0)
    )
    if work > _MOST_PRODUCTS:
        return None
    run = _RUN if prod(shape) * prod(made) // (height * width) > _SMALL else 1
    wide = [-(-size // run) * run for size in (channels, *((height,) if rows is not None else (1,)), width)]
    pads = [0, wide[0] - channels, (wide[1] - height) if rows is not None else 0,
            (wide[2] - width) if columns is not None else 0]  # fmt: skip
    name = source
    for axis in (1, 2, 3):
        if pads[axis]:
            name = writer.pad(name, [0] * 4, [pads[axis] if at == axis else 0 for at in range(4)])
    order = (0, 1, 2, 3)
    if rows is not None:
        name = _times(writer, writer.transpose(name, [0, 2, 1, 3]), rows, height + pads[2], run)
        order = (0, 2, 1, 3)
    if columns is not None:
        # From where the last product left them to [1, W, H, C].
        name = writer.transpose(name, [order.index(axis) for axis in (0, 3, 2, 1)])
        name = _times(writer, name, columns, width + pads[3], run)
        order = (0, 3, 2, 1)
    name = writer.transpose(name, [order.index(axis) for axis in range(4)])
    if pads[1]:  # a convolution, so that what was filled up is not cut off before it is turned
        name = writer.add("Conv", name, writer.new(np.eye(channels, wide[0])[:, :, None, None]), kernel_shape=[1, 1])
    elif any(made[axis - 2] % run for axis in matrices):
        name = writer.add("Conv", name, writer.new(np.eye(channels)[:, :, None, None]), kernel_shape=[1, 1])
    for axis in matrices:
        if made[axis - 2] % run:
            name = writer.cut(name, axis, 0, made[axis - 2])
    return name


def _times(writer: Writer, source: str, weights: Array, inputs: int, run: int) -> str:
    """A product over channels; zeros for what was filled up."""
    full = filled((-(-len(weights) // run) * run, inputs, 1, 1), "Resize")
    full[: len(weights), : weights.shape[1], 0, 0] = weights
    return writer.add("Conv", source, writer.new(full), kernel_shape=[1, 1])


def _spread(writer: Writer, source: str, channels: int, rows: Array | None, columns: Array | None) -> str | None:
    """A single pixel: copies of it."""
    both = [np.ones((1, 1)) if entry is None else entry for entry in (rows, columns)]
    if any(not np.allclose(entry, 1) for entry in both):
        return None
    sizes = [1, channels, len(both[0]), len(both[1])]
    return writer.add("Expand", source, writer.new(sizes, np.int64))


RULES: dict[str, Callable[[Writer, Any], None]] = {"Resize": _resize, "Upsample": _resize}
