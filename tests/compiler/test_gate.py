"""A bounded part of tools/compiler_graphs.py: random graphs are right, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.nets import Net
from tools.compiler_gate.judge import judge_model
from tools.compiler_gate.shrink import shrink
from tools.compiler_graphs import FORMS, graph_of, text_of

SEEDS = range(5000, 5020)
"""tools/compiler_graphs.py tries as many as it is given; those that found something are in test_gate_found.py."""


@pytest.mark.parametrize("form", FORMS)
def test_random_graphs(form: str) -> None:
    bad = {}
    counted = 0
    for seed in SEEDS:
        model = graph_of(seed)
        if model is not None:
            counted += 1
            found = judge_model(model, form, "rk3588", seed)
            if found.kind in {"wrong", "traceback"}:
                bad[seed] = f"{found}\n{text_of(model)}"
    assert not bad
    assert counted > len(SEEDS) // 2


def test_a_seed_is_a_graph() -> None:
    first, again = graph_of(5001), graph_of(5001)
    assert first.SerializeToString() == again.SerializeToString()


def test_what_fails_gets_smaller() -> None:
    net = Net()
    a = net.add("Relu", net.conv("x", 4, 8))
    b = net.add("Tanh", net.add("Sigmoid", net.add("MaxPool", a, kernel_shape=[2, 2])))
    model = net.model({"x": (1, 4, 8, 8)}, [net.add("Neg", b)])
    small = shrink(model, lambda tried: any(node.op_type == "Sigmoid" for node in tried.graph.node))
    assert [node.op_type for node in small.graph.node] == ["Sigmoid"]


@pytest.mark.parametrize("form", FORMS)
def test_a_convolution_that_sees_nothing_but_padding(form: str) -> None:
    """One column of zeros to the left, and a stride beyond the only column: a division by zero once."""
    net = Net()
    given = {"kernel_shape": [3, 1], "pads": [2, 1, 0, 0], "strides": [3, 2]}
    made = net.add("Conv", "x", net.weights(8, 5, 3, 1), net.constant(np.arange(8.0)), **given)
    model = net.model({"x": (1, 5, 1, 1)}, [made])
    found = judge_model(model, form, "rk3588")
    assert found.kind == "refused"
    assert "never sees its input of 1 x 1 pixels" in found.text
