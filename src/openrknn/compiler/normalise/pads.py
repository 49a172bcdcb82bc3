"""Borders that are wider than a register counts: dilated convolutions of segmenters.

Taps that only ever see padding are dropped (a dilation as large as the map leaves the middle one); what is still wider
than 15 pixels is added before by convolutions that change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from openrknn.compiler.forms import Conv
from openrknn.compiler.identity import identity_conv
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.layouts import derived_from

_LARGEST = 15
"""Rows and columns of padding before a map: 4 bits of CNA.PAD_CON0."""


def narrow_pads(graph: Graph) -> None:
    """After convolutions have their final attributes."""
    for op in list(graph.ops):
        if op.type == "Conv" and max(op.get(Conv).pads[:2]) > _LARGEST:
            _drop_taps(graph, op)
            if max(op.get(Conv).pads[:2]) > _LARGEST:
                _pad_before(graph, op)


def _drop_taps(graph: Graph, op: Op) -> None:
    weight, conv = graph.constants[op.inputs[1]], op.get(Conv)
    if op.inputs[1] in graph.stored or conv.pad_value:
        return
    _, *size = graph.values[op.inputs[0]].cube
    _, *made = graph.values[op.output].cube
    strides, dilations, pads = conv.strides, conv.dilations, conv.pads
    kept = []
    for side in (0, 1):
        places = [tap * dilations[side] - pads[side] for tap in range(weight.shape[2 + side])]
        reach = (made[side] - 1) * strides[side]
        seen = [tap for tap, place in enumerate(places) if place < size[side] and place + reach >= 0]
        kept.append((seen[0], seen[-1]) if seen else (0, len(places) - 1))
    (top, bottom), (left, right) = kept
    if (bottom - top + 1, right - left + 1) == weight.shape[2:]:
        return
    small = np.ascontiguousarray(weight[:, :, top : bottom + 1, left : right + 1])
    op.inputs[1] = graph.add_constant(f"{op.inputs[1]}_seen", small)
    starts = (pads[0] - top * dilations[0], pads[1] - left * dilations[1])
    bottom, right = (
        (made[side] - 1) * strides[side] + (small.shape[2 + side] - 1) * dilations[side] + 1 - size[side] - starts[side]
        for side in (0, 1)
    )
    rows, columns = small.shape[2:]
    gaps = dilations[0] if rows > 1 else 1, dilations[1] if columns > 1 else 1
    op.form = replace(conv, kernel=(rows, columns), pads=(*starts, bottom, right), dilations=gaps)


def _pad_before(graph: Graph, op: Op) -> None:
    source, conv = op.inputs[0], op.get(Conv)
    pads, value = list(conv.pads), conv.pad_value
    while max(pads[:2]) > _LARGEST:
        step = [min(_LARGEST, max(0, pad - _LARGEST)) for pad in pads]
        channels, height, width = graph.values[source].cube
        shape = (1, channels, height + step[0] + step[2], width + step[1] + step[3])
        made = graph.add_value(f"{op.output}_bordered", shape)
        total = [old - new + more for old, new, more in zip(conv.pads, pads, step, strict=True)]
        graph.derived[made] = derived_from(graph, op.inputs[0], partial(_bordered, sides=total, value=value))
        border = identity_conv(graph, source, made, made, pads=step, pad_value=value, why="Pad")
        graph.ops.insert(graph.ops.index(op), border)
        source, pads = made, [pad - more for pad, more in zip(pads, step, strict=True)]
    op.inputs[0] = source
    top, left, bottom, right = pads
    op.form = replace(conv, pads=(top, left, bottom, right))


def _bordered(values: Array, sides: list[int], value: float) -> Array:
    """[1, C, H, W] or [1, C, W] with its borders."""
    edges = [(0, 0)] * (values.ndim - 2) + [(sides[0], sides[2]), (sides[1], sides[3])]
    if values.ndim == 3:
        edges = [(0, 0), (0, 0), (sides[1], sides[3])]
    return np.pad(values, edges, constant_values=value)
