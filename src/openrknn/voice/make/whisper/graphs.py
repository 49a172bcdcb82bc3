"""Whisper as two graphs for the NPU, built from its weights.

encoder     mel bands [1, bands, frames] -> keys and values of every cross attention
decoder     one token, its position, the cache and the cross attention -> logits, new rows of the cache, and the scores
            of the heads that follow the words (for times of words)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from openrknn.numerics import MASKED
from openrknn.voice.make.cached_heads import whole
from openrknn.voice.make.whisper.checkpoint import HEAD, Array, Checkpoint
from openrknn.voice.make.writer import GraphWriter

_EPSILON = 1e-5
GROUP = 16
"""Channels that the NPU takes at once."""


class _Layer:
    """A block of the encoder or of the decoder."""

    def __init__(self, graph: GraphWriter, weights: Checkpoint, side: str, number: int) -> None:
        self.graph, self._weights = graph, weights
        self._before = f"{side}.blocks.{number}."
        self.width, self.heads = weights.width(side), weights.head_count(side)
        self.size = self.width // self.heads

    def weight(self, part: str) -> Array:
        return self._weights[self._before + part]

    def norm(self, value: str, part: str) -> str:
        scale, shift = self.weight(f"{part}.weight"), self.weight(f"{part}.bias")
        return self.graph.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=_EPSILON)

    def product(self, value: str, part: str, factor: float = 1.0) -> str:
        """x W^T + b; keys have no b."""
        name = self._before + part
        matrix = np.ascontiguousarray(self.weight(f"{part}.weight").T) * np.float32(factor)
        made = self.graph.op("MatMul", value, matrix, name=f"{name}.product")
        if part.endswith("key"):
            return made
        return self.graph.op("Add", made, self.weight(f"{part}.bias") * np.float32(factor), name=f"{name}.sum")

    def split(self, value: str, *, is_key: bool = False) -> str:
        """[1, time, width] -> [1, heads, time, size], or with the last two swapped."""
        parts = self.graph.reshape(value, 1, -1, self.heads, self.size)
        return self.graph.op("Transpose", parts, perm=[0, 2, 3, 1] if is_key else [0, 2, 1, 3])

    def perceptron(self, value: str) -> str:
        inner = self.graph.op("Gelu", self.product(self.norm(value, "mlp_ln"), "mlp.0"))
        return self.graph.op("Add", value, self.product(inner, "mlp.2"))


def encoder_graph(weights: Checkpoint) -> Any:
    """mel [1, bands, 2 * frames] -> cross.N.key and cross.N.value [1, heads, frames, size] of the decoder's layers."""
    graph = GraphWriter("whisper encoder")
    frames = weights.frames
    value = graph.input("mel", [1, weights.mels, 2 * frames])
    for name, stride in (("conv1", 1), ("conv2", 2)):
        kernel, bias = weights[f"encoder.{name}.weight"], weights[f"encoder.{name}.bias"]
        value = graph.op("Gelu", graph.op("Conv", value, kernel, bias, strides=[stride], pads=[1, 1]))
    value = graph.op("Transpose", value, perm=[0, 2, 1])
    value = graph.op("Add", value, weights["encoder.positional_embedding"][None])
    for number in range(weights.layers("encoder")):
        layer = _Layer(graph, weights, "encoder", number)
        normed = layer.norm(value, "attn_ln")
        query = layer.split(layer.product(normed, "attn.query", layer.size**-0.5))
        key = layer.split(layer.product(normed, "attn.key"), is_key=True)
        scores = graph.op("Softmax", graph.op("MatMul", query, key), axis=-1)
        mixed = graph.op("MatMul", scores, layer.split(layer.product(normed, "attn.value")))
        joined = graph.reshape(graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), 1, -1, layer.width)
        value = graph.op("Add", value, layer.product(joined, "attn.out"))
        value = layer.perceptron(value)
    scale, shift = weights["encoder.ln_post.weight"], weights["encoder.ln_post.bias"]
    value = graph.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=_EPSILON)
    for number in range(weights.layers("decoder")):
        layer = _Layer(graph, weights, "decoder", number)
        for part in ("key", "value"):
            rows = layer.split(layer.product(value, f"cross_attn.{part}"))
            graph.output(f"cross.{number}.{part}", rows, [1, layer.heads, frames, layer.size])
    return graph.model()


