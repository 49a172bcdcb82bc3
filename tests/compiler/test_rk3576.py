"""RK3576 and RV1126B: what their files and streams have of their own."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.chip.rk3576.registers import RK3576
from openrknn.chips import TaskList
from openrknn.compiler import compile_model
from openrknn.isa.words import value_of
from openrknn.runtime.session import Session
from tests.compiler.nets import Net, feeds, small_cnn

SHAPE = (1, 24, 12, 14)


def _net() -> Net:
    net = Net()
    net.add("Sigmoid", net.conv(net.conv("x", 24, 24, 3, group=24, pads=[1] * 4), 24, 40))
    return net


def test_lists_for_one_core_are_stored_for_each() -> None:
    onnx = _net().model({"x": SHAPE}, ["t3"])
    data = feeds(SHAPE, 1)
    graph = compile_model(onnx, "rk3576", calibration=data).model.graphs[0]
    count = len(graph.task_lists[TaskList(1, 0)])
    assert graph.list_starts == (0, count, 2 * count)
    assert len(graph.task_lists[TaskList(1, 1)]) == count
    assert {len(node.task_counts) for node in graph.nodes} == {3}
    starts = []
    for number in (0, 1):
        task = graph.tasks[graph.task_lists[TaskList(1, number)].start]
        words = graph.commands[task.first_command : task.first_command + task.amount]
        register = RK3576.find("CNA.CBUF_ENTRIES")
        found = (register(value_of(word)).values() for word in words if word & 0xFFFF == register.offset)
        starts.append(next(found)["start"])
    assert starts == [0, 7 * 1024]


def test_the_file_of_rv1126b_has_one_list_and_the_same_numbers() -> None:
    onnx, shape = small_cnn()
    data = feeds(shape, 1)
    results = []
    for chip in ("rk3576", "rv1126b"):
        model = compile_model(onnx, chip, calibration=data).model
        with Session(model, "software") as session:
            results.append(next(iter(session.run(data[0], outputs="raw").values())))
    np.testing.assert_array_equal(results[0], results[1])
    graph = model.graphs[0]
    assert (model.target, graph.list_starts) == ("RKNPU f3", (0,))
    assert {len(node.task_counts) for node in graph.nodes} == {5}


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
def test_operands_for_all_channels_are_tensors(chip: str) -> None:
    onnx, shape = small_cnn()
    graph = compile_model(onnx, chip, calibration=feeds(shape, 1)).model.graphs[0]
    assert any("cfgTensor" in tensor.name for tensor in graph.tensors) == (chip == "rk3576")
