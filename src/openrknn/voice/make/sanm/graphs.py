"""SenseVoice and Paraformer as nets for the NPU, built from their weights.

`frames` have their positions already; `mask` [1, 1, 1, time] is added to scores, `keep` [1, time, 1] is 1 for frames
of sound and 0 for the filling behind them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.sanm.weights import Weights
from openrknn.voice.make.writer import GraphWriter
from openrknn.voice.sanm.frontend import Array

_EPSILON = 1e-12
_TIME, _TOKENS = "time", "tokens"


class _Layers:
    """Operators of one graph."""

    def __init__(self, name: str, weights: Weights) -> None:
        self.graph, self.weights = GraphWriter(name), weights

    def norm(self, value: str, place: str) -> str:
        scale, shift = self.weights[f"{place}.weight"], self.weights[f"{place}.bias"]
        return self.graph.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=_EPSILON)

    def linear(self, value: str, place: str, columns: slice = slice(None), factor: float = 1.0) -> str:
        matrix = np.ascontiguousarray(self.weights[f"{place}.weight"][:, columns]) * np.float32(factor)
        made = self.graph.op("MatMul", value, matrix)
        bias = self.weights.arrays.get(f"{place}.bias")
        return made if bias is None else self.graph.op("Add", made, bias[columns] * np.float32(factor))

    def heads(self, value: str, width: int, *, is_key: bool = False) -> str:
        """[1, time, width] -> [1, heads, time, size], keys with the last two swapped."""
        parts = self.graph.reshape(value, 1, -1, self.weights.heads, width // self.weights.heads)
        return self.graph.op("Transpose", parts, perm=[0, 2, 3, 1] if is_key else [0, 2, 1, 3])

    def attention(self, query: str, key: str, value: str, mask: str, width: int) -> str:
        scores = self.graph.op("MatMul", self.heads(query, width), self.heads(key, width, is_key=True))
        chances = self.graph.op("Softmax", self.graph.op("Add", scores, mask), axis=-1)
        mixed = self.graph.op("MatMul", chances, self.heads(value, width))
        return self.graph.reshape(self.graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), 1, -1, width)

    def memory(self, value: str, place: str, keep: str) -> str:
        """FSMN: each channel sees its neighbours in time; the value itself is added."""
        kernel = self.weights[f"{place}.fsmn_block.weight"]
        if kernel.ndim != 3 or kernel.shape[2] % 2 == 0:
            raise VoiceSetError(f"{self.weights.name}: the memory of {place} is {kernel.shape}; its length is odd")
        kept = self.graph.op("Mul", value, keep)
        side = kernel.shape[2] // 2
        turned = self.graph.op("Transpose", kept, perm=[0, 2, 1])
        seen = self.graph.op("Conv", turned, kernel, group=len(kernel), pads=[side, side])
        added = self.graph.op("Add", self.graph.op("Transpose", seen, perm=[0, 2, 1]), kept)
        return self.graph.op("Mul", added, keep)

    def encoder_layer(self, value: str, place: str, mask: str, keep: str, *, is_first: bool) -> str:
        width = self.weights.width
        normed = self.norm(value, f"{place}.norm1")
        name = f"{place}.self_attn.linear_q_k_v"
        query = self.linear(normed, name, slice(0, width), (width // self.weights.heads) ** -0.5)
        key, rows = (self.linear(normed, name, slice(at * width, (at + 1) * width)) for at in (1, 2))
        seen = self.linear(self.attention(query, key, rows, mask, width), f"{place}.self_attn.linear_out")
        made = self.graph.op("Add", seen, self.memory(rows, f"{place}.self_attn", keep))
        value = made if is_first else self.graph.op("Add", value, made)
        inner = self.graph.op("Relu", self.linear(self.norm(value, f"{place}.norm2"), f"{place}.feed_forward.w_1"))
        return self.graph.op("Add", value, self.linear(inner, f"{place}.feed_forward.w_2"))

    def encoder(self) -> tuple[str, str, str]:
        """States behind the last norm, mask and keep."""
        bands = int(self.weights["encoder.encoders0.0.norm1.weight"].shape[0])
        value = self.graph.input("frames", [1, _TIME, bands])
        mask = self.graph.input("mask", [1, 1, 1, _TIME])
        keep = self.graph.input("keep", [1, _TIME, 1])
        value = self.encoder_layer(value, "encoder.encoders0.0", mask, keep, is_first=True)
        for number in range(self.weights.count("encoder.encoders.")):
            value = self.encoder_layer(value, f"encoder.encoders.{number}", mask, keep, is_first=False)
        return self.norm(value, "encoder.after_norm"), mask, keep


def sensevoice_graph(weights: Weights) -> Any:
    """frames, mask, keep -> logits [1, time, tokens]."""
    layers = _Layers("sensevoice", weights)
    value, mask, keep = layers.encoder()
    for number in range(weights.count("encoder.tp_encoders.")):
        value = layers.encoder_layer(value, f"encoder.tp_encoders.{number}", mask, keep, is_first=False)
    value = layers.norm(value, "encoder.tp_norm")
    words = weights["ctc_lo.weight"].shape[1]
    layers.graph.output("logits", layers.linear(value, "ctc_lo"), [1, _TIME, words])
    return layers.graph.model()


def paraformer_encoder(weights: Weights) -> Any:
    """frames, mask, keep -> states [1, time, width], weights [1, time, 1] of integrate-and-fire."""
    layers = _Layers("paraformer encoder", weights)
    value, _, keep = layers.encoder()
    graph = layers.graph
    graph.output("states", value, [1, _TIME, weights.width])
    kernel: Array = weights["predictor.cif_conv1d.weight"]
    side = kernel.shape[2] // 2
    turned = graph.op("Transpose", graph.op("Mul", value, keep), perm=[0, 2, 1])
    seen = graph.op("Conv", turned, kernel, weights["predictor.cif_conv1d.bias"], pads=[side, side])
    turned = graph.op("Transpose", graph.op("Relu", seen), perm=[0, 2, 1])
    graph.output("weights", graph.op("Sigmoid", layers.linear(turned, "predictor.cif_output")), [1, _TIME, 1])
    return graph.model()


def paraformer_decoder(weights: Weights) -> Any:
    """tokens [1, tokens, width], token_keep, states, mask -> logits [1, tokens, words]."""
    layers = _Layers("paraformer decoder", weights)
    graph, width = layers.graph, weights.width
    value = graph.input("tokens", [1, _TOKENS, width])
    states = graph.input("states", [1, _TIME, width])
    mask = graph.input("mask", [1, 1, 1, _TIME])
    keep = graph.input("token_keep", [1, _TOKENS, 1])
    if weights.count("decoder.decoders2."):
        raise VoiceSetError(f"{weights.name}: a decoder with layers 'decoders2' is not supported")
    for number in range(weights.count("decoder.decoders.")):
        place = f"decoder.decoders.{number}"
        inner = layers.norm(_feed_forward(layers, value, place), f"{place}.norm2")
        value = graph.op("Add", value, layers.memory(inner, f"{place}.self_attn", keep))
        name = f"{place}.src_attn"
        normed = layers.norm(value, f"{place}.norm3")
        query = layers.linear(normed, f"{name}.linear_q", factor=(width // weights.heads) ** -0.5)
        key, rows = (
            layers.linear(states, f"{name}.linear_k_v", part) for part in (slice(0, width), slice(width, None))
        )
        seen = layers.attention(query, key, rows, mask, width)
        value = graph.op("Add", value, layers.linear(seen, f"{name}.linear_out"))
    for number in range(weights.count("decoder.decoders3.")):
        value = _feed_forward(layers, value, f"decoder.decoders3.{number}")
    value = layers.norm(value, "decoder.after_norm")
    words = weights["decoder.output_layer.weight"].shape[1]
    graph.output("logits", layers.linear(value, "decoder.output_layer"), [1, _TOKENS, words])
    return graph.model()


def _feed_forward(layers: _Layers, value: str, place: str) -> str:
    inner = layers.linear(layers.norm(value, f"{place}.norm1"), f"{place}.feed_forward.w_1")
    normed = layers.norm(layers.graph.op("Relu", inner), f"{place}.feed_forward.norm")
    return layers.linear(normed, f"{place}.feed_forward.w_2")
