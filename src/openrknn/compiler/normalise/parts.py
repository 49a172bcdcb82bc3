"""Operators on a dimension that is channels of the base: parts of a projection, and 1x1 convolutions of each group."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from openrknn.compiler.forms import Concat, Slice
from openrknn.compiler.identity import identity_conv, selection_conv
from openrknn.compiler.ir import Op
from openrknn.compiler.normalise.axes import View
from openrknn.compiler.normalise.layouts import Layouts
from openrknn.compiler.normalise.moves import windows_of

_ATOM = 16
"""Channels that lie together in both formats."""


class _Structure(NamedTuple):
    """A view whose factors end where the value's dimensions and the base's channels do."""

    view: View
    dimensions: list[list[int]]
    """Factors of each dimension of the value."""
    channels: list[int]
    pixels: list[int]
    """Factors of the base's channels and of its pixels."""


def _structure(layouts: Layouts, name: str) -> _Structure | None:
    graph = layouts.graph
    view = layouts.view(name).joined()
    base = graph.shape(view.base)
    if len(base) not in (2, 3, 4) or base[0] != 1:
        return None
    cube = (base[1], prod(base[2:]))
    cut = view.base_dimensions(cube)
    again = cut[0].dimensions(graph.shape(name)) if cut is not None else None
    whole = again[0].base_dimensions(cube) if again is not None else None
    if again is None or whole is None:
        return None
    return _Structure(again[0], again[1], whole[1][0], whole[1][1])


def _part(layouts: Layouts, op: Op, output: str, axis: int, start: int, stop: int) -> bool:
    """One dimension from `start` to `stop`: channels of the base, a run of its pixels, or columns."""
    graph = layouts.graph
    found = _structure(layouts, op.inputs[0])
    if found is None or len(found.dimensions[axis]) != 1:
        return False
    view, factor = found.view, found.dimensions[axis][0]
    base, sizes = graph.shape(view.base), view.sizes
    among = found.channels if factor in found.channels else found.pixels
    at = among.index(factor)
    outer, inner = (prod(sizes[entry] for entry in part) for part in (among[:at], among[at + 1 :]))
    part = View("", (*sizes[:factor], stop - start, *sizes[factor + 1 :]), view.order).without_ones()
    single = Op(op.type, f"{op.name}:{output}", [], [output], {}, op.fused or (op.name,))
    if among is found.channels:
        picks = np.arange(base[1]).reshape(outer, sizes[factor], inner)[:, start:stop].reshape(-1)
        made = layouts.base_of(single, part, (1, len(picks), *base[2:]))
        if outer == 1 and picks[0] % _ATOM == 0:
            layouts.emit(Op("Slice", single.name, [view.base], [made], {}, single.fused, Slice(int(picks[0]))))
        else:
            layouts.emit(selection_conv(graph, view.base, made, single.name, picks, "Pick"))
    elif outer == 1:
        is_rows = len(base) == 4 and inner == base[3]
        shape = (1, base[1], stop - start, inner) if is_rows else (1, base[1], 1, (stop - start) * inner)
        made = layouts.base_of(single, part, shape)
        form = Slice(start * inner, along_pixels=True)
        layouts.emit(Op("Slice", single.name, [view.base], [made], {}, single.fused, form))
    else:
        rows = layouts.arranged(View.of(view.base, base), (1, base[1], outer, sizes[factor] * inner), op.inputs[0])
        made = layouts.base_of(single, part, (1, base[1], outer, (stop - start) * inner))
        pads = (0, -start * inner, 0, 0)
        layouts.emit(identity_conv(graph, rows, made, single.name, pads=pads, why="Slice"))
    layouts.result(single, part, made)
    return True


def _is_settled(layouts: Layouts, name: str) -> bool:
    """Whether the value is its own base."""
    view = layouts.view(name).joined()
    return view.is_plain and layouts.graph.shape(view.base) == layouts.graph.shape(name)


