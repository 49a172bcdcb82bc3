"""A small streaming transducer of random weights, in the form in which icefall exports them and sherpa-onnx reads them.

The encoder is that of icefall's lstm_transducer_stateless: two convolutions that take every fourth frame, and LSTM
layers whose states are inputs and outputs. The decoder sees the last two tokens, the joiner adds both and gives logits.

With `is_zipformer` the states are those of icefall's zipformer2: keys and values of the frames before, and how many
frames there were, a whole number; and the decoder takes -1 for "no token yet", whose row is zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

BANDS, WIDTH, LAYERS, WORDS, CONTEXT = 80, 32, 2, 24, 2
LENGTH, SHIFT = 9, 4
LEFT, CHUNK = 6, 2
"""Of the zipformer: frames whose keys are kept, and frames that a chunk becomes."""
LONG, FAR = 13, 8
"""Frames of a chunk, and how far the next one begins behind it."""
TOKENS = ("<blk>", "<sos/eos>", "<unk>", *(f"▁w{at}" if at % 2 else f"x{at}" for at in range(3, WORDS)))


_FLOAT, _INT64 = 1, 7


class _Graph:
    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.numbers: dict[str, Any] = {}

    def weight(self, *shape: int, size: float = 1.0) -> str:
        name = f"w{len(self.numbers)}"
        inner = int(np.prod(shape[1:])) if len(shape) > 1 else 4
        self.numbers[name] = np.asarray(self._random.standard_normal(shape) * size / np.sqrt(inner), np.float32)
        return name

    def constant(self, *values: int) -> str:
        name = f"w{len(self.numbers)}"
        self.numbers[name] = np.array(values, np.int64)
        return name

    def scalar(self, value: float, kind: Any = np.int64) -> str:
        name = f"w{len(self.numbers)}"
        self.numbers[name] = np.array(value, kind)
        return name

    def node(self, kind: str, *inputs: str, to: str = "", to_type: int = 0, **attributes: Any) -> str:
        from onnx import helper

        if to_type:
            attributes["to"] = to_type
        name = to or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def save(self, path: Path, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]], **facts: object) -> None:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        def info(ports: dict[str, list[Any]]) -> list[Any]:
            whole = ("y", "processed_lens", "new_processed_lens")
            kinds = {name: TensorProto.INT64 if name in whole else TensorProto.FLOAT for name in ports}
            return [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in ports.items()]

        numbers = [numpy_helper.from_array(value, name) for name, value in self.numbers.items()]
        graph = helper.make_graph(self.nodes, path.stem, info(inputs), info(outputs), numbers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        helper.set_model_props(model, {key: str(value) for key, value in facts.items()})
        onnx.checker.check_model(model)
        onnx.save(model, path)


def write_transducer(folder: Path, seed: int = 3, *, is_zipformer: bool = False) -> Path:
    """Encoder, decoder, joiner and tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (_zipformer if is_zipformer else _encoder)(_Graph(seed), folder / "encoder-epoch-9-avg-1.onnx")
    graph = _Graph(seed + 1)
    if is_zipformer:
        whole, zero = graph.node("Cast", "y", to_type=_INT64), graph.scalar(0)
        rows = graph.node("Gather", graph.weight(WORDS, WIDTH, size=4.0), graph.node("Clip", whole, zero))
        known = graph.node("Unsqueeze", graph.node("GreaterOrEqual", whole, zero), graph.constant(-1))
        rows = graph.node("Mul", rows, graph.node("Cast", known, to_type=_FLOAT))
    else:
        rows = graph.node("Gather", graph.weight(WORDS, WIDTH, size=4.0), "y")
    turned = graph.node("Transpose", rows, perm=[0, 2, 1])
    met = graph.node("Conv", turned, graph.weight(WIDTH, 1, CONTEXT), group=WIDTH)
    flat = graph.node("Squeeze", met, graph.constant(2))
    graph.node("Gemm", graph.node("Relu", flat), graph.weight(WIDTH, WIDTH), graph.weight(WIDTH), to="decoder_out",
               transB=1)  # fmt: skip
    graph.save(folder / "decoder-epoch-9-avg-1.onnx", {"y": ["N", CONTEXT]}, {"decoder_out": ["N", WIDTH]},
               context_size=CONTEXT, vocab_size=WORDS)  # fmt: skip
    graph = _Graph(seed + 2)
    both = graph.node("Tanh", graph.node("Add", "encoder_out", "decoder_out"))
    graph.node("Gemm", both, graph.weight(WORDS, WIDTH, size=3.0), graph.weight(WORDS), to="logit", transB=1)
    graph.save(folder / "joiner-epoch-9-avg-1.onnx", {"encoder_out": ["N", WIDTH], "decoder_out": ["N", WIDTH]},
               {"logit": ["N", WORDS]}, joiner_dim=WIDTH)  # fmt: skip
    (folder / "tokens.txt").write_text("".join(f"{token} {at}\n" for at, token in enumerate(TOKENS)))
    return folder


