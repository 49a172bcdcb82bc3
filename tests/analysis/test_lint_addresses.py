"""Concat and Split that are done by addresses: who has written a tensor is decided by places, not by names.

Our compiler keeps no operator for them, so their results have none that makes them. Lint called them never written:
16 errors in yolox_nano, 21 in a YOLOv8, 6 in a quantised ResNet-18.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import openrknn
from openrknn.analysis.lint import Severity, lint_commands
from openrknn.container.model import Model
from openrknn.container.parts import Graph, RelocationGroup
from openrknn.isa.words import offset_of

_DESTINATION = 0x4020


def network() -> bytes:
    """A block of YOLO: a convolution, Split, a convolution of one half, Concat, a convolution. 13 x 13 pixels."""
    random = np.random.default_rng(0)

    def convolution(name: str, source: str, shape: tuple[int, ...]) -> onnx.NodeProto:
        weights.append(numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), f"{name}_w"))
        return helper.make_node("Conv", [source, f"{name}_w"], [name], kernel_shape=shape[2:], pads=[shape[2] // 2] * 4)

    weights = [numpy_helper.from_array(np.array([16, 16], np.int64), "halves")]
    nodes = [
        convolution("first", "x", (32, 16, 1, 1)),
        helper.make_node("Split", ["first", "halves"], ["left", "right"], axis=1),
        convolution("inner", "right", (16, 16, 3, 3)),
        helper.make_node("Concat", ["left", "right", "inner"], ["joined"], axis=1),
        convolution("y", "joined", (16, 48, 1, 1)),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 13, 13]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "block", ends[:1], ends[1:], weights)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def errors(model: Model) -> list[str]:
    return [finding.code for finding in lint_commands(model) if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("target", ["rk3588", "rk3566"])
def test_parts_by_address_are_written_and_a_lost_one_is_found(target: str) -> None:
    model = openrknn.compile(network(), target=target)
    assert errors(model) == []
    graph = model.graphs[0]
    joined = graph.tensor_named("joined")
    assert joined is not None
    groups = tuple(
        replace(group, entries=_elsewhere(graph, group, joined.size_bytes)) if group.tensor == joined.name else group
        for group in graph.relocations
    )
    assert "never-written" in errors(replace(model, graphs=(replace(graph, relocations=groups),)))


def _elsewhere(graph: Graph, group: RelocationGroup, offset: int) -> memoryview:
    """The addresses of a tensor, with everything that is written to it moved behind it."""
    return memoryview(
        b"".join(
            struct.pack(
                "<iI",
                offset if offset_of(graph.commands[entry.command]) == _DESTINATION else entry.addend,
                entry.command,
            )
            for entry in group
        )
    )