class _Step(_Layer):
    """A layer of the decoder for some tokens. The heads are filled up to whole groups of channels."""

    def __init__(self, graph: GraphWriter, weights: Checkpoint, number: int, own_mask: str) -> None:
        super().__init__(graph, weights, "decoder", number)
        self.room = room_of(weights)
        self._own_mask = own_mask

    def row(self, value: str, part: str, factor: float = 1.0) -> str:
        """[1, tokens, heads * room]."""
        matrix = _filled(np.ascontiguousarray(self.weight(f"{part}.weight").T), self.heads, self.room)
        made = self.graph.op("MatMul", value, matrix * np.float32(factor), name=f"{self._before}{part}.product")
        if part.endswith("key"):
            return made
        bias = _filled(self.weight(f"{part}.bias")[None], self.heads, self.room)
        return self.graph.op("Add", made, bias[0] * np.float32(factor))

    def queries(self, row: str) -> str:
        """[1, heads, tokens, room]."""
        return self.graph.op("Transpose", self.graph.reshape(row, 1, -1, self.heads, self.room), perm=[0, 2, 1, 3])

    def columns(self, row: str) -> str:
        """[1, heads * room, 1, tokens]: as the caches are."""
        turned = self.graph.op("Transpose", row, perm=[0, 2, 1])
        return self.graph.reshape(turned, 1, self.heads * self.room, 1, -1)

    def seen(self, cache: str, *, is_key: bool) -> str:
        """[1, heads * room, 1, rows] as matrices of the heads."""
        heads = self.graph.reshape(cache, 1, self.heads, self.room, -1)
        return heads if is_key else self.graph.op("Transpose", heads, perm=[0, 1, 3, 2])

    def over_cache(self, query: str, new: Sequence[str], kept: Sequence[str], mask: str) -> str:
        """One softmax over the scores of the cache and of the new rows: the cache itself is not copied."""
        graph = self.graph
        before = graph.op("Add", graph.op("MatMul", query, self.seen(kept[0], is_key=True)), mask)
        own = graph.op("Add", graph.op("MatMul", query, self.seen(new[0], is_key=True)), self._own_mask)
        scores = graph.op("Softmax", graph.op("Concat", before, own, axis=3), axis=-1)
        size = graph.op("Shape", before, start=3, end=4)
        past = graph.op("Slice", scores, whole(0), size, whole(3))
        last = graph.op("Slice", scores, size, whole(2**31 - 1), whole(3))
        mixed = graph.op("MatMul", past, self.seen(kept[1], is_key=False))
        return graph.op("Add", mixed, graph.op("MatMul", last, self.seen(new[1], is_key=False)))

    def back(self, value: str, attention: str, part: str) -> str:
        matrix = _filled(self.weight(f"{part}.weight"), self.heads, self.room)
        turned = self.graph.op("Transpose", attention, perm=[0, 2, 1, 3])
        joined = self.graph.reshape(turned, 1, -1, self.heads * self.room)
        made = self.graph.op("MatMul", joined, np.ascontiguousarray(matrix.T), name=f"{self._before}{part}.product")
        return self.graph.op("Add", value, self.graph.op("Add", made, self.weight(f"{part}.bias")))


