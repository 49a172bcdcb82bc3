"""Small decoders with random weights, as exporters write them: a past that grows, shapes that are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE, WIDTH, TOKENS, FRAMES = 2, 8, 16, 24, 10
"""Of all of them."""
LAYERS = 1


class Graph:
    """Grows node by node."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), f"k{len(self.constants)}"))
        return str(self.constants[-1].name)

    def whole(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.normal(0, shape[0] ** -0.5, shape))

    def add(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        self._count += 1
        name = out or f"t{self._count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{self._count}", **attributes))
        return name

    def linear(self, source: str, wide: int, out: int) -> str:
        return self.add("Add", self.add("MatMul", source, self.weights(wide, out)),
                        self.constant(self.random.normal(0, 0.1, out)))  # fmt: skip

    def norm(self, source: str) -> str:
        scale = self.constant(1 + self.random.normal(0, 0.1, WIDTH))
        return self.add("LayerNormalization", source, scale, self.constant(np.zeros(WIDTH)), axis=-1)

    def heads(self, source: str, count: int = HEADS) -> str:
        """[1, n, heads * size] to [1, heads, n, size], with the length read from the shape."""
        length = self.add("Gather", self.add("Shape", source), self.whole(1), axis=0)
        shape = self.add("Concat", self.whole(1), length, self.whole(count, SIZE), axis=0)
        return self.add("Transpose", self.add("Reshape", source, shape), perm=[0, 2, 1, 3])

    def joined(self, source: str) -> str:
        """And back."""
        return self.add("Reshape", self.add("Transpose", source, perm=[0, 2, 1, 3]), self.whole(1, -1, HEADS * SIZE))


