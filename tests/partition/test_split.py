"""Groups of nodes: complete, in an order that can run, and none waits for one that waits for it."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from openrknn.partition.extract import borders
from openrknn.partition.split import Fitness, Splitter
from openrknn.partition.view import View, view_of
from tests.partition.models import model_of

FITNESS = [Fitness.NPU, Fitness.BETWEEN, Fitness.CPU]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[View, list[Fitness]]:
    """Nodes that read one or two values before them."""
    count = draw(st.integers(1, 25))
    names, nodes = ["x"], []
    for number in range(count):
        read = [names[draw(st.integers(0, len(names) - 1))] for _ in range(draw(st.integers(1, 2)))]
        nodes.append(helper.make_node("Add" if len(read) > 1 else "Relu", read, [f"v{number}"]))
        names.append(f"v{number}")
    outputs = {f"v{count - 1}", f"v{draw(st.integers(0, count - 1))}"}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in sorted(outputs)],
        value_info=[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names[1:]],
    )  # fmt: skip
    return view_of(helper.make_model(graph)), [draw(st.sampled_from(FITNESS)) for _ in range(count)]


@given(graphs())
def test_groups_can_run_one_after_the_other(drawn: tuple[View, list[Fitness]]) -> None:
    view, fitness = drawn
    splitter = Splitter(view)
    splitter.fitness = fitness
    groups = splitter.split()
    assert sorted(number for group in groups for number in group.nodes) == list(range(len(view.nodes)))
    made = set(view.inputs)
    for group in groups:
        reads, makes = borders(view, group.nodes)
        assert set(reads) <= made
        made |= set(makes)
        if group.is_npu:
            assert all(fitness[number] is not Fitness.CPU for number in group.nodes)
            assert any(fitness[number] is Fitness.NPU for number in group.nodes)
        else:
            assert all(fitness[number] is not Fitness.NPU for number in group.nodes)
    assert set(view.outputs) <= made


def test_two_branches_need_two_changes_only() -> None:
    """What one branch leaves to the CPU runs together with what the other leaves to it."""
    view = view_of(
        model_of(
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[1, 8] x) => (float[1, 8] y) {
                a = Relu (x) b = Det (m) c = Add (a, b) d = Relu (c)
                e = Sigmoid (x) f = Add (e, b) y = Add (d, f)
            }""",
            m=np.eye(3, dtype=np.float32),
        )
    )
    splitter = Splitter(view)
    splitter.fitness = [Fitness.CPU if node.type == "Det" else Fitness.NPU for node in view.nodes]
    assert [group.is_npu for group in splitter.split()].count(False) == 1


def test_operators_that_would_hand_on_minus_infinity_are_the_cpus() -> None:
    """An attention that looks for rows that are masked completely: only the way to the Softmax can be softened."""
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4, 8, 8] x, float[1, 1, 8, 8] bias) => (float[1, 4, 8, 8] y, float[1, 1, 8, 1] z) {
            b = Add (bias, tri)
            s = Add (x, b)
            y = Softmax <axis = -1> (s)
            z = ReduceMax <axes = [3]> (b)
        }""",
        tri=np.triu(np.full((1, 1, 8, 8), -np.inf, np.float32), 1),
    )
    view = view_of(onnx.shape_inference.infer_shapes(model))
    splitter = Splitter(view)
    groups = [(group.is_npu, [view.nodes[number].type for number in group.nodes]) for group in splitter.split()]
    assert groups == [(False, ["Add", "ReduceMax"]), (True, ["Add", "Softmax"])]
    assert "no number for its mask" in splitter.reasons[0]


def test_limits_that_no_number_reaches_are_no_masks() -> None:
    model = model_of(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) {
            a = Max (x, low)
            y = Relu (a)
        }""",
        low=np.full(1, np.finfo(np.float32).min, np.float32),
    )
    groups = Splitter(view_of(onnx.shape_inference.infer_shapes(model))).split()
    assert [group.is_npu for group in groups] == [True]