def room_of(weights: Checkpoint) -> int:
    """Channels of a head in the decoder."""
    size = weights.width("decoder") // weights.head_count("decoder")
    return -(-size // GROUP) * GROUP


def rows_of(weights: Checkpoint) -> int:
    """Of the cross attention in a step: whole groups, the last ones masked (1504 for 1500 states)."""
    return -(-weights.frames // GROUP) * GROUP


def _filled(matrix: Array, heads: int, room: int) -> Array:
    """Columns of zeros behind those of each head."""
    wide = np.zeros((len(matrix), heads, room), np.float32)
    wide[:, :, : matrix.shape[1] // heads] = matrix.reshape(len(matrix), heads, -1)
    return wide.reshape(len(matrix), heads * room)


def decoder_graph(weights: Checkpoint, capacity: int, followed: Collection[int], tokens: int = 1) -> Any:
    """So many tokens, each of which sees the cache, those before it, and itself.

    token, position [1, width, 1, tokens], mask [1, capacity, 1, 1] of the cache, cross_mask, cache.N.key/value
    [1, heads * room, 1, capacity], cross.N.key/value [1, heads * room, 1, frames] -> logits [1, words, 1, tokens],
    new.N.key/value [1, heads * room, 1, tokens], and of the layers in `followed` scores.N [1, heads, tokens, frames]
    """
    graph = GraphWriter("whisper decoder")
    width, frames = weights.width("decoder"), rows_of(weights)
    lanes = weights.head_count("decoder") * room_of(weights)
    token, place = (graph.input(name, [1, width, 1, tokens]) for name in ("token", "position"))
    turned = graph.op("Transpose", graph.op("Add", token, place), perm=[0, 2, 3, 1])
    value = graph.reshape(turned, 1, -1, width)
    mask, cross_mask = (
        graph.reshape(graph.input(name, [1, size, 1, 1]), 1, 1, 1, -1)
        for name, size in (("mask", capacity), ("cross_mask", frames))
    )
    own_mask = graph.constant(np.triu(np.full((tokens, tokens), -MASKED, np.float32), 1)[None, None], "own_mask")
    for number in range(weights.layers("decoder")):
        layer = _Step(graph, weights, number, own_mask)
        kept, cross = (
            [graph.input(f"{kind}.{number}.{part}", [1, lanes, 1, rows]) for part in ("key", "value")]
            for kind, rows in (("cache", capacity), ("cross", frames))
        )
        normed = layer.norm(value, "attn_ln")
        query = layer.queries(layer.row(normed, "attn.query", layer.size**-0.5))
        new = [layer.columns(layer.row(normed, f"attn.{part}")) for part in ("key", "value")]
        value = layer.back(value, layer.over_cache(query, new, kept, mask), "attn.out")
        normed = layer.norm(value, "cross_attn_ln")
        query = layer.queries(layer.row(normed, "cross_attn.query", layer.size**-0.5))
        scores = graph.op("Add", graph.op("MatMul", query, layer.seen(cross[0], is_key=True)), cross_mask)
        if number in followed:
            turned = graph.op("Transpose", scores, perm=[0, 3, 1, 2])
            graph.output(f"scores.{number}", turned, [1, frames, layer.heads, tokens])
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), layer.seen(cross[1], is_key=False))
        value = layer.back(value, mixed, "cross_attn.out")
        value = layer.perceptron(value)
        for part, row in zip(("key", "value"), new, strict=True):
            graph.output(f"new.{number}.{part}", row, [1, lanes, 1, tokens])
    scale, shift = weights["decoder.ln.weight"], weights["decoder.ln.bias"]
    value = graph.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=_EPSILON)
    head = np.ascontiguousarray(weights.head.T)
    logits = graph.op("MatMul", value, head, name=f"{HEAD}.product")
    if f"{HEAD}.bias" in weights.arrays:
        logits = graph.op("Add", logits, weights[f"{HEAD}.bias"], name=f"{HEAD}.sum")
    turned = graph.op("Transpose", graph.reshape(logits, 1, 1, -1, weights.words), perm=[0, 3, 1, 2])
    graph.output("logits", turned, [1, weights.words, 1, tokens])
    return graph.model()