def _info(name: str, shape: list[Any], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(graph: Graph, inputs: list[Any], outputs: list[str]) -> Any:
    ends = [_info(name, [None] * (3 if name == "logits" else 4)) for name in outputs]
    made = helper.make_graph(graph.nodes, "decoder", inputs, ends, graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _past(layer: int, what: str, length: str) -> Any:
    return _info(f"past_key_values.{layer}.{what}", ["batch", HEADS, length, SIZE])


def rotary(*, first: bool = False) -> Any:
    """In Moonshine's way: int8 embeddings, rotary positions from Shape, padded heads, guards against NaN.

    Both models have the same weights; the first one has no past and computes keys and values of cross attention.
    """
    graph = Graph(1)
    rows = graph.constant(graph.random.integers(0, 255, (TOKENS, WIDTH)), np.uint8)
    x = graph.add("DequantizeLinear", graph.add("Gather", rows, "input_ids", axis=0), graph.constant(0.01),
                  graph.constant(128, np.uint8))  # fmt: skip
    past = graph.whole(0) if first else graph.add(
        "Gather", graph.add("Shape", "past_key_values.0.decoder.key"), graph.whole(2), axis=0)  # fmt: skip
    angle = graph.add("Mul", graph.add("Cast", past, to=TensorProto.FLOAT), graph.constant([1.0, 0.1, 0.01, 0.001] * 2))
    angle = graph.add("Reshape", angle, graph.whole(1, 1, 1, SIZE))
    cos, sin = graph.add("Cos", angle), graph.add("Sin", angle)
    outputs = ["logits"]
    for layer in range(LAYERS):
        h = graph.norm(x)
        q, k, v = (graph.heads(graph.linear(h, WIDTH, HEADS * SIZE)) for _ in range(3))
        q, k = (_rotated(graph, one, cos, sin) for one in (q, k))
        names = [f"{layer}.decoder.key", f"{layer}.decoder.value"]
        if first:
            k, v = (graph.add("Identity", one, out=f"present.{name}") for one, name in zip((k, v), names, strict=True))
        else:
            k, v = (graph.add("Concat", f"past_key_values.{name}", one, out=f"present.{name}", axis=-2)
                    for one, name in zip((k, v), names, strict=True))  # fmt: skip
        outputs += [f"present.{name}" for name in names]
        x = graph.add("Add", x, graph.linear(graph.joined(_attention(graph, q, k, v, None)), HEADS * SIZE, WIDTH))
        q = graph.heads(graph.linear(graph.norm(x), WIDTH, HEADS * SIZE))
        names = [f"{layer}.encoder.key", f"{layer}.encoder.value"]
        made = [graph.linear("encoder_hidden_states", WIDTH, HEADS * SIZE) for _ in names] if first else []
        if first:
            k, v = (graph.heads(one) for one in made)
            k, v = (graph.add("Identity", one, out=f"present.{name}") for one, name in zip((k, v), names, strict=True))
        else:
            for _ in names:  # the same weights come next in both
                graph.weights(WIDTH, HEADS * SIZE)
                graph.random.normal(0, 0.1, HEADS * SIZE)
            k, v = (f"past_key_values.{name}" for name in names)
            for name in names:
                graph.add("Identity", f"past_key_values.{name}", out=f"present.{name}")
        outputs += [f"present.{name}" for name in names]
        x = graph.add("Add", x, graph.linear(graph.joined(_attention(graph, q, k, v, _strided(graph))), WIDTH, WIDTH))
    graph.add("MatMul", graph.norm(x), graph.weights(WIDTH, TOKENS), out="logits")
    inputs = [_info("input_ids", ["batch", "length"], TensorProto.INT64),
              _info("encoder_attention_mask", ["batch", "frames"], TensorProto.INT64),
              _info("encoder_hidden_states", ["batch", "frames", WIDTH])]  # fmt: skip
    if not first:
        for layer in range(LAYERS):
            for what in ("key", "value"):
                inputs += [_past(layer, f"decoder.{what}", "past"), _past(layer, f"encoder.{what}", "frames")]
    return _model(graph, inputs, outputs)


def _rotated(graph: Graph, source: str, cos: str, sin: str) -> str:
    half = SIZE // 2
    ends = (graph.whole(0), graph.whole(half), graph.whole(SIZE), graph.whole(3))
    low = graph.add("Slice", source, ends[0], ends[1], ends[3])
    high = graph.add("Slice", source, ends[1], ends[2], ends[3])
    turned = graph.add("Concat", graph.add("Neg", high), low, axis=-1)
    return graph.add("Add", graph.add("Mul", source, cos), graph.add("Mul", turned, sin))


def _strided(graph: Graph) -> str:
    """A mask of the sound (4 samples a frame) at the frames, as something to add."""
    frames = graph.add("Gather", graph.add("Shape", "encoder_hidden_states"), graph.whole(1), axis=0)
    axis, step = graph.whole(1), graph.whole(4)
    every = graph.add("Slice", "encoder_attention_mask", graph.whole(0), graph.whole(1 << 40), axis, step)
    mask = graph.add("Cast", graph.add("Slice", every, graph.whole(0), frames, axis), to=TensorProto.BOOL)
    added = graph.add("Where", mask, graph.constant(0.0), graph.constant(-3e38))
    return graph.add("Unsqueeze", added, graph.whole(1, 2))


def _attention(graph: Graph, q: str, k: str, v: str, mask: str | None) -> str:
    pads = graph.whole(0, 0, 0, 0, 0, 0, 0, 4)
    q, k, v = (graph.add("Pad", one, pads) for one in (q, k, v))
    root = graph.constant(SIZE**-0.25)
    k = graph.add("Mul", graph.add("Transpose", k, perm=[0, 1, 3, 2]), root)
    scores = graph.add("MatMul", graph.add("Mul", q, root), k)
    if mask is not None:
        scores = graph.add("Add", scores, mask)
    weights = graph.add("Softmax", scores, axis=-1)
    weights = graph.add("Where", graph.add("IsNaN", weights), graph.constant(0.0), weights)
    found = graph.add("MatMul", weights, v)
    return graph.add("Slice", found, graph.whole(0), graph.whole(SIZE), graph.whole(3))


def merged() -> Any:
    """In optimum's way: learned positions, heads as a batch of matrices, `use_cache_branch` chooses the branch."""
    graph = Graph(2)
    rows, places = graph.weights(TOKENS, WIDTH), graph.weights(64, WIDTH)
    shared = len(graph.constants)
    branches = {}
    for taken in (True, False):
        graph.nodes, graph.random = [], np.random.default_rng(5)
        del graph.constants[shared:]
        branches[taken] = _learned(graph, rows, places, taken)
    graph.nodes = []
    outputs = ["logits", *(f"present.{layer}.{side}.{what}" for layer in range(LAYERS)
                           for side in ("decoder", "encoder") for what in ("key", "value"))]  # fmt: skip
    graph.nodes.append(helper.make_node("If", ["use_cache_branch"], outputs, "switch", then_branch=branches[True],
                                        else_branch=branches[False]))  # fmt: skip
    inputs = [_info("input_ids", ["batch", "length"], TensorProto.INT64),
              _info("encoder_hidden_states", ["batch", "frames", WIDTH])]  # fmt: skip
    for layer in range(LAYERS):
        for what in ("key", "value"):
            inputs += [_past(layer, f"decoder.{what}", "past"), _past(layer, f"encoder.{what}", "frames_past")]
    inputs.append(_info("use_cache_branch", [1], TensorProto.BOOL))
    del graph.constants[shared:]
    return _model(graph, inputs, outputs)


def _learned(graph: Graph, rows: str, places: str, taken: bool) -> Any:
    """One branch; its weights are the same in both."""
    past = graph.add("Gather", graph.add("Shape", "past_key_values.0.decoder.key"), graph.whole(2), axis=0)
    length = graph.add("Gather", graph.add("Shape", "input_ids"), graph.whole(1), axis=0)
    start = past if taken else graph.whole(0)
    where = graph.add("Slice", places, start, graph.add("Add", start, length), graph.whole(0))
    embedded = graph.add("Mul", graph.add("Gather", rows, "input_ids", axis=0), graph.constant(2.0))
    x = graph.add("Add", embedded, where)
    outputs = []
    for layer in range(LAYERS):
        h = graph.norm(x)
        q, k, v = (graph.heads(graph.linear(h, WIDTH, HEADS * SIZE)) for _ in range(3))
        for what, new in (("key", k), ("value", v)):
            name = f"{layer}.decoder.{what}"
            one = graph.add("Concat", f"past_key_values.{name}", new, axis=2) if taken else new
            k, v = (one, v) if what == "key" else (k, one)
            outputs.append((f"present.{name}", one))
        x = graph.add("Add", x, graph.linear(graph.joined(_batched(graph, q, k, v, causal=True)), WIDTH, WIDTH))
        q = graph.heads(graph.linear(graph.norm(x), WIDTH, HEADS * SIZE))
        found = []
        for what in ("key", "value"):
            name = f"{layer}.encoder.{what}"
            made = graph.heads(graph.linear("encoder_hidden_states", WIDTH, HEADS * SIZE))
            if taken:
                made = f"past_key_values.{name}"
            found.append(made)
            outputs.append((f"present.{name}", made))
        x = graph.add("Add", x, graph.linear(graph.joined(_batched(graph, q, *found, causal=False)), WIDTH, WIDTH))
    logits = graph.add("MatMul", graph.norm(x), graph.weights(WIDTH, TOKENS))
    mark = "then" if taken else "else"
    ends = [graph.add("Identity", one, out=f"{mark}_{name}") for name, one in [("logits", logits), *outputs]]
    order = ["logits", *(f"present.{layer}.{side}.{what}" for layer in range(LAYERS)
                         for side in ("decoder", "encoder") for what in ("key", "value"))]  # fmt: skip
    assert {f"{mark}_{name}" for name in order} == set(ends)
    constants = graph.constants[2:]
    return helper.make_graph(graph.nodes, mark, [], [_info(f"{mark}_{name}", [None] * (3 if name == "logits" else 4))
                                                     for name in order], constants)  # fmt: skip


def _batched(graph: Graph, q: str, k: str, v: str, *, causal: bool) -> str:
    q, k, v = (graph.add("Reshape", one, graph.whole(HEADS, -1, SIZE)) for one in (q, k, v))
    scores = graph.add("MatMul", graph.add("Mul", q, graph.constant(SIZE**-0.5)),
                       graph.add("Transpose", k, perm=[0, 2, 1]))  # fmt: skip
    if causal:
        width = graph.add("Gather", graph.add("Shape", scores), graph.whole(2), axis=0)
        rows = graph.add("Gather", graph.add("Shape", scores), graph.whole(1), axis=0)
        shape = graph.add("Concat", rows, width, axis=0)
        ones = graph.add("ConstantOfShape", shape, value=numpy_helper.from_array(np.ones(1, np.float32)))
        past = graph.add("Sub", width, rows)
        lower = graph.add("Trilu", ones, graph.add("Squeeze", past, graph.whole(0)), upper=0)
        scores = graph.add("Where", graph.add("Cast", lower, to=TensorProto.BOOL), scores, graph.constant(-1e9))
    found = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
    return graph.add("Unsqueeze", found, graph.whole(0))


def grouped() -> Any:
    """A language model without an encoder: position ids and a mask are inputs, two heads share keys and values."""
    graph = Graph(3)
    places = graph.weights(64, WIDTH)
    x = graph.add("Add", graph.add("Gather", graph.weights(TOKENS, WIDTH), "input_ids", axis=0),
                  graph.add("Gather", places, "position_ids", axis=0))  # fmt: skip
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = graph.add("Mul", graph.add("Sub", graph.constant(1.0), mask), graph.constant(-1e9))
    mask = graph.add("Unsqueeze", mask, graph.whole(1, 2))
    outputs = ["logits"]
    h = graph.norm(x)
    q = graph.heads(graph.linear(h, WIDTH, HEADS * SIZE))
    k, v = (graph.heads(graph.linear(h, WIDTH, SIZE), 1) for _ in range(2))
    found = []
    for what, new in (("key", k), ("value", v)):
        outputs.append(f"present.0.{what}")
        one = graph.add("Concat", f"past_key_values.0.{what}", new, out=outputs[-1], axis=2)
        length = graph.add("Gather", graph.add("Shape", one), graph.whole(2), axis=0)
        wide = graph.add("Concat", graph.whole(1, 1, HEADS), length, graph.whole(SIZE), axis=0)
        many = graph.add("Expand", graph.add("Unsqueeze", one, graph.whole(2)), wide)
        found.append(graph.add("Reshape", many, graph.add("Concat", graph.whole(1, HEADS), length, graph.whole(SIZE),
                                                         axis=0)))  # fmt: skip
    scores = graph.add("Div", graph.add("MatMul", q, graph.add("Transpose", found[0], perm=[0, 1, 3, 2])),
                       graph.constant(SIZE**0.5))  # fmt: skip
    weights = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
    x = graph.add("Add", x, graph.linear(graph.joined(graph.add("MatMul", weights, found[1])), WIDTH, WIDTH))
    graph.add("MatMul", graph.norm(x), graph.weights(WIDTH, TOKENS), out="logits")
    inputs = [_info(name, ["batch", size], TensorProto.INT64) for name, size in
              (("input_ids", "length"), ("position_ids", "length"), ("attention_mask", "total"))]  # fmt: skip
    inputs += [_info(f"past_key_values.0.{what}", ["batch", 1, "past", SIZE]) for what in ("key", "value")]
    return _model(graph, inputs, outputs)
