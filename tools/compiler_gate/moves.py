"""Operators that only move numbers: how they are drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tools.compiler_gate.draw import Drawing

__all__ = ["MOVING"]


def _some(drawing: Drawing, *ranks: int) -> str:
    name = drawing.value(*ranks)
    if name is None:
        raise ValueError("no value of that rank")
    return name


def _axis(drawing: Drawing, rank: int) -> int:
    """Mostly not the batch."""
    return int(drawing.random.integers(1 if rank > 1 and drawing.chance(0.95) else 0, rank))


def _transpose(drawing: Drawing) -> None:
    name = _some(drawing, 2, 3, 4, 5)
    rank = len(drawing.shapes[name])
    order = [0, *(1 + drawing.random.permutation(rank - 1)).tolist()]
    if drawing.chance(0.1):
        order = drawing.random.permutation(rank).tolist()
    drawing.add("Transpose", name, perm=[int(axis) for axis in order])


def _reshape(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = list(drawing.shapes[name])
    kind = int(drawing.pick((0, 0, 1, 2, 3)))
    if kind == 0 and len(shape) > 2:  # two dimensions become one
        at = int(drawing.random.integers(1, len(shape) - 1))
        wanted = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    elif kind == 1 or len(shape) < 2:  # one becomes two
        at = _axis(drawing, len(shape))
        factor = int(drawing.pick([size for size in range(1, shape[at] + 1) if shape[at] % size == 0]))
        wanted = [*shape[:at], factor, shape[at] // factor, *shape[at + 1 :]]
    elif kind == 2:
        wanted = [shape[0], -1]
    else:
        at = _axis(drawing, len(shape) + 1)
        wanted = [*shape[:at], 1, *shape[at:]]
    drawing.add("Reshape", name, drawing.constant(wanted, np.int64))


def _squeeze(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    ones = [at for at, size in enumerate(shape) if size == 1 and at]
    if ones and drawing.chance(0.5):
        drawing.add("Squeeze", name, drawing.constant([int(drawing.pick(ones))], np.int64))
    elif drawing.chance(0.5) and len(shape) > 1:
        drawing.add("Flatten", name, axis=int(drawing.pick((1, 1, 1, 2, -1))))
    else:
        drawing.add("Unsqueeze", name, drawing.constant([_axis(drawing, len(shape) + 1)], np.int64))


def _concat(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    axis = _axis(drawing, len(shape))
    fitting = [other for other, sizes in drawing.shapes.items()
               if len(sizes) == len(shape) and other not in drawing.flags
               and all(a == b for at, (a, b) in enumerate(zip(sizes, shape, strict=True)) if at != axis)]  # fmt: skip
    parts = [name, *(drawing.pick(fitting) for _ in range(int(drawing.pick((1, 1, 2)))))]
    if drawing.chance(0.15):
        sizes = [*shape[:axis], int(drawing.pick((1, 2, 3))), *shape[axis + 1 :]]
        parts.insert(int(drawing.pick((0, 1))), drawing.normal(*sizes))
    drawing.add("Concat", *parts, axis=drawing.pick((axis, axis - len(shape))))


def _slice(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    axis = _axis(drawing, len(shape))
    start = int(drawing.random.integers(0, shape[axis]))
    stop = int(drawing.random.integers(start + 1, shape[axis] + 1))
    step = int(drawing.pick((1, 1, 1, 2)))
    if drawing.chance(0.1):
        start, stop, step = stop - 1, start - 1 if start else -(shape[axis] + 1), -1
    drawing.add("Slice", name, *(drawing.constant([value], np.int64) for value in (start, stop, axis, step)))


def _split(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    axis = _axis(drawing, len(shape))
    if shape[axis] < 2:
        raise ValueError("nothing to split")
    if drawing.chance(0.5):
        count = int(drawing.pick([n for n in (2, 3, 4, shape[axis]) if shape[axis] % n == 0 and n <= 6]))
        drawing.add("Split", name, axis=axis, num_outputs=count, count=count)
    else:
        first = int(drawing.random.integers(1, shape[axis]))
        drawing.add("Split", name, drawing.constant([first, shape[axis] - first], np.int64), axis=axis, count=2)


def _pad(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    mode = drawing.pick(("constant", "constant", "reflect", "edge", "wrap"))
    pads = np.zeros((2, len(shape)), np.int64)
    for axis in range(1, len(shape)):
        if drawing.chance(0.5):
            pads[:, axis] = [int(drawing.random.integers(0, min(3, shape[axis]))) for _ in range(2)]
    number = [drawing.constant(drawing.pick((0.0, 1.5, -2.0)))] if mode == "constant" and drawing.chance(0.6) else []
    drawing.add("Pad", name, drawing.constant(pads.reshape(-1), np.int64), *number, mode=mode)


def _resize(drawing: Drawing) -> None:
    name = _some(drawing, 3, 4, 4)
    rank = len(drawing.shapes[name])
    mode = drawing.pick(("nearest", "linear", "linear", "cubic"))
    centres = drawing.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    given = {"mode": mode, "coordinate_transformation_mode": centres}
    if mode == "nearest":
        given["nearest_mode"] = drawing.pick(("floor", "round_prefer_floor", "ceil"))
    if drawing.chance(0.5):
        scales = [1.0, 1.0, *(float(drawing.pick((1, 2, 2, 3, 0.5, 1.5))) for _ in range(rank - 2))]
        made = [size * scale for size, scale in zip(drawing.shapes[name], scales, strict=True)]
        if centres == "align_corners" and any(size % 1 for size in made):
            raise ValueError("ONNX Runtime takes the last whole pixel for the corner, ONNX's own tests do not")
        drawing.add("Resize", name, "", drawing.constant(scales), **given)
    else:
        sizes = [*drawing.shapes[name][:2], *(int(drawing.pick((1, 4, 7, 10))) for _ in range(rank - 2))]
        drawing.add("Resize", name, "", "", drawing.constant(sizes, np.int64), **given)


def _blocks(drawing: Drawing) -> None:
    name = _some(drawing, 4)
    shape = drawing.shapes[name]
    if shape[1] % 4 == 0 and drawing.chance(0.6):
        drawing.add("DepthToSpace", name, blocksize=2, mode=drawing.pick(("DCR", "CRD")))
    elif shape[2] % 2 == 0 and shape[3] % 2 == 0:
        drawing.add("SpaceToDepth", name, blocksize=2)
    else:
        raise ValueError("sizes do not divide")


def _repeat(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    if drawing.chance(0.5):
        counts = [1, *(int(drawing.pick((1, 1, 2, 3))) for _ in shape[1:])]
        drawing.add("Tile", name, drawing.constant(counts, np.int64))
    else:
        sizes = [size if size > 1 or not at else int(drawing.pick((1, 4, 5))) for at, size in enumerate(shape)]
        drawing.add("Expand", name, drawing.constant(sizes, np.int64))


def _gather(drawing: Drawing) -> None:
    name = _some(drawing)
    shape = drawing.shapes[name]
    axis = _axis(drawing, len(shape))
    count = drawing.pick(((), (1,), (2,), (3,), (5,)))
    drawing.add("Gather", name, drawing.constant(drawing.random.integers(0, shape[axis], count), np.int64), axis=axis)


MOVING: tuple[Callable[[Drawing], None], ...] = (
    _transpose, _transpose, _reshape, _reshape, _squeeze, _concat, _concat, _slice, _slice, _split, _pad, _resize,
    _blocks, _repeat, _gather,
)  # fmt: skip