def place_slice(layouts: Layouts, op: Op) -> bool:
    """One dimension of a Slice, without steps."""
    windows = windows_of(layouts.graph, op)
    shape = layouts.graph.shape(op.inputs[0])
    if windows is None or op.inputs[0] in layouts.graph.constants:
        return False
    cut = [at for at, (window, size) in enumerate(zip(windows, shape, strict=True)) if window != (0, size, 1)]
    if len(cut) != 1 or windows[cut[0]][2] != 1 or windows[cut[0]][1] <= windows[cut[0]][0]:
        return False
    if _is_settled(layouts, op.inputs[0]) and (cut[0] != 2 or op.inputs[0] in layouts.graph.inputs or len(shape) > 4):
        return False
    return _part(layouts, op, op.output, cut[0], *windows[cut[0]][:2])


def place_split(layouts: Layouts, op: Op) -> bool:
    """All parts of a Split."""
    graph = layouts.graph
    axis = int(op.attributes.get("axis", 0)) % len(graph.shape(op.inputs[0]))
    found = _structure(layouts, op.inputs[0])
    if found is None or len(found.dimensions[axis]) != 1 or (_is_settled(layouts, op.inputs[0]) and axis == 1):
        return False
    start = 0
    for name in op.outputs:
        stop = start + graph.shape(name)[axis]
        _part(layouts, op, name, axis, start, stop)
        start = stop
    return True


# -- concatenations ------------------------------------------------------------------------------------------------


def place_concat(layouts: Layouts, op: Op) -> bool:
    """Parts that are runs of the base's pixels or channels lie one after the other: no transposition is needed."""
    graph = layouts.graph
    shape = graph.shape(op.output)
    axis = int(op.attributes.get("axis", 1)) % len(shape)
    names = graph.activations(op)
    is_natural = len(shape) <= 4 and shape[0] == 1 and axis == 1
    if is_natural and all(name in graph.constants or _is_settled(layouts, name) for name in op.inputs):
        return False
    order = next((found for name in names if (found := _order(layouts, name, axis)) is not None), None)
    if order is None:
        return False
    channels, pixels = order
    along_pixels = axis in pixels
    perm = [*channels, *pixels]
    if along_pixels and pixels[0] != axis:
        perm = [*channels, axis, *(entry for entry in pixels if entry != axis)]
    elif not along_pixels and channels[0] != axis:
        return False
    rest = [at for at in range(len(shape)) if at not in perm]
    parts, starts, at = [], [], 0
    for name in op.inputs:
        size = graph.shape(name)
        cube = (1, prod(size[entry] for entry in channels), 1, prod(size[entry] for entry in pixels))
        array = graph.constants.get(name)
        if array is not None:
            parts.append(graph.add_constant(f"{name}_part", array.transpose([*rest, *perm]).reshape(cube)))
        else:
            moved = layouts.view(name).transposed(size, [*rest, *perm])
            if moved is None:
                moved = View.of(layouts.fetch(name), size).transposed(size, [*rest, *perm])
            assert moved is not None
            parts.append(layouts.arranged(moved, cube, name))
        starts.append(at)
        at += cube[3] if along_pixels else cube[1]
    sizes = [shape[entry] for entry in perm]
    view = View("", tuple(sizes), tuple(int(entry) for entry in np.argsort(perm))).without_ones()
    cube = (1, prod(shape[entry] for entry in channels), 1, prod(shape[entry] for entry in pixels))
    made = layouts.base_of(op, view, cube)
    attributes, form = ({}, Concat(tuple(starts), along_pixels=True)) if along_pixels else ({"axis": 1}, None)
    layouts.emit(Op("Concat", op.name, parts, [made], attributes, op.fused or (op.name,), form))
    layouts.result(op, view, made)
    return True


def _order(layouts: Layouts, name: str, axis: int) -> tuple[list[int], list[int]] | None:
    """Dimensions of a value in the order of its base: those that are channels, and those that are pixels."""
    found = _structure(layouts, name)
    if found is None:
        return None
    where = {factor: at for at, group in enumerate(found.dimensions) for factor in group}
    order: list[int] = []
    for group in (found.channels, found.pixels):
        dimensions = [where[factor] for factor in group]
        kept = list(dict.fromkeys(dimensions))
        runs = [factor for at in kept for factor in found.dimensions[at]]
        if runs != group:  # a dimension that lies in several places
            return None
        order += kept
    split = len(dict.fromkeys(where[factor] for factor in found.channels))
    channels, pixels = order[:split], order[split:]
    if axis not in order:  # of size 1: anywhere
        pixels = [axis, *pixels]
    return (channels, pixels) if channels else None


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
