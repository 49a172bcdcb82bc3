"""LSTM, GRU and RNN with states in and out. Stands on ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.session import Session
from tests.compiler.nets import Net

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def recurrent(kind: str, steps: int, hidden: int, inputs: int = 8, **how: Any) -> tuple[Any, dict[str, Any]]:
    """A model of one layer, and something to feed it with."""
    net, random = Net(), np.random.default_rng(2)
    count = 2 if how.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * hidden
    weights = [net.constant(random.normal(0, 0.3, shape))
               for shape in ((count, rows, inputs), (count, rows, hidden), (count, 2 * rows))]  # fmt: skip
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    made = ["y", *(f"y_{name}" for name in states)]
    how = {"hidden_size": hidden, "name": "layer", **how}
    net.nodes.append(helper.make_node(kind, ["x", *weights, "", *states], made, **how))
    shapes = {"x": (steps, 1, inputs), **dict.fromkeys(states, (count, 1, hidden))}
    feed = {name: random.normal(0, 1, shape).astype(np.float16).astype(np.float32) for name, shape in shapes.items()}
    return net.model(shapes, made, opset=14), feed


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_states_in_and_out(kind: str, direction: str) -> None:
    model, feed = recurrent(kind, 5, 12, direction=direction)
    wanted = dict(FloatModel(model, [entry.name for entry in model.graph.output]).run(feed))
    with Session(compile_model(model).model, "software") as session:
        found = session.run(feed, outputs="float")
    for name in found:
        assert np.abs(np.asarray(found[name]).reshape(-1) - wanted[name].reshape(-1)).max() < 0.01


def test_linear_before_reset() -> None:
    model, feed = recurrent("GRU", 4, 16, linear_before_reset=1)
    wanted = dict(FloatModel(model, ["y"]).run(feed))["y"]
    with Session(compile_model(model).model, "software") as session:
        found = np.asarray(session.run(feed, outputs="float")["y"])
    assert np.abs(found.reshape(-1) - wanted.reshape(-1)).max() < 0.01


def test_all_steps_share_their_weights() -> None:
    few, many = (len(compile_model(recurrent("GRU", steps, 128, 16)[0], check=False).data) for steps in (2, 10))
    assert many - few < 8 * 3 * 128 * 128 * 2 * 0.8  # what eight more copies of one product would take


def test_what_cannot_be_written_out_is_named() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"GRU 'layer' \(more than 512 steps"):
        compile_model(recurrent("GRU", 513, 8)[0])


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_what_reads_all_steps_is_one_product(direction: str) -> None:
    """Steps are pixels: as channels of one pixel they would make a matrix of steps x steps blocks."""
    net, hidden, steps = Net(), 16, 12
    count = 2 if direction == "bidirectional" else 1
    random = net.random
    weights = [net.constant(random.normal(0, 0.3, shape))
               for shape in ((count, 4 * hidden, 8), (count, 4 * hidden, hidden))]  # fmt: skip
    y = net.add("LSTM", "x", *weights, hidden_size=hidden, direction=direction)
    row = net.add("Transpose", y, perm=[0, 2, 1, 3])
    rows = net.add("Reshape", row, net.constant([steps, count * hidden], np.int64))
    out = net.add("Gemm", rows, net.weights(40, count * hidden), transB=1)
    model = net.model({"x": (steps, 1, 8)}, [out])
    feed = {"x": random.normal(0, 1, (steps, 1, 8)).astype(np.float32)}
    wanted = dict(FloatModel(model, [out]).run(feed))[out]
    compiled = compile_model(model)
    assert max(array.size for array in compiled.graph.constants.values()) <= 4 * hidden * hidden * count
    with Session(compiled.model, "software") as session:
        found = np.asarray(session.run(feed, outputs="float")[out])
    assert np.abs(found.reshape(-1) - wanted.reshape(-1)).max() < 0.02