def _subsampled(graph: _Graph) -> str:
    """[frames, 1, WIDTH]: every fourth frame."""
    picture = graph.node("Unsqueeze", "x", graph.constant(1))
    for channels, before in ((4, 1), (8, 4)):
        weight, bias = graph.weight(channels, before, 3, 3, size=1.5), graph.weight(channels, size=0.1)
        picture = graph.node("Relu", graph.node("Conv", picture, weight, bias, strides=[2, 2]))
    turned = graph.node("Transpose", picture, perm=[2, 0, 1, 3])
    width = 8 * (((BANDS - 3) // 2 + 1 - 3) // 2 + 1)
    flat = graph.node("Reshape", turned, graph.constant(-1, 1, width))
    return graph.node("MatMul", flat, graph.weight(width, WIDTH, size=3.0))


def _zipformer(graph: _Graph, path: Path) -> None:
    """One layer of attention to the frames of this chunk and of those before it, as far as there were any."""
    value = _subsampled(graph)
    kept = {}
    for name in ("cached_key_0", "cached_val1_0"):
        new = graph.node("MatMul", value, graph.weight(WIDTH, WIDTH))
        kept[name] = graph.node("Concat", name, new, axis=0)
        graph.node("Slice", kept[name], graph.constant(CHUNK), graph.constant(LEFT + CHUNK), graph.constant(0),
                   to=f"new_{name}")  # fmt: skip
    query = graph.node("Transpose", graph.node("MatMul", value, graph.weight(WIDTH, WIDTH, size=0.01)), perm=[1, 0, 2])
    keys = graph.node("Transpose", kept["cached_key_0"], perm=[1, 2, 0])
    scores = graph.node("MatMul", query, keys)
    graph.node("Add", "processed_lens", graph.constant(CHUNK), to="new_processed_lens")
    age = graph.constant(*range(LEFT - 1, -1, -1))  # the first of the kept frames is the oldest
    missing = graph.node("LessOrEqual", graph.node("Unsqueeze", "processed_lens", graph.constant(1)), age)
    graph.numbers["none_missing"] = np.zeros((1, CHUNK), np.bool_)
    mask = graph.node("Unsqueeze", graph.node("Concat", missing, "none_missing", axis=1), graph.constant(1))
    weights = graph.node("Softmax", graph.node("Where", mask, graph.scalar(-1000, np.float32), scores), axis=2)
    heard = graph.node("MatMul", weights, graph.node("Transpose", kept["cached_val1_0"], perm=[1, 0, 2]))
    graph.node("Add", heard, graph.node("Transpose", value, perm=[1, 0, 2]), to="encoder_out")
    states: dict[str, list[Any]] = {name: [LEFT, "N", WIDTH] for name in kept}
    states["processed_lens"] = ["N"]
    graph.save(
        path, {"x": ["N", LONG, BANDS], **states},
        {"encoder_out": ["N", "T", WIDTH], **{f"new_{name}": shape for name, shape in states.items()}},
        model_type="zipformer2", T=LONG, decode_chunk_len=FAR, num_encoder_layers="1", encoder_dims=str(WIDTH),
        cnn_module_kernels="3", left_context_len=str(LEFT), query_head_dims=str(WIDTH), value_head_dims=str(WIDTH),
        num_heads="1",
    )  # fmt: skip


def _encoder(graph: _Graph, path: Path) -> None:
    value = _subsampled(graph)
    hidden, cells = [], []
    for layer in range(LAYERS):
        index = graph.constant(layer)
        h, c = graph.node("Gather", "h", index, axis=0), graph.node("Gather", "c", index, axis=0)
        after, new_h, new_c = f"y{layer}", f"h{layer}", f"c{layer}"
        weights = (graph.weight(1, 4 * WIDTH, WIDTH), graph.weight(1, 4 * WIDTH, WIDTH, size=2.0),
                   graph.weight(1, 8 * WIDTH, size=3.0))  # fmt: skip
        from onnx import helper

        graph.nodes.append(
            helper.make_node("LSTM", [value, *weights, "", h, c], [after, new_h, new_c], hidden_size=WIDTH)
        )
        value = graph.node("Add", graph.node("Squeeze", after, graph.constant(1)), value)
        hidden.append(new_h)
        cells.append(new_c)
    graph.node("Concat", *hidden, to="new_h", axis=0)
    graph.node("Concat", *cells, to="new_c", axis=0)
    graph.node("Transpose", value, to="encoder_out", perm=[1, 0, 2])
    states = {"h": [LAYERS, 1, WIDTH], "c": [LAYERS, 1, WIDTH]}
    graph.save(
        path, {"x": [1, LENGTH, BANDS], **states},
        {"encoder_out": [1, "T", WIDTH], "new_h": [LAYERS, 1, WIDTH], "new_c": [LAYERS, 1, WIDTH]},
        model_type="lstm", T=LENGTH, decode_chunk_len=SHIFT, num_encoder_layers=LAYERS, rnn_hidden_size=WIDTH,
        d_model=WIDTH,
    )  # fmt: skip
