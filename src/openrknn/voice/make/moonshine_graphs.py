"""Moonshine as two graphs for the NPU, built from its weights.

encoder     frames of the stem -> keys and values of every cross attention; in as many lengths as the set has
decoder     one token, the cache and the cross attention -> logits and the new rows of the cache

What the NPU is bad at is done before: the first convolution with its norm over the whole recording is computed by the
CPU in float (2 % of the encoder's products; `openrknn.voice.moonshine.Stem`), so that the padding of a bucket changes
nothing, and masks for what is padded are inputs. The rotary embedding turns pairs of channels:
    turned = x W * cos + x (W R) * sin,   R: (a, b) -> (-b, a)
so it is a product with weights that are turned beforehand, and no channel has to move. Channels that are not turned
have cos 1 and sin 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.voice.make.cached_heads import CachedHeads, whole
from openrknn.voice.make.moonshine_weights import Array, Weights
from openrknn.voice.make.writer import GraphWriter

EPSILON = 1e-5
GROUP = 16
"""Channels that the NPU takes at once."""


def rotary_rows(weights: Weights, rows: int) -> tuple[Array, Array]:
    """Cosines and sines of the positions 0 to `rows`, each [rows, width]."""
    size = weights.width // weights.heads
    angles = np.arange(rows)[:, None] * np.repeat(weights["rotary"].astype(np.float64), 2)[None, :]
    rest = size - angles.shape[1]
    cos = np.concatenate([np.cos(angles), np.ones((rows, rest))], axis=1)
    sin = np.concatenate([np.sin(angles), np.zeros((rows, rest))], axis=1)
    return (
        np.tile(cos, (1, weights.heads)).astype(np.float32),
        np.tile(sin, (1, weights.heads)).astype(np.float32),
    )


def _turn(weights: Weights, matrix: Array) -> Array:
    """W R: the columns (a, b) of every pair that is turned become (-b, a)."""
    size = weights.width // weights.heads
    turned = np.zeros_like(matrix)
    for head in range(weights.heads):
        for pair in range(len(weights["rotary"])):
            first = head * size + 2 * pair
            turned[:, first], turned[:, first + 1] = -matrix[:, first + 1], matrix[:, first]
    return turned


class _Layer:
    """What both graphs are made of."""

    def __init__(self, graph: GraphWriter, weights: Weights, layer: int) -> None:
        self.graph, self.weights, self.layer = graph, weights, layer
        self.heads, self.size = weights.heads, weights.width // weights.heads

    def norm(self, value: str, part: str) -> str:
        return self.graph.op(
            "LayerNormalization", value, self.weights[f"{self.layer}.{part}"], axis=-1, epsilon=EPSILON
        )

    def product(self, value: str, part: str, factor: float = 1.0) -> str:
        return self.graph.op("MatMul", value, self.weights[f"{self.layer}.{part}"] * np.float32(factor))

    def turned(self, value: str, part: str, cos: str, sin: str, factor: float = 1.0) -> str:
        matrix = self.weights[f"{self.layer}.{part}"] * np.float32(factor)
        graph = self.graph
        straight = graph.op("Mul", graph.op("MatMul", value, matrix), cos)
        return graph.op("Add", straight, graph.op("Mul", graph.op("MatMul", value, _turn(self.weights, matrix)), sin))

    def split(self, value: str, *, is_key: bool = False) -> str:
        """[1, time, width] -> [1, heads, time, size], or with the last two swapped."""
        parts = self.graph.reshape(value, 1, -1, self.heads, self.size)
        return self.graph.op("Transpose", parts, perm=[0, 2, 3, 1] if is_key else [0, 2, 1, 3])

    def joined(self, value: str) -> str:
        return self.graph.reshape(self.graph.op("Transpose", value, perm=[0, 2, 1, 3]), 1, -1, self.weights.width)

    def out(self, value: str, attention: str, part: str) -> str:
        return self.graph.op("Add", value, self.product(self.joined(attention), part))

    def bias(self, value: str, part: str) -> str:
        name = f"{self.layer}.{part}"
        product = self.graph.op("MatMul", value, self.weights[name], name=f"{name}.product")
        return self.graph.op("Add", product, self.weights[f"{name}.bias"], name=f"{name}.sum")


def encoder_graph(encoder: Weights, decoder: Weights, longest: int) -> Any:
    """Frames of the stem, [1, width, frames], and a mask [1, 1, 1, time] -> cross.N.key and cross.N.value.

    The number of frames stays open, up to `longest`: `openrknn compile` makes one graph for each length asked for, and
    all of them share the weights.
    """
    graph = GraphWriter("moonshine encoder")
    width, time = encoder.width, "time"
    mask = graph.input("mask", [1, 1, 1, time])
    value = graph.input("frames", [1, width, "frames"])
    value = graph.op("Gelu", graph.op("Conv", value, encoder["conv2.weight"], encoder["conv2.bias"], strides=[3]))
    value = graph.op("Gelu", graph.op("Conv", value, encoder["conv3.weight"], encoder["conv3.bias"], strides=[2]))
    value = graph.op("Transpose", value, perm=[0, 2, 1])
    length = graph.op("Shape", value, start=1, end=2)
    cos, sin = (
        graph.op("Slice", rows[None], whole(0), length, whole(1)) for rows in rotary_rows(encoder, states(longest))
    )
    for number in range(encoder.layers):
        layer = _Layer(graph, encoder, number)
        normed = layer.norm(value, "input_layernorm")
        query = layer.split(layer.turned(normed, "self_attn.q_proj", cos, sin, layer.size**-0.5))
        key = layer.split(layer.turned(normed, "self_attn.k_proj", cos, sin), is_key=True)
        scores = graph.op("Softmax", graph.op("Add", graph.op("MatMul", query, key), mask), axis=-1)
        mixed = graph.op("MatMul", scores, layer.split(layer.product(normed, "self_attn.v_proj")))
        value = layer.out(value, mixed, "self_attn.o_proj")
        inner = graph.op("Gelu", layer.bias(layer.norm(value, "post_attention_layernorm"), "mlp.fc1"))
        value = graph.op("Add", value, layer.bias(inner, "mlp.fc2"))
    value = graph.op("LayerNormalization", value, encoder["norm"], axis=-1, epsilon=EPSILON)
    for number in range(decoder.layers):
        layer = _Layer(graph, decoder, number)
        for part in ("key", "value"):
            rows = layer.split(layer.product(value, f"encoder_attn.{part[0]}_proj"))
            graph.output(f"cross.{number}.{part}", rows, [1, layer.heads, time, layer.size])
    return graph.model()


def room_of(weights: Weights) -> int:
    """Channels of a head in the decoder: filled up to whole groups of the NPU, so that a cache is never moved."""
    return -(-weights.width // weights.heads // GROUP) * GROUP


def _filled(weights: Weights, matrix: Array) -> Array:
    """Columns of zeros behind those of each head."""
    heads, room = weights.heads, room_of(weights)
    wide = np.zeros((len(matrix), heads, room), np.float32)
    wide[:, :, : matrix.shape[1] // heads] = matrix.reshape(len(matrix), heads, -1)
    return wide.reshape(len(matrix), heads * room)


def filled_rows(weights: Weights, rows: int) -> tuple[Array, Array]:
    """`rotary_rows` for heads with room."""
    cos, sin = rotary_rows(weights, rows)
    return _filled(weights, cos), _filled(weights, sin)


class _Step(CachedHeads, _Layer):
    """A layer of the decoder: one row at a time, heads with room behind their channels."""

    def __init__(self, graph: GraphWriter, weights: Weights, layer: int) -> None:
        super().__init__(graph, weights, layer)
        self.room = room_of(weights)

    def row(self, value: str, part: str, factor: float = 1.0, turns: tuple[str, str] | None = None) -> str:
        """[1, 1, heads * room] of one row."""
        matrix = self.weights[f"{self.layer}.{part}"] * np.float32(factor)
        straight = self.graph.op("MatMul", value, _filled(self.weights, matrix))
        if turns is None:
            return straight
        turned = self.graph.op("MatMul", value, _filled(self.weights, _turn(self.weights, matrix)))
        products = (self.graph.op("Mul", one, other) for one, other in zip((straight, turned), turns, strict=True))
        return self.graph.op("Add", *products)

    def back(self, value: str, attention: str, part: str) -> str:
        """Through the output's weights, with rows of zeros for the room."""
        matrix = _filled(self.weights, np.ascontiguousarray(self.weights[f"{self.layer}.{part}"].T)).T
        joined = self.graph.reshape(attention, 1, 1, self.heads * self.room)
        return self.graph.op("Add", value, self.graph.op("MatMul", joined, np.ascontiguousarray(matrix)))


