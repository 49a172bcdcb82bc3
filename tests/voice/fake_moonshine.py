"""A small Moonshine of random weights, written as exporters write it: the float witness of what is rebuilt from it.

The rotary embedding is the one of the paper (pairs of channels turned one by one), attention has no cache, and nothing
is padded: whatever `openrknn.voice.make` does otherwise has to give the same numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.make.writer import GraphWriter

WIDTH, HEADS, LAYERS, WORDS = 32, 4, 2, 48
SIZE = WIDTH // HEADS
TURNED = 4
"""Channels of a head that the rotary embedding turns."""
PIECES = [b"<unk>", b"<s>", b"</s>", b"<0x41>", "▁".encode(), *(f"▁w{at}".encode() for at in range(5, WORDS))]

Array = npt.NDArray[Any]


def whole(*numbers: int) -> Array:
    """Numbers of shapes and axes."""
    return np.array(numbers, np.int64)


class Fake:
    """Writes both graphs."""

    def __init__(self, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)

    def weights(self, *shape: int, size: float = 1.0) -> Array:
        """Random, so that values keep their size on the way."""
        inner = int(np.prod(shape[1:])) if len(shape) == 3 else shape[0]
        return np.asarray(self._random.standard_normal(shape) * size / np.sqrt(inner), np.float32)

    def ones(self, *shape: int) -> Array:
        """About 1, each different."""
        return (1 + 0.1 * self._random.standard_normal(shape)).astype(np.float32)

    def write(self, folder: Path) -> Path:
        """The folder as `openrknn voice get` takes it."""
        import onnx

        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(self.encoder(), str(folder / "encoder_model.onnx"))
        onnx.save(self.decoder(), str(folder / "decoder_model_merged.onnx"))
        (folder / "tokenizer.bin").write_bytes(b"".join(bytes([len(piece)]) + piece for piece in PIECES))
        return folder

    # -- parts -------------------------------------------------------------------------------------------------

    def norm(self, graph: GraphWriter, value: str, name: str) -> str:
        return graph.op("LayerNormalization", value, graph.constant(self.ones(WIDTH), name), axis=-1, epsilon=1e-5)

    def product(self, graph: GraphWriter, value: str, name: str, rows: int = WIDTH, columns: int = WIDTH) -> str:
        return graph.op("MatMul", value, self.weights(rows, columns, size=1.5), name=f"{name}/MatMul_output_0")

    def turns(self, graph: GraphWriter, value: str) -> tuple[str, str]:
        """Cosine and sine [time, pairs] for as many positions as `value` [1, time, width] has."""
        powers = (0.5 ** np.arange(TURNED // 2, dtype=np.float32))[None, :, None]
        rates = graph.op("Expand", powers, whole(1, 1, 1), name="/rotary_emb/Expand_output_0")
        length = graph.op("Squeeze", graph.op("Shape", value, start=1, end=2), whole(0))
        places = graph.op("Range", np.array(0, np.int64), length, np.array(1, np.int64))
        places = graph.op("Unsqueeze", graph.op("Cast", places, to=1), whole(1))
        angles = graph.op("MatMul", places, graph.op("Reshape", rates, whole(1, -1)))
        return graph.op("Cos", angles), graph.op("Sin", angles)

    def heads(self, graph: GraphWriter, value: str) -> str:
        return graph.op("Transpose", graph.reshape(value, 1, -1, HEADS, SIZE), perm=[0, 2, 1, 3])

    def turn(self, graph: GraphWriter, value: str, turns: tuple[str, str]) -> str:
        """(a, b) -> (a cos - b sin, b cos + a sin) for every pair; the other channels stay."""
        left = graph.op("Slice", value, whole(0), whole(TURNED), whole(3), whole(2))
        right = graph.op("Slice", value, whole(1), whole(TURNED), whole(3), whole(2))
        rest = graph.op("Slice", value, whole(TURNED), whole(SIZE), whole(3))
        cos, sin = turns
        first = graph.op("Sub", graph.op("Mul", left, cos), graph.op("Mul", right, sin))
        second = graph.op("Add", graph.op("Mul", right, cos), graph.op("Mul", left, sin))
        pairs = graph.op("Concat", *(graph.op("Unsqueeze", one, whole(4)) for one in (first, second)), axis=4)
        return graph.op("Concat", graph.reshape(pairs, 1, HEADS, -1, TURNED), rest, axis=3)

    def attention(  # noqa: PLR0917
        self, graph: GraphWriter, place: str, query_of: str, key_of: str, turns: tuple[str, str] | None, mask: str = ""
    ) -> str:
        query, key, value = (
            self.heads(graph, self.product(graph, source, f"{place}/{part}_proj"))
            for part, source in (("q", query_of), ("k", key_of), ("v", key_of))
        )
        if turns is not None:
            query, key = self.turn(graph, query, turns), self.turn(graph, key, turns)
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph.op("Mul", scores, np.full(1, SIZE**-0.5, np.float32))
        if mask:
            scores = graph.op("Add", scores, mask)
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
        joined = graph.reshape(graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), 1, -1, WIDTH)
        return self.product(graph, joined, f"{place}/o_proj")

    def linear(  # noqa: PLR0917
        self, graph: GraphWriter, value: str, place: str, name: str, rows: int, columns: int
    ) -> str:
        made = graph.op("MatMul", value, self.weights(rows, columns))
        bias = graph.constant(self.weights(columns, size=0.1), f"{name}.bias")
        return graph.op("Add", made, bias, name=f"{place}/Add_output_0")

    # -- graphs ------------------------------------------------------------------------------------------------

    def encoder(self) -> Any:
        """`input_values` [1, samples] -> `last_hidden_state`."""
        graph = GraphWriter("encoder")
        sound = graph.op("Unsqueeze", graph.input("input_values", [1, "samples"]), whole(1))
        value = graph.op(
            "Conv", sound, graph.constant(self.weights(WIDTH, 1, 127, size=8), "conv1.weight"), strides=[64]
        )
        value = graph.reshape(graph.op("Tanh", value), 1, 1, -1)
        value = graph.op("InstanceNormalization", value, np.ones(1, np.float32), np.zeros(1, np.float32), epsilon=1e-5)
        value = graph.reshape(value, 1, WIDTH, -1)
        value = graph.op("Mul", value, self.ones(WIDTH, 1), name="/groupnorm/Mul_output_0")
        value = graph.op("Add", value, self.weights(WIDTH, 1), name="/groupnorm/Add_output_0")
        for name, rows, columns, window, step in (("conv2", WIDTH, 2 * WIDTH, 7, 3), ("conv3", 2 * WIDTH, WIDTH, 3, 2)):
            kernel = graph.constant(self.weights(columns, rows, window, size=1.5), f"{name}.weight")
            bias = graph.constant(self.weights(columns), f"{name}.bias")
            value = graph.op("Gelu", graph.op("Conv", value, kernel, bias, strides=[step]))
        value = graph.op("Transpose", value, perm=[0, 2, 1])
        turns = self.turns(graph, value)
        for layer in range(LAYERS):
            place, name = f"/layers.{layer}", f"layers.{layer}"
            normed = self.norm(graph, value, f"{name}.input_layernorm.weight")
            value = graph.op("Add", value, self.attention(graph, f"{place}/self_attn", normed, normed, turns))
            normed = self.norm(graph, value, f"{name}.post_attention_layernorm.weight")
            inner = self.linear(graph, normed, f"{place}/mlp/fc1", f"{name}.mlp.fc1", WIDTH, 4 * WIDTH)
            inner = graph.op("Gelu", inner)
            value = graph.op(
                "Add", value, self.linear(graph, inner, f"{place}/mlp/fc2", f"{name}.mlp.fc2", 4 * WIDTH, WIDTH)
            )
        graph.output("last_hidden_state", self.norm(graph, value, "layer_norm.weight"), [1, "time", WIDTH])
        return graph.model()

    def decoder(self) -> Any:
        """`tokens` [1, length] as floats, and states -> `logits` of all of them: no cache, a causal mask."""
        graph = GraphWriter("decoder")
        graph.input("past_key_values.0.decoder.key", [1, HEADS, 1, SIZE])
        states = graph.input("encoder_hidden_states", [1, "time", WIDTH])
        tokens = graph.op("Cast", graph.input("tokens", [1, "length"]), to=7)
        embed = self.weights(WORDS, WIDTH, size=6)
        value = graph.op("Gather", graph.constant(embed, "model.decoder.embed_tokens.weight"), tokens)
        turns = self.turns(graph, value)
        rows = graph.op("Shape", value, start=1, end=2)
        square = graph.op("Expand", np.full((1, 1), -1e4, np.float32), graph.op("Concat", rows, rows, axis=0))
        mask = graph.op("Trilu", square, np.array(1, np.int64), upper=1)
        for layer in range(LAYERS):
            place, name = f"/model/decoder/layers.{layer}", f"model.decoder.layers.{layer}"
            normed = self.norm(graph, value, f"{name}.input_layernorm.weight")
            value = graph.op("Add", value, self.attention(graph, f"{place}/self_attn", normed, normed, turns, mask))
            normed = self.norm(graph, value, f"{name}.post_attention_layernorm.weight")
            value = graph.op("Add", value, self.attention(graph, f"{place}/encoder_attn", normed, states, None))
            normed = self.norm(graph, value, f"{name}.final_layernorm.weight")
            inner = self.linear(graph, normed, f"{place}/mlp/fc1", f"{name}.mlp.fc1", WIDTH, 8 * WIDTH)
            straight = graph.op("Slice", inner, whole(0), whole(4 * WIDTH), whole(2))
            gate = graph.op("Slice", inner, whole(4 * WIDTH), whole(8 * WIDTH), whole(2))
            inner = graph.op("Mul", straight, graph.op("Mul", gate, graph.op("Sigmoid", gate)))
            value = graph.op(
                "Add", value, self.linear(graph, inner, f"{place}/mlp/fc2", f"{name}.mlp.fc2", 4 * WIDTH, WIDTH)
            )
        value = self.norm(graph, value, "model.decoder.norm.weight")
        logits = graph.op("MatMul", value, np.ascontiguousarray(embed.T))
        graph.output("logits", logits, [1, "length", WORDS])
        return graph.model()
