"""A step of one token loads one lookup table; maps of more pixels keep their activation in the convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openrknn.compiler.api import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.write import join_models
from openrknn.container.load import load
from openrknn.container.parts import Kind
from openrknn.container.writer import encode
from openrknn.runtime.session import Session
from openrknn.voice.make.writer import GraphWriter

WIDTH, ROWS, LAYERS = 32, 16, 2


def blocks(tokens: int, activation: str = "Gelu", first: str = "") -> Any:
    """Attention over a table and a perceptron, twice."""
    random = np.random.default_rng(4)

    def some(*shape: int) -> Any:
        return np.asarray(random.normal(0, 0.3, shape), np.float32)

    graph = GraphWriter("blocks")
    value = graph.input("x", [1, tokens, WIDTH])
    for layer in range(LAYERS):
        scores = graph.op("MatMul", value, some(WIDTH, ROWS), name=f"{first}{layer}.scores")
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), some(ROWS, WIDTH))
        inner = graph.op("MatMul", graph.op("Add", value, mixed), some(WIDTH, 4 * WIDTH), name=f"{first}{layer}.up")
        value = graph.op("MatMul", graph.op(activation, inner), some(4 * WIDTH, WIDTH), name=f"{first}{layer}.down")
    graph.output("y", value, [1, tokens, WIDTH])
    return graph.model()


def tables_of(compiled: Any) -> list[str]:
    steps = compiled.variants[0].program.steps
    return [step.table for step in steps if step.table is not None]


@pytest.mark.parametrize(("tokens", "count"), [(1, 1), (3, 2)])
def test_one_token_has_one_table(tokens: int, count: int) -> None:
    model = blocks(tokens)
    compiled = compile_model(model, "rk3588", cores=1, fp16=True, check=False)
    assert len(set(tables_of(compiled))) == count
    x = np.random.default_rng(1).normal(0, 1, (1, tokens, WIDTH)).astype(np.float32)
    wanted = dict(FloatModel(model, ["y"]).run({"x": x}))["y"]
    with Session(compiled.model, "software") as session:
        found = session.run({"x": x})["y"]
    assert np.linalg.norm(found - wanted) < 10 ** (-50 / 20) * np.linalg.norm(wanted)


def test_functions_without_a_shared_table_keep_their_own() -> None:
    compiled = compile_model(blocks(1, "Tanh"), "rk3588", cores=1, fp16=True, check=False)
    assert len(set(tables_of(compiled))) == 2


def test_equal_weights_of_other_names_are_stored_once() -> None:
    models = [
        compile_model(blocks(tokens, first=first), "rk3588", cores=1, fp16=True, check=False).model
        for tokens, first in ((1, ""), (4, "other."))
    ]
    joined = load(encode(join_models(models)))
    weights = [sum(len(one.data or b"") for one in graph.tensors if one.kind is Kind.WEIGHT) for graph in joined.graphs]
    assert weights[1] < weights[0] // 10
    x = np.random.default_rng(2).normal(0, 1, (1, 4, WIDTH)).astype(np.float32)
    with Session(joined, "software") as session, Session(models[1], "software") as alone:
        session.set_shapes({"x": x.shape})
        np.testing.assert_array_equal(session.run({"x": x})["y"], alone.run({"x": x})["y"])
