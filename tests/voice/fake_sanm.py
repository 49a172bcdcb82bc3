"""Small SenseVoice and Paraformer models of random weights, as exporters write them: names of places, lengths that are
not known before, equal weights once, and sherpa-onnx's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

BANDS, WINDOW, SHIFT, WIDTH, INNER, HEADS, KERNEL, WORDS = 560, 7, 6, 16, 24, 2, 5, 40
TAIL = 0.45
_FLOAT, _INT64, _INT32 = 1, 7, 6
_LANGUAGES = {"auto": 0, "zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12}


class _Export:
    def __init__(self, seed: int) -> None:
        from onnx import helper

        self._node = helper.make_node
        self._random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.numbers: dict[str, Any] = {}

    def number(self, value: Any, kind: Any = np.int64) -> str:
        name = f"onnx::c{len(self.numbers)}"
        self.numbers[name] = np.asarray(value, kind)
        return name

    def weight(self, *shape: int, size: float = 1.0, name: str = "") -> str:
        name = name or f"onnx::w{len(self.numbers)}"
        inner = shape[0] if len(shape) == 2 else int(np.prod(shape[1:])) or 1
        self.numbers[name] = (self._random.standard_normal(shape) * size / np.sqrt(inner)).astype(np.float32)
        return name

    def op(self, kind: str, place: str, *inputs: str, **attributes: Any) -> str:
        name = (
            place if "/" not in place or place.endswith("_output_0") else f"{place}/{kind}_{len(self.nodes)}_output_0"
        )
        self.nodes.append(self._node(kind, list(inputs), [name], **attributes))
        return name

    def norm(self, place: str, value: str, width: int) -> str:
        scale, shift = self.weight(1, width, size=0.2), self.weight(1, width, size=0.2)
        self.numbers[scale] = 1 + self.numbers[scale][0]
        self.numbers[shift] = self.numbers[shift][0]
        return self.op("LayerNormalization", place, value, self.op("Identity", "/id", scale), shift, axis=-1,
                       epsilon=1e-12)  # fmt: skip

    def linear(self, place: str, value: str, taken: int, given: int, *, size: float = 1.0, bias: bool = True) -> str:
        made = self.op("MatMul", place, value, self.weight(taken, given, size=size))
        if not bias:
            return made
        shift = self.weight(1, given, size=0.3, name=f"{place.strip('/').replace('/', '.')}.bias")
        self.numbers[shift] = self.numbers[shift][0]
        return self.op("Add", place, shift, made)

    def heads(self, place: str, value: str, perm: list[int]) -> str:
        parts = self.op("Reshape", place, value, self.number([1, -1, HEADS, WIDTH // HEADS]))
        return self.op("Transpose", place, parts, perm=perm)

    def attention(self, place: str, query: str, key: str, value: str) -> str:
        scaled = self.op("Mul", place, self.heads(place, query, [0, 2, 1, 3]),
                         self.number((WIDTH // HEADS) ** -0.5, np.float32))  # fmt: skip
        scores = self.op("MatMul", place, scaled, self.heads(place, key, [0, 2, 3, 1]))
        mixed = self.op("MatMul", place, self.op("Softmax", place, scores, axis=-1),
                        self.heads(place, value, [0, 2, 1, 3]))  # fmt: skip
        turned = self.op("Transpose", place, mixed, perm=[0, 2, 1, 3])
        return self.linear(f"{place}/linear_out", self.op("Reshape", place, turned, self.number([1, -1, WIDTH])),
                           WIDTH, WIDTH)  # fmt: skip

    def memory(self, place: str, value: str) -> str:
        turned = self.op("Transpose", place, value, perm=[0, 2, 1])
        seen = self.op("Conv", f"{place}/fsmn_block", turned, self.weight(WIDTH, 1, KERNEL, size=0.7), group=WIDTH,
                       pads=[KERNEL // 2] * 2)  # fmt: skip
        return self.op("Add", f"{place}/sum", self.op("Transpose", place, seen, perm=[0, 2, 1]), value)

    def columns(self, place: str, value: str, part: int) -> str:
        ends = (part * WIDTH, (part + 1) * WIDTH)
        return self.op("Slice", place, value, self.number([ends[0]]), self.number([ends[1]]), self.number([2]))

    def layer(self, place: str, value: str, taken: int) -> str:
        own = f"{place}/self_attn"
        both = self.linear(f"{own}/linear_q_k_v", self.norm(f"{place}/norm1", value, taken), taken, 3 * WIDTH)
        query, key, rows = (self.columns(own, both, part) for part in range(3))
        made = self.op("Add", own, self.attention(own, query, key, rows), self.memory(own, rows))
        value = made if taken != WIDTH else self.op("Add", place, value, made)
        inner = self.linear(f"{place}/feed_forward/w_1", self.norm(f"{place}/norm2", value, WIDTH), WIDTH, INNER)
        made = self.linear(f"{place}/feed_forward/w_2", self.op("Relu", f"{place}/ff", inner), INNER, WIDTH)
        return self.op("Add", place, value, made)

    def encoder(self, value: str) -> str:
        scaled = self.op("Mul", "/encoder", value, self.number(WIDTH**0.5, np.float32))
        half = BANDS // 2
        angles = np.arange(1, 301)[:, None] * np.exp(np.arange(half) * (-np.log(10_000) / (half - 1)))
        table = self.number(np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[None], np.float32)
        length = self.op("Slice", "/encoder", self.op("Shape", "/encoder", scaled), self.number([1]), self.number([2]))
        placed = self.op("Slice", "/encoder", table, self.number([0]), length, self.number([1]))
        value = self.layer("/encoder/encoders0/encoders0.0", self.op("Add", "/encoder", scaled, placed), BANDS)
        return self.norm("/encoder/after_norm", self.layer("/encoder/encoders/encoders.0", value, WIDTH), WIDTH)

    def save(self, path: Path, inputs: dict[str, tuple[int, list[Any]]], outputs: list[str], kind: str,
             **facts: object) -> None:  # fmt: skip
        import onnx
        from onnx import helper, numpy_helper

        taken = [helper.make_tensor_value_info(name, *what) for name, what in inputs.items()]
        kinds = {name: _INT32 if name == "token_num" else _FLOAT for name in outputs}
        given = [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs]
        numbers = [numpy_helper.from_array(value, name) for name, value in self.numbers.items()]
        graph = helper.make_graph(self.nodes, "exported", taken, given, numbers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        mean, scale = -self._random.uniform(8, 12, BANDS), self._random.uniform(0.15, 0.25, BANDS)
        lists = {"neg_mean": mean, "inv_stddev": scale}
        words = {key: ",".join(f"{one:.5f}" for one in value) for key, value in lists.items()}
        helper.set_model_props(model, {
            "model_type": kind, "lfr_window_size": str(WINDOW), "lfr_window_shift": str(SHIFT), **words,
            **{key: str(value) for key, value in facts.items()},
        })  # fmt: skip
        onnx.save(model, path)


TAGS = ("<|zh|>", "<|en|>", "<|NEUTRAL|>", "<|HAPPY|>", "<|Speech|>", "<|BGM|>", "<|withitn|>", "<|woitn|>")


def write_sensevoice(folder: Path, seed: int = 1) -> Path:
    """x, x_length, language, text_norm -> logits."""
    folder.mkdir(parents=True, exist_ok=True)
    export = _Export(seed)
    table = export.weight(16, BANDS, size=2.0, name="embed.weight")
    rows = [export.op("Unsqueeze", "/q", export.op("Gather", "/embed", table, name), export.number([1]))
            for name in ("language", "text_norm")]  # fmt: skip
    middle = export.op("Gather", "/embed", table, export.number([[1, 2]]))
    value = export.encoder(export.op("Concat", "/all", rows[0], middle, rows[1], "x", axis=1))
    value = export.norm("/encoder/tp_norm", export.layer("/encoder/tp_encoders.0", value, WIDTH), WIDTH)
    made = export.op("MatMul", "/ctc_lo", value, export.weight(WIDTH, WORDS, size=4.0))
    export.numbers["ctc.ctc_lo.bias"] = np.linspace(-0.2, 0.2, WORDS, dtype=np.float32)
    export.op("Add", "logits", made, "ctc.ctc_lo.bias")
    whole = {name: (_INT32, ["N"]) for name in ("x_length", "language", "text_norm")}
    export.save(folder / "model.onnx", {"x": (_FLOAT, ["N", "T", BANDS]), **whole}, ["logits"], "sense_voice_ctc",
                with_itn=14, without_itn=15, normalize_samples=0, vocab_size=WORDS,
                **{f"lang_{code}": row for code, row in _LANGUAGES.items()})  # fmt: skip
    pieces = ["<unk>", *(f"▁w{at}" if at % 3 else f"字{at}" for at in range(1, WORDS - len(TAGS))), *TAGS]
    return _tokens(folder, pieces)


def write_paraformer(folder: Path, seed: int = 2) -> Path:
    """speech, speech_lengths -> logits, token_num."""
    folder.mkdir(parents=True, exist_ok=True)
    export = _Export(seed)
    states = export.encoder("speech")
    turned = export.op("Transpose", "/predictor", states, perm=[0, 2, 1])
    kernel, bias = export.weight(WIDTH, WIDTH, 3), export.weight(1, WIDTH)
    export.numbers[bias] = export.numbers[bias][0]
    seen = export.op(
        "Relu", "/predictor", export.op("Conv", "/predictor/cif_conv1d", turned, kernel, bias, pads=[1, 1])
    )
    back = export.op("Transpose", "/predictor", seen, perm=[0, 2, 1])
    chances = export.op("Sigmoid", "/predictor", export.linear("/predictor/cif_output", back, WIDTH, 1))
    tail = export.op("Mul", "/predictor", export.number([[[1]]], np.float32), export.number(TAIL, np.float32))
    weights = export.op("Concat", "/predictor", chances, tail, axis=1)
    zero = export.number(np.zeros((1, 1, WIDTH)), np.float32)
    longer = export.op("Concat", "/predictor", states, zero, axis=1)
    total = export.op("CumSum", "/cif", weights, export.number(1))
    flat = [export.op("Transpose", "/cif", one, perm=[0, 2, 1])
            for one in (total, export.op("Sub", "/cif", total, weights))]  # fmt: skip
    count = export.op("Floor", "/cif", export.op("ReduceSum", "/cif", weights, export.number([0, 1, 2]), keepdims=0))
    export.op("Cast", "token_num", export.op("Reshape", "/cif", count, export.number([1])), to=_INT32)
    places = export.op("Range", "/cif", export.number(0, np.float32), count, export.number(1, np.float32))
    first = export.op("Reshape", "/cif", places, export.number([1, -1, 1]))
    later = export.op("Add", "/cif", first, export.number(1, np.float32))
    share = export.op("Sub", "/cif", export.op("Min", "/cif", flat[0], later), export.op("Max", "/cif", flat[1], first))
    value = export.op("MatMul", "/cif", export.op("Relu", "/cif", share), longer)
    value = _decoder(export, value, states)
    export.op("LogSoftmax", "logits", value, axis=-1)
    export.save(folder / "model.onnx", {"speech": (_FLOAT, ["N", "T", BANDS]), "speech_lengths": (_INT32, ["N"])},
                ["logits", "token_num"], "paraformer", vocab_size=WORDS)  # fmt: skip
    pieces = ["<blank>", "<s>", "</s>", *(f"w{at}@@" if at % 3 else f"字{at}" for at in range(3, WORDS))]
    return _tokens(folder, pieces)


def _decoder(export: _Export, value: str, states: str) -> str:
    place = "/decoder/decoders/decoders.0"
    inner = export.norm(f"{place}/norm2", _feed_forward(export, place, value), WIDTH)
    value = export.op("Add", place, value, export.memory(f"{place}/self_attn", inner))
    own = f"{place}/src_attn"
    query = export.linear(f"{own}/linear_q", export.norm(f"{place}/norm3", value, WIDTH), WIDTH, WIDTH)
    both = export.linear(f"{own}/linear_k_v", states, WIDTH, 2 * WIDTH)
    made = export.attention(own, query, export.columns(own, both, 0), export.columns(own, both, 1))
    value = _feed_forward(export, "/decoder/decoders3/decoders3.0", export.op("Add", place, value, made))
    value = export.norm("/decoder/after_norm", value, WIDTH)
    return export.linear("/decoder/output_layer", value, WIDTH, WORDS, size=4.0)


def _feed_forward(export: _Export, place: str, value: str) -> str:
    inner = export.linear(f"{place}/feed_forward/w_1", export.norm(f"{place}/norm1", value, WIDTH), WIDTH, INNER)
    normed = export.norm(f"{place}/feed_forward/norm", export.op("Relu", f"{place}/relu", inner), INNER)
    return export.linear(f"{place}/feed_forward/w_2", normed, INNER, WIDTH, bias=False)


def _tokens(folder: Path, pieces: list[str]) -> Path:
    (folder / "tokens.txt").write_text("".join(f"{piece} {at}\n" for at, piece in enumerate(pieces)), encoding="utf-8")
    return folder
