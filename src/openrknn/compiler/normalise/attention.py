"""Softmax over channels, and products of two activations, in the layouts that the NPU has for them.

    Softmax   base [1, groups * size, H, W]: over the `size` channels of each group
    Product   left  [1, heads * depth, windows, M] (heads in channels) or [1, depth, windows * heads, M] (in rows)
              right [1, heads * depth, windows, N] or [1, depth, windows * heads, N];
              turned: [1, heads * N, windows, depth]
              made  [1, heads * N, windows, M] or [1, N, windows * heads, M]

So attention needs no transposition: queries are pixels, keys become kernels, scores come out with the keys as channels,
which is what Softmax wants, and their product with the values (turned while they become kernels) has channels again.
"""

from __future__ import annotations

from math import prod

import numpy as np

from openrknn.compiler.budget import filled
from openrknn.compiler.formats import HEAD_CHANNELS
from openrknn.compiler.forms import Product, Softmax
from openrknn.compiler.identity import POINT
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.axes import View
from openrknn.compiler.normalise.common import constant, replace_op, sole_reader
from openrknn.compiler.normalise.layouts import Layouts, derived_from
from openrknn.compiler.normalise.parts import place_concat, place_convolution, place_slice, place_split
from openrknn.compiler.operators import AFFINE

_LARGEST_DEPTH = 3072
_MOST_CHANNELS = 8192
_MOST_PADDED = 1024
"""Of all heads together: each of them is filled up by a convolution over all."""
_MOVES = {"Reshape", "Transpose"}


def place_attention(graph: Graph, *, on_npu: bool = True, softmax: bool = True) -> None:
    """Move operators to the layouts of the NPU, and find Softmax and MatMul that it can do there, if it can.

    A Softmax that it cannot do is the CPU's, in the same layout: between two products nothing is transposed then.
    """
    chosen = _softmax if softmax else _softmax_of_cpu
    computing = {"Softmax": chosen, "MatMul": _matmul, "Mul": _weighted} if on_npu else {}
    moving = {"Conv": place_convolution, "Slice": place_slice, "Split": place_split, "Concat": place_concat}
    Layouts(graph, {**computing, **moving}).run()


# -- softmax -----------------------------------------------------------------------------------------------------


def _softmax_of_cpu(layouts: Layouts, op: Op) -> bool:
    return _softmax(layouts, op, on_cpu=True)


