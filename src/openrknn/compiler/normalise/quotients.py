"""Quotients: int8 multiplies by a reciprocal from a table, fp16 divides and has no such table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openrknn.compiler.forms import Binary, Conv
from openrknn.compiler.identity import POINT
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op

_NO_TABLE = "the range of its lookup table is unknown without calibration data; give --calibrate"


def find_quotients(graph: Graph, *, calibrated: bool) -> None:
    """Before activations are found: what this writes are ordinary operators."""
    for op in list(graph.ops):
        if calibrated and op.type == "Div" and op.inputs[1] not in graph.constants:
            _by_product(graph, op)
        elif not calibrated and op.type == "Mul" and len(op.inputs) == 2:
            _by_quotient(graph, op)
        elif not calibrated and op.type == "Abs":
            _larger(graph, op)
        elif not calibrated and op.type == "Softsign":
            _softsign(graph, op)
        elif not calibrated and op.type in {"Log", "Reciprocal", "Pow", "Cos"}:
            op.attributes["reason"] = _NO_TABLE
    graph.prune()


def _by_product(graph: Graph, op: Op) -> None:
    """a / b is a * (1 / b)."""
    inverse = graph.add_value(f"{op.output}_inverse", graph.shape(op.inputs[1]))
    graph.derived[inverse] = (op.inputs[1], lambda values: 1 / np.where(values == 0, 1e-3, values))
    replace_op(
        graph, op,
        Op("Reciprocal", inverse, [op.inputs[1]], [inverse], {}, (op.name,)),
        Op("Mul", op.name, [op.inputs[0], inverse], [op.output], {}, (op.name,)),
    )  # fmt: skip


def _by_quotient(graph: Graph, op: Op) -> None:
    """a * (1 / b) is a / b, if a has the shape of the result."""
    for name, other in (op.inputs, op.inputs[::-1]):
        maker = graph.producers().get(name)
        if maker is not None and maker.type == "Reciprocal" and graph.shape(other) == graph.shape(op.output):
            op.type, op.inputs, op.fused = "Div", [other, maker.inputs[0]], (*op.fused, op.name, maker.name)
            return


def _negated(graph: Graph, op: Op) -> tuple[str, Op]:
    name = graph.add_derived(f"{op.output}_minus", graph.shape(op.inputs[0]), op.inputs[0], lambda values: -values)
    minus = graph.add_constant(f"{op.output}_sign", np.array(-1.0))
    return name, Op("Mul", name, [op.inputs[0], minus], [name], {}, (op.name,))


def _larger(graph: Graph, op: Op) -> None:
    """|x| is the larger one of x and -x."""
    name, step = _negated(graph, op)
    replace_op(graph, op, step, Op("Max", op.name, [op.inputs[0], name], [op.output], {}, (op.name,)))


def _softsign(graph: Graph, op: Op) -> None:
    """x / (1 + |x|)."""
    shape = graph.shape(op.inputs[0])
    name, step = _negated(graph, op)
    size, whole = (graph.add_value(f"{op.output}_{part}", shape) for part in ("size", "whole"))
    one = graph.add_constant(f"{op.output}_one", np.array(1.0))
    replace_op(
        graph, op,
        step,
        Op("Max", size, [op.inputs[0], name], [size], {}, (op.name,)),
        Op("Add", whole, [size, one], [whole], {}, (op.name,)),
        Op("Div", op.name, [op.inputs[0], whole], [op.output], {}, (op.name,)),
    )  # fmt: skip


_LANE_BY_LANE = {"Activation", "Binary", "Concat", "Pool", "Repeat", "Slice"}


def fill_divisors(graph: Graph, atom: int) -> None:
    """Lanes beyond the last channel are 0 / 0 = NaN behind a quotient, and a convolution over all lanes would spread it
    (0 * NaN is NaN). Where one follows, the divisor gets ones there, from a convolution that copies it."""
    quotients = [op for op in graph.ops if isinstance(op.form, Binary) and op.form.method == "div"]
    readers = graph.readers() if quotients else {}
    for op in quotients:
        name = op.inputs[1]
        if name in graph.constants:
            if graph.constants[name].all() and _meets_all_lanes(graph, op.output, readers):  # 0 * 0 is 0
                op.inputs[1] = graph.add_constant(f"{name}_inverse", 1 / graph.constants[name].astype(np.float64))
                op.form = replace(op.get(Binary), method="mul")
            continue
        channels, rows, columns = graph.values[name].cube
        room = -(-channels // atom) * atom
        if room == channels or not _meets_all_lanes(graph, op.output, readers):
            continue
        weight, bias = np.zeros((room, channels, 1, 1)), np.ones(room)
        weight[np.arange(channels), np.arange(channels)] = 1
        bias[:channels] = 0
        filled = graph.add_derived(f"{op.output}_divisor", (1, room, rows, columns), name)
        constants = [graph.add_constant(f"{filled}_weight", weight), graph.add_constant(f"{filled}_bias", bias)]
        made = Op("Conv", filled, [name, *constants], [filled], {}, op.fused or (op.name,), POINT, "Div")
        graph.ops.insert(graph.ops.index(op), made)
        op.inputs[1] = filled


def _meets_all_lanes(graph: Graph, name: str, readers: Mapping[str, list[Op]]) -> bool:
    """Whether a convolution that is not depthwise, a product or a Softmax reads a value, or what is made of it."""
    waiting, seen = [name], {name}
    while waiting:
        for op in readers.get(waiting.pop(), ()):
            is_convolution = op.type in {"Conv", "ConvTranspose"}
            if op.type in {"Product", "Softmax"} or (is_convolution and not _is_depthwise(graph, op)):
                return True
            # Rows and columns in another shape are the same memory; other moves are the CPU's, which writes zeros.
            is_same = op.type == "Reshape" and graph.values[op.inputs[0]].cube[0] == graph.values[op.output].cube[0]
            if (op.type in _LANE_BY_LANE or is_convolution or is_same) and op.output not in seen:
                seen.add(op.output)
                waiting.append(op.output)
    return False


def _is_depthwise(graph: Graph, op: Op) -> bool:
    """One kernel for each channel: all other groups are computed with zeros in between."""
    return bool(1 < op.get(Conv).group == graph.values[op.inputs[0]].cube[0] == graph.values[op.output].cube[0])
