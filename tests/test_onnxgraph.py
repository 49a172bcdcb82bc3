"""Ways through ONNX graphs."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import parser

from openrknn.onnxgraph import OnnxGraph, in_order, makers_of, readers_of, reads_of, values_behind

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x, bool c) => (float[4] y) {
    a = Relu (x)
    b = Add (a, a)
    y = If (c) <
        then_branch = g1 () => (float[4] t) { k = Constant <value_float = 2.0> () t = Mul (b, k) },
        else_branch = g2 () => (float[4] e) { e = Identity (x) }
    >
}"""


@pytest.fixture
def graph() -> Any:
    return parser.parse_model(TEXT).graph


def test_makers_and_readers(graph: Any) -> None:
    assert {name: node.op_type for name, node in makers_of(graph.node).items()} == {"a": "Relu", "b": "Add", "y": "If"}
    assert [node.op_type for node in readers_of(graph.node)["a"]] == ["Add"], "once, though it is read twice"


def test_graphs_inside_read_values_from_outside(graph: Any) -> None:
    assert sorted(set(reads_of(graph.node[2]))) == ["b", "c", "x"], "not what they make themselves"


def test_what_a_value_is_computed_from(graph: Any) -> None:
    assert values_behind(makers_of(graph.node), ["b"]) == {"a", "b", "x"}


def test_nodes_in_an_order_in_which_they_can_run(graph: Any) -> None:
    ordered = in_order(list(graph.node)[::-1], {"x", "c"})
    assert [node.op_type for node in ordered] == ["Relu", "Add", "If"]


def test_a_circle_comes_last(graph: Any) -> None:
    graph.node[0].input[0] = "b"
    assert [node.op_type for node in in_order(graph.node, {"x", "c"})] == ["Relu", "Add", "If"]


def test_above_and_below() -> None:
    walked = OnnxGraph(parser.parse_model(TEXT))
    assert list(walked.inputs) == ["x", "c"]
    assert walked.above(["b"]) == {0, 1}
    assert walked.below("a") == {1}
    assert walked.depends("b", "x")
