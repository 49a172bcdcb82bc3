"""Decoders with a past that grows, rewritten to caches of fixed capacity. Stands on ONNX Runtime: the old graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from openrknn.compiler.errors import OptionError, SequenceError, WrongResultError
from openrknn.compiler.sequence import CachedDecoder, cached
from openrknn.compiler.sequence.compare import compare
from openrknn.compiler.sequence.moving import trace
from openrknn.compiler.sequence.net import flat
from openrknn.compiler.sequence.rewrite import rewritten
from openrknn.compiler.sequence.roles import find_roles
from tests.decoders import FRAMES, HEADS, SIZE, TOKENS, WIDTH, Graph, grouped, merged, rotary

CAPACITY = 12


@cache
def made(style: str) -> CachedDecoder:
    made: dict[str, Callable[[], tuple[Any, Any]]] = {
        "rotary": lambda: (rotary(), rotary(first=True)),
        "merged": lambda: (merged(), merged()),
        "grouped": lambda: (grouped(), None),
    }
    step, first = made[style]()
    return cached(step, CAPACITY, first=first, frames=FRAMES)


@pytest.mark.parametrize("style", ["rotary", "merged", "grouped"])
def test_the_step_computes_what_the_exported_one_did(style: str) -> None:
    """`cached` compared logits and rows of every cache, from the first token on and near the end of the capacity."""
    assert made(style).off < 1e-6


@pytest.mark.parametrize("style", ["rotary", "merged", "grouped"])
def test_shapes_are_fixed_and_nothing_is_computed_of_lengths(style: str) -> None:
    model = made(style).step.model
    shapes = {entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in model.graph.input}
    assert all(all(shape) for shape in shapes.values())
    kinds = Counter(node.op_type for node in model.graph.node)
    assert not kinds.keys() & {"Shape", "Range", "Gather", "Where", "IsNaN", "Pad", "If", "Trilu", "ConstantOfShape"}
    assert shapes["mask"] == [1, 1, 1, CAPACITY]
    assert all(shapes[name][2] == CAPACITY for name in shapes if name.startswith("cache."))


def test_the_cache_is_read_by_products_only() -> None:
    """Scores are joined, caches are not: what reads a cache is a product, or moves its dimensions."""
    graph = made("rotary").step.model.graph
    caches = {entry.name for entry in graph.input if entry.name.startswith(("cache.", "cross."))}
    assert {node.op_type for node in graph.node if caches & set(node.input)} == {"MatMul", "Transpose"}


def test_tables_are_what_depends_on_the_token_or_on_the_position() -> None:
    tables = made("rotary").step.tables
    assert {(name, table.by, table.rows.shape) for name, table in tables.items()} == {
        ("row.token.0", "token", (TOKENS, WIDTH)),
        ("row.position.0", "position", (CAPACITY, SIZE)),
        ("row.position.1", "position", (CAPACITY, SIZE)),
    }
    assert tables["row.token.0"].rows.dtype == np.uint8  # int8 embeddings stay so
    angle = 5 * np.array([1.0, 0.1, 0.01, 0.001] * 2)
    assert np.allclose(tables["row.position.0"].row(5).reshape(-1), np.cos(angle), atol=1e-6)
    assert made("merged").step.tables["row.position.0"].shape == (1, WIDTH)


@pytest.mark.parametrize("style", ["rotary", "merged"])
def test_cross_attention_is_a_graph_of_its_own(style: str) -> None:
    cross = made(style).cross
    assert cross is not None
    assert (cross.states, cross.shape) == ("encoder_hidden_states", (1, FRAMES, WIDTH))
    assert {entry.name for entry in cross.model.graph.output} == set(made(style).step.bound)
    assert made("grouped").cross is None


def model_of(graph: Graph, outputs: list[str], **more: list[Any]) -> Any:
    inputs: dict[str, tuple[list[Any], int]] = {
        "input_ids": ([1, "n"], TensorProto.INT64),
        "past": ([1, HEADS, "p", SIZE], TensorProto.FLOAT),
    }
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, (shape, kind) in inputs.items()]
    infos += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in more.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in outputs]
    made = helper.make_graph(graph.nodes, "net", infos, ends, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def small(kind: str) -> Any:
    """One head's worth of a decoder that does something with its past that cannot be."""
    graph = Graph(4)
    row = graph.add("Gather", graph.weights(TOKENS, HEADS * SIZE), "input_ids", axis=0)
    new = graph.add("Reshape", row, graph.whole(1, HEADS, 1, SIZE))
    order = (new, "past") if kind == "before" else ("past", new)
    if kind == "none":
        grown = graph.add("Add", "past", new, out="present")
    else:
        grown = graph.add("Concat", *order, out="present", axis=2)
    if kind == "reduce":
        graph.add("ReduceSum", grown, graph.whole(2), out="logits", keepdims=1)
    elif kind == "newest":
        graph.add("Slice", grown, graph.whole(-2), graph.whole(1 << 40), graph.whole(2), out="logits")
    elif kind == "distance":
        length = graph.add("Squeeze", graph.add("Slice", graph.add("Shape", grown), graph.whole(2), graph.whole(3)))
        zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
        far = graph.add("Cast", graph.add("Range", zero, length, one), to=TensorProto.FLOAT)
        scores = graph.add("MatMul", new, graph.add("Transpose", grown, perm=[0, 1, 3, 2]))
        weights = graph.add("Softmax", graph.add("Add", scores, far), axis=-1)
        graph.add("MatMul", weights, grown, out="logits")
    else:
        graph.add("Neg", new, out="logits")
    return model_of(graph, ["logits", "present"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("none", r"no output of the model is a Concat of an input and of new rows.*'present' \(Add\)"),
        ("before", "output 'present': its new rows come before the past"),
        ("reduce", r"ReduceSum 'ReduceSum_\d+' reads the past \('present'\)"),
        ("newest", r"Slice 'Slice_\d+' takes a piece of the past"),
        ("distance", r"Add 'Add_\d+' adds 't\d+', which differs from row to row of the past"),
    ],
)
def test_what_cannot_be_rewritten_is_named(kind: str, message: str) -> None:
    with pytest.raises(SequenceError, match=message):
        cached(small(kind), 6)


def test_a_rewriting_that_computes_something_else_is_found() -> None:
    traced = trace(find_roles(flat(rotary())), CAPACITY, FRAMES)
    step = rewritten(traced)
    product = next(node for node in step.model.graph.node if node.op_type == "Softmax")
    product.op_type = "LogSoftmax"
    with pytest.raises(WrongResultError, match="of the rewritten step is off by"):
        compare(traced, step)


@pytest.mark.parametrize("capacity", [0, 1, -4, 10**6])
def test_a_capacity_that_cannot_be(capacity: int) -> None:
    with pytest.raises(OptionError, match="capacity="):
        cached(grouped(), capacity)


def test_a_first_step_without_what_is_needed() -> None:
    with pytest.raises(SequenceError, match="no output of the first step becomes 'past_key_values"):
        cached(rotary(), CAPACITY, first=grouped(), frames=FRAMES)
