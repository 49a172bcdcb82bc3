"""Softmax over channels, and products of two activations, in the layouts that the NPU has for them.

    Softmax   base [1, groups * size, H, W]: over the `size` channels of each group
    Product   left  [1, heads * depth, 1, M] (heads in channels) or [1, depth, heads, M] (heads in rows)
              right [1, heads * depth, 1, N] or [1, depth, heads, N]; turned: [1, heads * N, 1, depth]
              made  [1, heads * N, 1, M] or [1, N, heads, M]

So attention needs no transposition: queries are pixels, keys become kernels, scores come out with the keys as channels,
which is what Softmax wants, and their product with the values (turned while they become kernels) has channels again.
"""

from __future__ import annotations

from math import prod

import numpy as np

from openrknn.compiler.identity import POINT
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.axes import View
from openrknn.compiler.normalise.common import constant, replace_op, sole_reader
from openrknn.compiler.normalise.layouts import Layouts, derived_from
from openrknn.compiler.normalise.parts import place_convolution, place_slice, place_split

__all__ = ["normalise_softmax", "place_attention"]

_DEPTH = 16
"""Channels of a head are padded to whole groups: two atoms of fp16, one of int8."""
_LARGEST_DEPTH = 3072
_MOVES = {"Reshape", "Transpose"}


def place_attention(graph: Graph, *, on_npu: bool = True) -> None:
    """Move operators to the layouts of the NPU, and find Softmax and MatMul that it can do there, if it can."""
    computing = {"Softmax": _softmax, "MatMul": _matmul} if on_npu else {}
    Layouts(graph, {**computing, "Conv": place_convolution, "Slice": place_slice, "Split": place_split}).run()


# -- softmax -----------------------------------------------------------------------------------------------------


def _softmax(layouts: Layouts, op: Op) -> bool:
    graph = layouts.graph
    shape = graph.shape(op.inputs[0])
    axis = int(op.attributes.get("axis", -1)) % len(shape)
    if _is_last(graph, op.output) or shape[axis] < 2:
        return False
    view = layouts.view(op.inputs[0]).joined()
    base = graph.shape(view.base)
    cut = view.base_dimensions(base)
    if cut is None or len(base) not in (2, 3, 4) or base[0] != 1:
        return False
    again = cut[0].dimensions(shape)
    if again is None:
        return False
    fine, wanted = again[0], again[1][axis]
    whole = fine.base_dimensions(base)
    if whole is None or not wanted or whole[1][1][-len(wanted) :] != wanted:
        return False
    size = shape[axis]
    groups = base[1] // size
    if groups > 1 and size % _DEPTH:
        return False
    made = layouts.base_of(op, view, base)
    layouts.emit(Op("Softmax", op.name, [view.base], [made], {"groups": groups}, op.fused))
    layouts.result(op, view, made)
    return True


def _is_last(graph: Graph, name: str) -> bool:
    """Whether nothing but moves reads a value on the way to the outputs: there the CPU's exact softmax is kept."""
    readers = [op for op in graph.ops if name in op.inputs]
    return all(op.type in _MOVES and _is_last(graph, op.output) for op in readers)


# -- products ----------------------------------------------------------------------------------------------------