def _softmax(layouts: Layouts, op: Op, *, on_cpu: bool = False) -> bool:
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
    if groups > 1 and size % HEAD_CHANNELS:
        return False
    if on_cpu and (groups > 1 or len(base) != _PLANES):
        return False
    made = layouts.base_of(op, view, base)
    attributes, form = ({"axis": 1}, None) if on_cpu else ({}, Softmax(groups))
    layouts.emit(Op("Softmax", op.name, [view.base], [made], attributes, op.fused, form))
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
    end, gain = _gain(graph, op)
    to_softmax = _feeds_softmax(graph, end.output)
    swapped = not to_softmax and _wants_swap(layouts, op)
    left, right = [_transposed(layouts, name) for name in op.inputs[::-1]] if swapped else op.inputs
    (left, one), (right, two) = _unscaled(layouts, left), _unscaled(layouts, right)
    gain *= one * two
    first, second = graph.shape(left), graph.shape(right)
    if len(first) < 3 or len(first) != len(second) or first[:-2] != second[:-2]:
        return False
    rows, depth, columns = first[-2], first[-1], second[-1]
    if _is_last(graph, op.output) and all(layouts.view(name).base in graph.inputs for name in op.inputs):
        return False  # the CPU would have to arrange everything
    if depth > _LARGEST_DEPTH or columns > _LARGEST_DEPTH:
        return False
    windows, heads = _windows(layouts, left, right, to_softmax)
    if min(rows, depth, columns) < 2 and not (
        _lies(layouts.view(left), (windows, heads, rows, depth))
        and _lies(layouts.view(right), (windows, heads, depth, columns), True)
        and (layouts.view(right).base not in graph.inputs or depth % HEAD_CHANNELS == columns % HEAD_CHANNELS == 0)
    ):
        return False  # one row is not worth moving or filling up the other operand
    b, b_form, turned = _placed(layouts, right, (windows, heads, depth, columns), is_right=True)
    a, a_form, _ = _placed(layouts, left, (windows, heads, rows, depth), any_depth=turned)
    padded = -(-columns // HEAD_CHANNELS) * HEAD_CHANNELS
    out_form = "rows" if to_softmax and windows * heads > 1 else "channels"
    if out_form == "channels" and heads == 1:
        padded = columns
    if out_form == "rows":
        base = (1, columns, windows * heads, rows)
        view = View("", (columns, windows, heads, rows), (1, 2, 3, 0))
    else:
        base = (1, heads * columns, windows, rows)
        view = View("", (heads, columns, windows, rows), (2, 0, 3, 1))
    view = view.without_ones()
    if swapped:
        view = view.transposed((windows, heads, rows, columns), (0, 1, 3, 2)) or view
    made = layouts.base_of(end, view, base)
    target = made
    if out_form == "channels" and padded != columns:
        target = graph.add_value(f"{end.output}_padded", (1, heads * padded, windows, rows))
        graph.derived[target] = graph.derived[made]
    form = Product(heads, windows, depth, columns, rows, a_form, b_form, turned, out_form, gain)
    layouts.emit(Op("Product", op.name, [a, b], [target], {}, (*op.fused, *end.fused, end.name), form))
    if target != made:
        picks = np.concatenate([np.arange(columns) + head * padded for head in range(heads)])
        layouts.emit(_pick(graph, target, made, picks))
    layouts.result(end, view, made)
    if end is not op:
        layouts.skip(end)
    return True


def _weighted(layouts: Layouts, op: Op) -> bool:
    """[1, H, 1, N] times one number for each head, where these lie side by side as Softmax makes them: a product."""
    graph = layouts.graph
    if len(graph.activations(op)) != 2:
        return False
    for rows, number in (op.inputs, op.inputs[::-1]):
        shape = graph.shape(rows)
        if len(shape) != 4 or shape[0] != 1 or shape[1] < 2 or shape[2] != 1 or shape[3] < 2:
            continue
        if graph.shape(number) != (*shape[:3], 1) or graph.shape(layouts.view(number).base)[:2] != (1, 1):
            continue
        return _matmul(layouts, Op("MatMul", op.name, [number, rows], op.outputs, {}, op.fused))
    return False


def _windows(layouts: Layouts, left: str, right: str, to_softmax: bool) -> tuple[int, int]:
    """(windows, heads): windows lie side by side as rows of pixels, heads in channels; all are heads if need be."""
    first, second = layouts.graph.shape(left), layouts.graph.shape(right)
    (rows, depth), columns = first[-2:], second[-1]
    one, other = layouts.view(left), layouts.view(right)
    whole = prod(first[:-2])

    def score(split: tuple[int, int]) -> tuple[bool, int]:
        lying = _lies(one, (*split, rows, depth)) + _lies(other, (*split, depth, columns), True)
        # Scores come out with heads as rows; values that are turned have only their own channels filled up.
        straight = other.transposed((*split, depth, columns), (1, 2, 0, 3))
        is_straight = straight is not None and straight.joined().is_plain
        filled_up = (depth,) if to_softmax else (columns,) if lying == 2 and not is_straight else (depth, columns)
        wide, padded = max(filled_up), any(size % HEAD_CHANNELS for size in filled_up)
        is_slim = split[1] == 1 or split[1] * wide <= (_MOST_PADDED if padded else _MOST_CHANNELS)
        return is_slim, lying

    return max(((1, whole), (prod(first[:-3]), first[-3]), (whole, 1)), key=score)


def _wants_swap(layouts: Layouts, op: Op) -> bool:
    """Whether A x B is better computed as the transposition of B' x A': more operands lie as they are needed then."""
    graph = layouts.graph
    shapes = [graph.shape(name) for name in op.inputs]
    if any(len(shape) < 3 for shape in shapes) or shapes[0][:-2] != shapes[1][:-2]:
        return False
    (rows, depth), columns = shapes[0][-2:], shapes[1][-1]
    left, right = (layouts.view(name) for name in op.inputs)
    best = []
    for lead in ((1, prod(shapes[0][:-2])), (prod(shapes[0][:-3]), shapes[0][-3])):
        other = right.transposed((*lead, depth, columns), (0, 1, 3, 2))
        one = left.transposed((*lead, rows, depth), (0, 1, 3, 2))
        if other is None or one is None:
            return False
        direct = _lies(left, (*lead, rows, depth)) + _lies(right, (*lead, depth, columns), True)
        turned = _lies(other, (*lead, columns, depth)) + _lies(one, (*lead, depth, rows), True)
        best.append((direct, turned))
    return max(turned for _, turned in best) > max(direct for direct, _ in best)


def _ways(sizes: tuple[int, int, int, int], is_right: bool, any_depth: bool) -> list[tuple[tuple[int, ...], str, bool]]:
    """Orders of (window, head, ..) in which the NPU takes an operand; where its heads are then; whether it is turned.

    The value is [windows, heads, ..]; channels are the last dimension of the left operand, the one before of the right.
    Heads in rows are whole maps, whose channels cannot be filled up; `any_depth` says that they need not be.
    """
    inner, outer = (2, 3) if is_right else (3, 2)
    ways: list[tuple[tuple[int, ...], str, bool]] = [((1, inner, 0, outer), "channels", False)]
    if any_depth or sizes[inner] % HEAD_CHANNELS == 0:
        ways.insert(0 if sizes[1] == 1 else 1, ((inner, 0, 1, outer), "rows", False))
    if is_right:
        ways.append(((1, outer, 0, inner), "channels", True))
    return ways[::-1] if sizes[inner] == 1 else ways  # a depth of 1 lies anywhere, and is best not filled up


def _lies(view: View, sizes: tuple[int, int, int, int], is_right: bool = False) -> bool:
    """Whether an operand needs no move."""
    found = (view.transposed(sizes, order) for order, _, _ in _ways(sizes, is_right, True))
    return any(moved is not None and moved.joined().is_plain for moved in found)


def _transposed(layouts: Layouts, name: str) -> str:
    """The value with its last two dimensions the other way round: a view until it is fetched."""
    graph = layouts.graph
    shape = graph.shape(name)
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    view = layouts.view(name).transposed(shape, order)
    assert view is not None  # `_wants_swap` asked
    made = graph.add_value(f"{name}_swapped", [shape[at] for at in order])
    graph.derived[made] = derived_from(graph, name, lambda x: x.transpose(order))
    layouts.views[made] = view
    return made


def _unscaled(layouts: Layouts, name: str) -> tuple[str, float]:
    """An operand without the number that all of it was multiplied by: the product can do that."""
    graph, view = layouts.graph, layouts.view(name)
    maker = layouts.maker(view.base)
    if maker is None or maker.type != "Mul" or len(graph.activations(maker)) != 1:
        return name, 1.0
    number = graph.constants[next(entry for entry in maker.inputs if entry in graph.constants)]
    source = graph.activations(maker)[0]
    if number.size != 1 or graph.shape(source) != graph.shape(view.base):
        return name, 1.0
    made = graph.add_value(f"{name}_unscaled", graph.shape(name))
    factor = float(number.reshape(-1)[0])
    graph.derived[made] = derived_from(graph, name, lambda x: x / factor)
    layouts.views[made] = View(source, view.sizes, view.order)
    return made, factor


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
            if op.type in {*AFFINE, "Concat", *_MOVES} and op.output not in seen:
                seen.add(op.output)
                waiting.append(op.output)
    return False


def _placed(
    layouts: Layouts, name: str, sizes: tuple[int, int, int, int], *, is_right: bool = False, any_depth: bool = False
) -> tuple[str, str, bool]:
    """(value in a layout of the NPU, where its heads are, whether it is turned)."""
    windows, heads = sizes[:2]
    view = layouts.view(name)
    for order, form, turned in _ways(sizes, is_right, any_depth):
        moved = view.transposed(sizes, order)
        if moved is None or not moved.joined().is_plain:
            continue
        if form == "rows":
            return layouts.arranged(moved, (1, sizes[order[0]], windows * heads, sizes[order[3]]), name), form, turned
        pixels = (windows, sizes[order[3]])
        return _padded(layouts, moved, heads, sizes[order[1]], pixels, name, is_right=is_right), form, turned
    order = (1, 2, 0, 3) if is_right else (1, 3, 0, 2)
    moved = view.transposed(sizes, order)
    if moved is None:
        moved = View.of(layouts.fetch(name), layouts.graph.shape(name)).transposed(sizes, order)
    assert moved is not None
    return _padded(layouts, moved, heads, sizes[order[1]], (windows, sizes[order[3]]), name), "channels", False


def _padded(
    layouts: Layouts, view: View, heads: int, depth: int, pixels: tuple[int, int], name: str, *, is_right: bool = False
) -> str:
    """[1, heads * depth, windows, pixels], each head filled up with zeros to whole groups of channels."""
    graph = layouts.graph
    plain = layouts.arranged(view, (1, heads * depth, *pixels), name)
    room = -(-depth // HEAD_CHANNELS) * HEAD_CHANNELS
    if room == depth:
        return plain
    whole = _unpicked(layouts, plain, heads, depth, room) if is_right else None
    if whole is not None:
        return whole
    picks = np.concatenate(
        [np.r_[np.arange(depth) + head * depth, np.full(room - depth, -1)] for head in range(heads)]
    )
    made = graph.add_value(f"{name}_padded", (1, heads * room, *pixels))
    graph.derived[made] = derived_from(graph, plain, lambda x: x)
    layouts.emit(_pick(graph, plain, made, picks))
    return made


def _unpicked(layouts: Layouts, name: str, heads: int, depth: int, room: int) -> str | None:
    """What channels were cut from that are to be filled up again: a cache whose heads are whole groups already.

    Padding between the heads is multiplied by zeros of the left operand, or becomes channels that are dropped.
    """
    graph, maker = layouts.graph, layouts.maker(name)
    if maker is None or maker.type != "Conv" or maker.origin != "Pick" or heads * depth < 2:
        return None
    source = maker.inputs[0]
    if graph.shape(source)[1] != heads * room or graph.shape(source)[2:] != graph.shape(name)[2:]:
        return None
    picks = graph.constants[maker.inputs[1]].reshape(heads * depth, heads * room)
    wanted = np.concatenate([np.arange(depth) + head * room for head in range(heads)])
    return source if np.array_equal(picks.argmax(1), wanted) and picks.sum() == heads * depth else None


def _pick(graph: Graph, source: str, target: str, picks: Array) -> Op:
    """Channel picks[o] of the source, or zero where it is -1."""
    weight = filled((len(picks), graph.shape(source)[1], 1, 1), target)
    there = np.flatnonzero(picks >= 0)
    weight[there, picks[there]] = 1
    bias = graph.add_constant(f"{target}_zero", np.zeros(len(picks)))
    kept = graph.add_constant(f"{target}_picks", weight)
    return Op("Conv", target, [source, kept, bias], [target], form=POINT, origin="Pick")


_PLANES = 4


def normalise_softmax(graph: Graph) -> None:
    """Axes other than the last become the third of four: where there are not four dimensions, the vendor's runtime
    1.5.2 flattens what is behind the axis, as ONNX did before opset 13."""
    for op in list(graph.ops):
        if op.type != "Softmax" or op.form is not None:  # the NPU has them over channels
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