def decoder_graph(decoder: Weights) -> Any:
    """One step as the NPU likes it; capacity and time stay open.

    token [1, width, 1, 1] (its row of the embedding), cos and sin [1, heads * room, 1, 1] of its position, mask
    [1, capacity, 1, 1] of the cache, cross_mask [1, time, 1, 1], cache.N.key/value [1, heads * room, 1, capacity],
    cross.N.key/value -> logits [1, words, 1, 1], new.N.key/value [1, heads * room, 1, 1]
    """
    graph = GraphWriter("moonshine decoder")
    width, lanes = decoder.width, decoder.heads * room_of(decoder)
    value = graph.reshape(graph.input("token", [1, width, 1, 1]), 1, 1, width)
    turns = (
        graph.reshape(graph.input("cos", [1, lanes, 1, 1]), 1, 1, lanes),
        graph.reshape(graph.input("sin", [1, lanes, 1, 1]), 1, 1, lanes),
    )
    mask, cross_mask = (
        graph.reshape(graph.input(name, [1, size, 1, 1]), 1, 1, 1, -1)
        for name, size in (("mask", "capacity"), ("cross_mask", "time"))
    )
    for number in range(decoder.layers):
        layer = _Step(graph, decoder, number)
        kept, cross = (
            [graph.input(f"{kind}.{number}.{part}", [1, lanes, 1, rows]) for part in ("key", "value")]
            for kind, rows in (("cache", "capacity"), ("cross", "time"))
        )
        normed = layer.norm(value, "input_layernorm")
        query = layer.one(layer.row(normed, "self_attn.q_proj", layer.size**-0.5, turns))
        key, new = layer.row(normed, "self_attn.k_proj", turns=turns), layer.row(normed, "self_attn.v_proj")
        mixed = layer.over_cache(query, key, new, kept, mask)
        value = layer.back(value, mixed, "self_attn.o_proj")
        normed = layer.norm(value, "post_attention_layernorm")
        query = layer.one(layer.row(normed, "encoder_attn.q_proj", layer.size**-0.5))
        scores = graph.op("Add", graph.op("MatMul", query, layer.seen(cross[0], is_key=True)), cross_mask)
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), layer.seen(cross[1], is_key=False))
        value = layer.back(value, mixed, "encoder_attn.o_proj")
        value = graph.op("Add", value, _gated(layer, layer.norm(value, "final_layernorm")))
        for part, row in (("key", key), ("value", new)):
            graph.output(f"new.{number}.{part}", graph.reshape(row, 1, lanes, 1, 1), [1, lanes, 1, 1])
    value = graph.op("LayerNormalization", value, decoder["norm"], axis=-1, epsilon=EPSILON)
    words = decoder["logits"].shape[1]
    logits = graph.op("MatMul", value, decoder["logits"])
    graph.output("logits", graph.reshape(logits, 1, words, 1, 1), [1, words, 1, 1])
    return graph.model()


def _gated(layer: _Layer, value: str) -> str:
    """The decoder's perceptron: half of the channels, times SiLU of the other half."""
    graph = layer.graph
    weights, bias = layer.weights[f"{layer.layer}.mlp.fc1"], layer.weights[f"{layer.layer}.mlp.fc1.bias"]
    half = weights.shape[1] // 2
    straight = graph.op("Add", graph.op("MatMul", value, weights[:, :half]), bias[:half])
    gate = graph.op("Add", graph.op("MatMul", value, weights[:, half:]), bias[half:])
    gate = graph.op("Mul", gate, graph.op("Sigmoid", gate))
    return layer.bias(graph.op("Mul", gate, straight), "mlp.fc2")


def states(frames: int) -> int:
    """How many states so many frames of the stem become: windows of 7 by 3, then of 3 by 2."""
    return ((frames - 7) // 3 + 1 - 3) // 2 + 1
