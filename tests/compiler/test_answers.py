"""`verify` judges by answers where an output decides something: exact rules on small arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from openrknn.compiler.answers import Decision, decision_of
from openrknn.compiler.ir import Graph


def test_largest_along_an_axis() -> None:
    float_model = np.array([[[0.1, 0.9], [0.6, 0.4]]])
    ours = np.array([[[0.2, 0.8], [0.4, 0.6]]])
    answer = Decision(-1).compare([ours], [float_model])
    assert (answer.same, answer.of, answer.is_same) == (1, 2, False)
    assert str(answer) == "the largest the same in 1 of 2"


def test_scores_count_only_where_one_of_both_says_yes() -> None:
    float_model = np.zeros((1, 8400))
    float_model[0, :4] = 0.9
    ours = float_model.copy()
    assert Decision(None, 0.5).compare([ours], [float_model]).of == 4
    ours[0, 0], ours[0, 9] = 0.4, 0.6  # one lost, one too many
    answer = Decision(None, 0.5).compare([ours], [float_model])
    assert (answer.same, answer.of) == (3, 5)


def _source(*nodes: Any) -> Any:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4]) for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:]))


def test_what_decides_is_read_from_the_last_operators() -> None:
    graph = Graph("net", ["x"], ["y"])
    assert decision_of(_source(helper.make_node("Softmax", ["x"], ["y"], axis=1)), graph, "y") == Decision(1)
    assert decision_of(_source(helper.make_node("Relu", ["x"], ["y"])), graph, "y") is None
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Identity", ["s"], ["y"])]
    assert decision_of(_source(*nodes), graph, "y") == Decision(None, 0.5)
    graph.logits.add("y")
    assert decision_of(_source(helper.make_node("Relu", ["x"], ["y"])), graph, "y") == Decision(None, 0.0)
