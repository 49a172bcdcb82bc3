"""The models that Mesa gets on a virtual board are TFLite files: our own reader finds in them what was asked for."""

from __future__ import annotations

from openrknn.compiler.importer.formats.tflite.schema import parse
from tests.board.teflon_cases import Conv, Model, models

ENOUGH = 200


def test_there_are_enough_of_them() -> None:
    names = [model.name for model in models()]
    assert len(set(names)) == len(names)
    assert len(names) > ENOUGH


def test_a_model() -> None:
    layers = [Conv(0, 3, 2), Conv(24, 3, is_same=False), Conv(24, 3, is_same=False)]
    model = Model("model", 9, 12, 16, layers, adds=True, zero_points=(1, 2, 3))
    (graph,) = parse(model.to_bytes(), "model").subgraphs
    assert [operator.kind for operator in graph.operators] == ["DEPTHWISE_CONV_2D", "CONV_2D", "CONV_2D", "ADD"]
    shapes = [tuple(graph.tensors[index].shape) for index in (*graph.inputs, *graph.outputs)]
    assert shapes == [model.input().shape, (1, 3, 4, 24)]
    assert [int(graph.tensors[graph.operators[1].inputs[number]].zero[0]) for number in range(3)] == [3, 2, 0]
    first, second = graph.operators[1], graph.operators[2]
    assert graph.operators[3].inputs == [second.outputs[0], first.outputs[0]]
