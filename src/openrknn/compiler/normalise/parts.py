"""Operators on a dimension that is channels of the base: parts of a projection, and 1x1 convolutions of each group."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Op
from openrknn.compiler.normalise.axes import View
from openrknn.compiler.normalise.layouts import Layouts
from openrknn.compiler.normalise.moves import windows_of

__all__ = ["place_convolution", "place_slice", "place_split"]


def _along(layouts: Layouts, name: str, axis: int) -> tuple[View, int] | None:
    """The view, and the factor that is both a dimension of the value and the channels of the base."""
    graph = layouts.graph
    view = layouts.view(name)
    base, shape = graph.shape(view.base), graph.shape(name)
    cut = view.joined().base_dimensions(base)
    again = cut[0].dimensions(shape) if cut is not None else None
    if again is None or len(base) not in (3, 4) or view.joined().is_plain:
        return None
    fine, groups = again
    whole = fine.base_dimensions(base)
    if whole is None or len(groups[axis]) != 1 or whole[1][1] != groups[axis]:
        return None
    return fine, groups[axis][0]


def _part(layouts: Layouts, op: Op, output: str, axis: int, start: int, stop: int) -> bool:
    graph = layouts.graph
    found = _along(layouts, op.inputs[0], axis)
    if found is None:
        return False
    view, factor = found
    base = list(graph.shape(view.base))
    base[1] = stop - start
    sizes = (*view.sizes[:factor], stop - start, *view.sizes[factor + 1 :])
    part = View("", sizes, view.order)
    single = Op(op.type, f"{op.name}:{output}", [], [output], {}, op.fused or (op.name,))
    made = layouts.base_of(single, part, base)
    bounds = [
        graph.add_constant(f"{output}_{name}", np.array([value], np.int64))
        for name, value in (("start", start), ("stop", stop), ("axis", 1))
    ]
    layouts.emit(Op("Slice", single.name, [view.base, *bounds], [made], {}, single.fused))
    layouts.result(single, part, made)
    return True


def place_slice(layouts: Layouts, op: Op) -> bool:
    """One dimension of a Slice, without steps."""
    windows = windows_of(layouts.graph, op)
    shape = layouts.graph.shape(op.inputs[0])
    if windows is None:
        return False
    cut = [at for at, (window, size) in enumerate(zip(windows, shape, strict=True)) if window != (0, size, 1)]
    if len(cut) != 1 or windows[cut[0]][2] != 1 or windows[cut[0]][1] - windows[cut[0]][0] < 2:
        return False
    return _part(layouts, op, op.output, cut[0], *windows[cut[0]][:2])


def place_split(layouts: Layouts, op: Op) -> bool:
    """All parts of a Split."""
    graph = layouts.graph
    axis = int(op.attributes.get("axis", 0)) % len(graph.shape(op.inputs[0]))
    if _along(layouts, op.inputs[0], axis) is None or any(graph.shape(name)[axis] < 2 for name in op.outputs):
        return False
    start = 0
    for name in op.outputs:
        stop = start + graph.shape(name)[axis]
        _part(layouts, op, name, axis, start, stop)
        start = stop
    return True


def place_convolution(layouts: Layouts, op: Op) -> bool:
    """A 1x1 convolution over the inner part of the base's channels: the same for each group, so a grouped one.

    Detectors sum up their boxes' distances so: [1, 64, P] -> [1, 4, 16, P] -> [1, 16, 4, P], then 16 channels to one.
    """
    graph = layouts.graph
    weight = graph.constants.get(op.inputs[1])
    view = layouts.view(op.inputs[0]).joined()
    base, shape = graph.shape(view.base), graph.shape(op.inputs[0])
    plain = all(int(value) == 1 for value in (*(op.attributes.get("strides") or ()), op.attributes.get("group", 1)))
    if weight is None or view.is_plain or not plain or any(op.attributes.get("pads") or ()):
        return False
    if op.inputs[1] in graph.stored:
        return False
    cut = view.base_dimensions(base)
    again = cut[0].dimensions(shape) if cut is not None else None
    if again is None or weight.size != weight.shape[0] * weight.shape[1] or len(base) not in (3, 4) or base[0] != 1:
        return False
    fine, inner = again[0], again[1][1]
    whole = fine.base_dimensions(base)
    if whole is None or len(inner) != 1 or len(whole[1][1]) < 2 or whole[1][1][-1:] != inner:
        return False
    groups, outputs = base[1] // shape[1], weight.shape[0]
    sizes = (*fine.sizes[: inner[0]], outputs, *fine.sizes[inner[0] + 1 :])
    result = View("", sizes, fine.order).without_ones()
    made = layouts.base_of(op, result, (1, groups * outputs, *base[2:]))
    ones = (1,) * (len(base) - 2)
    tiled = np.tile(weight.reshape(outputs, shape[1], *ones), (groups, 1, *ones))
    inputs = [view.base, graph.add_constant(f"{made}_weight", tiled)]
    if len(op.inputs) > 2 and op.inputs[2]:
        inputs.append(graph.add_constant(f"{made}_bias", np.tile(graph.constants[op.inputs[2]], groups)))
    attributes = {"kernel_shape": list(ones), "group": groups}
    layouts.emit(Op("Conv", op.name, inputs, [made], attributes, op.fused))
    layouts.result(op, result, made)
    return True