def _matmul(layouts: Layouts, op: Op) -> bool:
    graph = layouts.graph
    if len(graph.activations(op)) != 2:
        return False
    left, right = op.inputs
    first, second = graph.shape(left), graph.shape(right)
    if len(first) < 3 or len(first) != len(second) or first[:-2] != second[:-2]:
        return False
    heads, rows, depth, columns = int(np.prod(first[:-2])), first[-2], first[-1], second[-1]
    if _is_last(graph, op.output) and all(layouts.view(name).base in graph.inputs for name in op.inputs):
        return False  # the CPU would have to arrange everything
    if depth > _LARGEST_DEPTH or columns > _LARGEST_DEPTH or min(rows, depth, columns) < 2:
        return False
    end, gain = _gain(graph, op)
    to_softmax = _feeds_softmax(graph, end.output)
    b, b_form, turned = _placed(layouts, right, (heads, depth, columns), is_right=True)
    a, a_form, _ = _placed(layouts, left, (heads, rows, depth), any_depth=turned)
    padded = -(-columns // _DEPTH) * _DEPTH
    out_form = "rows" if to_softmax and heads > 1 else "channels"
    if out_form == "channels" and heads == 1:
        padded = columns
    if out_form == "rows":
        base = (1, columns, heads, rows)
        view = View("", (columns, heads, rows), (1, 2, 0))
    else:
        base = (1, heads * columns, 1, rows)
        view = View("", (heads, columns, rows), (0, 2, 1))
    view = view.without_ones()
    made = layouts.base_of(end, view, base)
    target = made
    if out_form == "channels" and padded != columns:
        target = graph.add_value(f"{end.output}_padded", (1, heads * padded, 1, rows))
        graph.derived[target] = graph.derived[made]
    attributes = {
        "heads": heads, "depth": depth, "kernels": columns, "rows": rows, "left": a_form, "right": b_form,
        "turned": turned, "out": out_form, "gain": gain,
    }  # fmt: skip
    layouts.emit(Op("Product", op.name, [a, b], [target], attributes, (*op.fused, *end.fused, end.name)))
    if target != made:
        picks = np.concatenate([np.arange(columns) + head * padded for head in range(heads)])
        layouts.emit(_pick(graph, target, made, picks))
    layouts.result(end, view, made)
    if end is not op:
        layouts.skip(end)
    return True


def _gain(graph: Graph, op: Op) -> tuple[Op, float]:
    """A scale of all numbers behind the product, in the same task."""
    reader = sole_reader(graph, op.output)
    if reader is None or reader.type not in {"Mul", "Div"} or len(reader.inputs) != 2:
        return op, 1.0
    number = constant(graph, reader, 1)
    if number is None and reader.type == "Mul":
        number = constant(graph, reader, 0)
    if number is None or number.size != 1 or graph.shape(reader.output) != graph.shape(op.output):
        return op, 1.0
    value = float(number.reshape(-1)[0])
    return (reader, value) if reader.type == "Mul" else (reader, 1 / value)


def _feeds_softmax(graph: Graph, name: str) -> bool:
    """Whether a Softmax reads it, perhaps after something that works element by element."""
    seen, waiting = {name}, [name]
    while waiting:
        value = waiting.pop()
        for op in (entry for entry in graph.ops if value in entry.inputs):
            if op.type == "Softmax":
                return True
            if op.type in {"Add", "Sub", "Mul", "Div", *_MOVES} and op.output not in seen:
                seen.add(op.output)
                waiting.append(op.output)
    return False


def _placed(
    layouts: Layouts, name: str, sizes: tuple[int, int, int], *, is_right: bool = False, any_depth: bool = False
) -> tuple[str, str, bool]:
    """(value in a layout of the NPU, where its heads are, whether it is turned).

    Heads in rows are whole maps, whose channels cannot be filled up; `any_depth` says that they need not be.
    """
    heads = sizes[0]
    view = layouts.view(name)
    # The value is [heads, ...]; channels are the last dimension of the left operand and the middle one of the right.
    inner, outer = (1, 2) if is_right else (2, 1)
    ways = [((0, inner, outer), "channels", False)]
    if any_depth or sizes[inner] % _DEPTH == 0:
        ways.insert(0 if heads == 1 else 1, ((inner, 0, outer), "rows", False))
    if is_right:
        ways.append(((0, outer, inner), "channels", True))
    for order, form, turned in ways:
        moved = view.transposed(sizes, order)
        if moved is None or not moved.joined().is_plain:
            continue
        if form == "rows":
            return layouts.arranged(moved, (1, sizes[inner], heads, sizes[outer]), name), form, turned
        return _padded(layouts, moved, heads, sizes[order[1]], sizes[order[2]], name), form, turned
    order = (0, inner, outer)
    moved = view.transposed(sizes, order)
    if moved is None:
        moved = View.of(layouts.fetch(name), layouts.graph.shape(name)).transposed(sizes, order)
    assert moved is not None
    return _padded(layouts, moved, heads, sizes[inner], sizes[outer], name), "channels", False


def _padded(layouts: Layouts, view: View, heads: int, depth: int, pixels: int, name: str) -> str:
    """[1, heads * depth, 1, pixels], each head filled up with zeros to whole groups of channels."""
    graph = layouts.graph
    plain = layouts.arranged(view, (1, heads * depth, 1, pixels), name)
    room = -(-depth // _DEPTH) * _DEPTH
    if room == depth:
        return plain
    picks = np.concatenate(
        [np.r_[np.arange(depth) + head * depth, np.full(room - depth, -1)] for head in range(heads)]
    )
    made = graph.add_value(f"{name}_padded", (1, heads * room, 1, pixels))
    graph.derived[made] = derived_from(graph, plain, lambda x: x)
    layouts.emit(_pick(graph, plain, made, picks))
    return made


def _pick(graph: Graph, source: str, target: str, picks: Array) -> Op:
    """Channel picks[o] of the source, or zero where it is -1."""
    weight = np.zeros((len(picks), graph.shape(source)[1], 1, 1))
    there = np.flatnonzero(picks >= 0)
    weight[there, picks[there]] = 1
    attributes = {**POINT, "from": "Pick"}
    bias = graph.add_constant(f"{target}_zero", np.zeros(len(picks)))
    return Op("Conv", target, [source, graph.add_constant(f"{target}_picks", weight), bias], [target], attributes)


_PLANES = 4


def normalise_softmax(graph: Graph) -> None:
    """Axes other than the last become the third of four: where there are not four dimensions, the vendor's runtime
    1.5.2 flattens what is behind the axis, as ONNX did before opset 13."""
    for op in list(graph.ops):
        if op.type != "Softmax" or "groups" in op.attributes:  # the NPU has them over channels
            continue
        shape = graph.shape(op.inputs[0])
        axis = range(len(shape))[int(op.attributes.get("axis", -1))]
        if axis != len(shape) - 1 and len(shape) != _PLANES:
            _reshaped(graph, op, (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])))


def _reshaped(graph: Graph, op: Op, shape: tuple[int, ...]) -> None:
    before = graph.add_value(f"{op.inputs[0]}_rows", shape)
    after = graph.add_value(f"{op.output}_rows", shape)
    graph.derived[before] = (op.inputs[0], lambda values: values)
    graph.derived[after] = (op.output, lambda values: values)
    replace_op(
        graph, op,
        Op("Reshape", f"{op.name}_rows", [op.inputs[0]], [before], {}, op.fused),
        Op("Softmax", op.name, [before], [after], {**op.attributes, "axis": 2}, op.fused),
        Op("Reshape", f"{op.name}_shape", [after], [op.output], {}, op.fused),
    )  # fmt: skip
