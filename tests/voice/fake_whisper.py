"""A Whisper with random weights: one second a window, two small layers on each side, in the formats of its users."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.make.whisper.checkpoint import Checkpoint
from openrknn.voice.make.whisper.names import openai_name
from openrknn.voice.whisper.vocabulary import special_names

Array = npt.NDArray[np.float32]
WIDTH, HEADS, LAYERS, STATES, CONTEXT, MELS = 32, 2, 2, 50, 48, 80
MERGES = (b"th", b"he", b" t", b" th", b" the", b"in", b"er", b" a")
SHARE = 8
"""Languages of the model."""
TEXT = (*(bytes([one]) for one in range(256)), *MERGES)
PIECES = (*TEXT, *special_names(SHARE))
WORDS = len(PIECES)
ALIGNMENT = ((1, 0), (1, 1))


def arrays(seed: int = 5) -> dict[str, Array]:
    """By OpenAI's names."""
    random = np.random.default_rng(seed)

    def some(*shape: int, size: float = 1.0) -> Array:
        return np.asarray(random.normal(0, size, shape), np.float16).astype(np.float32)

    made = {
        "encoder.conv1.weight": some(WIDTH, MELS, 3, size=0.06), "encoder.conv1.bias": some(WIDTH, size=0.1),
        "encoder.conv2.weight": some(WIDTH, WIDTH, 3, size=0.1), "encoder.conv2.bias": some(WIDTH, size=0.1),
        "encoder.positional_embedding": some(STATES, WIDTH, size=0.3),
        "decoder.positional_embedding": some(CONTEXT, WIDTH, size=0.3),
        "decoder.token_embedding.weight": some(WORDS, WIDTH, size=0.3),
        "encoder.ln_post.weight": 1 + some(WIDTH, size=0.1), "encoder.ln_post.bias": some(WIDTH, size=0.1),
        "decoder.ln.weight": 1 + some(WIDTH, size=0.1), "decoder.ln.bias": some(WIDTH, size=0.1),
    }  # fmt: skip
    for side in ("encoder", "decoder"):
        for layer in range(LAYERS):
            before = f"{side}.blocks.{layer}."
            for kind in ("attn",) if side == "encoder" else ("attn", "cross_attn"):
                for part in ("query", "key", "value", "out"):
                    made[f"{before}{kind}.{part}.weight"] = some(WIDTH, WIDTH, size=0.3)
                    if part != "key":
                        made[f"{before}{kind}.{part}.bias"] = some(WIDTH, size=0.1)
                made |= {f"{before}{kind}_ln.weight": 1 + some(WIDTH, size=0.1), f"{before}{kind}_ln.bias": some(WIDTH)}
            made |= {f"{before}mlp_ln.weight": 1 + some(WIDTH, size=0.1), f"{before}mlp_ln.bias": some(WIDTH, size=0.1)}
            made |= {f"{before}mlp.0.weight": some(4 * WIDTH, WIDTH, size=0.2), f"{before}mlp.0.bias": some(4 * WIDTH)}
            made |= {f"{before}mlp.2.weight": some(WIDTH, 4 * WIDTH, size=0.1), f"{before}mlp.2.bias": some(WIDTH)}
    return {name: np.asarray(one, np.float16).astype(np.float32) for name, one in made.items()}


def checkpoint() -> Checkpoint:
    return Checkpoint(arrays(), "fake", PIECES[: len(TEXT)], heads=(HEADS, HEADS)).checked()


# -- files ----------------------------------------------------------------------------------------------------------


def ggml(weights: Mapping[str, Array]) -> bytes:
    sizes = (WORDS, STATES, WIDTH, HEADS, LAYERS, CONTEXT, WIDTH, HEADS, LAYERS, MELS, 1)
    out = [b"lmgg", struct.pack("<11i", *sizes), struct.pack("<2i", MELS, 201), bytes(4 * MELS * 201)]
    out.append(struct.pack("<i", len(TEXT)))
    out += [struct.pack("<i", len(piece)) + piece for piece in TEXT]
    for name, array in weights.items():
        stored = array[:, None] if ".conv" in name and name.endswith("bias") else array
        half = array.ndim == 2 and "embedding" not in name
        shape = struct.pack(f"<{stored.ndim}i", *reversed(stored.shape))
        out.append(struct.pack("<3i", stored.ndim, len(name), int(half)) + shape + name.encode())
        out.append(stored.astype(np.float16 if half else np.float32).tobytes())
    return b"".join(out)


def hugging_names(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The other way round than the reader: by trying all names that it knows."""
    parts = [f"self_attn.{one}_proj" for one in ("q", "k", "v", "out")]
    parts += [f"encoder_attn.{one}_proj" for one in ("q", "k", "v", "out")]
    parts += ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm", "fc1", "fc2"]
    names = [f"model.{side}.layers.{layer}.{part}" for side in ("encoder", "decoder") for layer in range(LAYERS)
             for part in parts]  # fmt: skip
    names += [f"model.{side}.layer_norm" for side in ("encoder", "decoder")]
    names += ["model.encoder.conv1", "model.encoder.conv2"]
    names = [f"{name}.{end}" for name in names for end in ("weight", "bias")]
    names += [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    names += ["model.decoder.embed_tokens.weight"]
    return {name: weights[new] for name in names if (new := openai_name(name)) in weights}


def safetensors(weights: Mapping[str, Array], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table: dict[str, Any] = {}
    body = b""
    for name, array in hugging_names(weights).items():
        data = array.astype(np.float16).tobytes()
        table[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(table).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + body)
    sizes = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper", **sizes}))
    (folder / "generation_config.json").write_text(json.dumps({"alignment_heads": [list(pair) for pair in ALIGNMENT]}))
    (folder / "vocab.json").write_text(json.dumps({_shown(piece): number for number, piece in enumerate(TEXT)}))
    return folder


def _shown(piece: bytes) -> str:
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [one for one in range(256) if one not in plain]
    return "".join(chr(one) if one in plain else chr(256 + others.index(one)) for one in piece)


def ctranslate(weights: Mapping[str, Array], *, integers: bool = False) -> bytes:
    made: dict[str, npt.NDArray[Any]] = {"encoder/num_heads": np.array(HEADS, np.int8)}
    made["decoder/num_heads"] = np.array(HEADS, np.int8)
    for side in ("encoder", "decoder"):
        made[f"{side}/position_encodings/encodings"] = weights[f"{side}.positional_embedding"]
        norm = "ln_post" if side == "encoder" else "ln"
        _norm(made, f"{side}/layer_norm", weights, f"{side}.{norm}")
        for layer in range(LAYERS):
            for kind, block in (("self_attention", "attn"), ("attention", "cross_attn"), ("ffn", "mlp")):
                before, place = f"{side}.blocks.{layer}.{block}", f"{side}/layer_{layer}/{kind}"
                if f"{before}_ln.weight" not in weights:
                    continue
                _norm(made, f"{place}/layer_norm", weights, f"{before}_ln")
                rows = {"attn": ("query key value", "out"), "cross_attn": ("query", "key value", "out"),
                        "mlp": ("0", "2")}[block]  # fmt: skip
                for number, names in enumerate(rows):
                    for end in ("weight", "bias"):
                        parts = [weights.get(f"{before}.{name}.{end}", np.zeros(WIDTH, np.float32))
                                 for name in names.split()]  # fmt: skip
                        made[f"{place}/linear_{number}/{end}"] = np.concatenate(parts)
    made["decoder/embeddings/weight"] = weights["decoder.token_embedding.weight"]
    for number in (1, 2):
        for end in ("weight", "bias"):
            made[f"encoder/conv{number}/{end}"] = weights[f"encoder.conv{number}.{end}"]
    if integers:
        name = "encoder/layer_0/ffn/linear_0/weight"
        scale = 127 / np.abs(made[name]).max(axis=1)
        made[name] = np.rint(made[name] * scale[:, None]).astype(np.int8)
        made[f"{name}_scale"] = scale.astype(np.float32)
    out = [struct.pack("<I", 6), _text("WhisperSpec"), struct.pack("<II", 3, len(made))]
    kinds = {"float32": 0, "int8": 1, "float16": 4}
    for name, array in made.items():
        half = array.astype(np.float16) if array.dtype == np.float32 and "scale" not in name else array
        out.append(_text(name) + struct.pack("<B", half.ndim) + struct.pack(f"<{half.ndim}I", *half.shape))
        out.append(struct.pack("<BI", kinds[half.dtype.name], half.nbytes) + half.tobytes())
    return b"".join(out) + struct.pack("<I", 0)


def _norm(made: dict[str, npt.NDArray[Any]], place: str, weights: Mapping[str, Array], name: str) -> None:
    made[f"{place}/gamma"], made[f"{place}/beta"] = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def _rebuild(*_: Any) -> None:
    """Stands for torch._utils._rebuild_tensor_v2."""


class _Writer(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        """A storage of half floats."""
        return ("storage", np.float16, obj.key, "cpu", obj.count) if isinstance(obj, _Place) else None


class _Place:
    def __init__(self, key: str, count: int) -> None:
        self.key, self.count = key, count


def openai(weights: Mapping[str, Array], path: Path) -> Path:
    """`dims` and `model_state_dict`, as torch.save writes them; one tensor is stored turned."""
    state, bodies = {}, {}
    for number, (name, array) in enumerate(weights.items()):
        turned = name == "decoder.blocks.0.mlp.0.weight"
        half = np.ascontiguousarray(array.T if turned else array, np.float16)
        bodies[str(number)] = half.tobytes()
        steps = tuple(int(np.prod(array.shape[at + 1 :])) for at in range(array.ndim))
        state[name] = _Call((_Place(str(number), half.size), 0, array.shape, (1, array.shape[0]) if turned else steps,
                             False, OrderedDict()))  # fmt: skip
    tree = {"dims": {"n_audio_head": HEADS, "n_text_head": HEADS}, "model_state_dict": state}
    out = io.BytesIO()
    _Writer(out, 2).dump(tree)
    with zipfile.ZipFile(path, "w") as archive:
        body = out.getvalue().replace(f"c{__name__}\n_rebuild\n".encode(), b"ctorch._utils\n_rebuild_tensor_v2\n")
        archive.writestr("tiny/data.pkl", body.replace(b"cnumpy\nfloat16\n", b"ctorch\nHalfStorage\n"))
        for key, part in bodies.items():
            archive.writestr(f"tiny/data/{key}", part)
    (path.parent / "vocab.json").write_text(json.dumps({_shown(piece): number for number, piece in enumerate(TEXT)}))
    return path


class _Call:
    def __init__(self, given: tuple[Any, ...]) -> None:
        self.given = given

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self.given


# -- the model in NumPy ------------------------------------------------------------------------------------------------


class Reference:
    """Whisper's equations in float64, all tokens at once."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = {name: array.astype(np.float64) for name, array in weights.items()}

    def _norm(self, value: Any, name: str) -> Any:
        value = value - value.mean(-1, keepdims=True)
        value = value / np.sqrt((value**2).mean(-1, keepdims=True) + 1e-5)
        return value * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _linear(self, value: Any, name: str) -> Any:
        return value @ self._weights[f"{name}.weight"].T + self._weights.get(f"{name}.bias", 0)

    def _attention(self, value: Any, other: Any, name: str, *, causal: bool = False) -> Any:
        size = WIDTH // HEADS
        query, key, kept = (
            self._linear(given, f"{name}.{part}").reshape(len(given), HEADS, size).transpose(1, 0, 2)
            for given, part in ((value, "query"), (other, "key"), (other, "value"))
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(size)
        if causal:
            scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ kept
        return self._linear(mixed.transpose(1, 0, 2).reshape(len(value), WIDTH), f"{name}.out")

    def _block(self, value: Any, side: str, layer: int, states: Any = None) -> Any:
        name = f"{side}.blocks.{layer}"
        normed = self._norm(value, f"{name}.attn_ln")
        value = value + self._attention(normed, normed, f"{name}.attn", causal=states is not None)
        if states is not None:
            value = value + self._attention(self._norm(value, f"{name}.cross_attn_ln"), states, f"{name}.cross_attn")
        inner = _gelu(self._linear(self._norm(value, f"{name}.mlp_ln"), f"{name}.mlp.0"))
        return value + self._linear(inner, f"{name}.mlp.2")

    def encode(self, mel: Array) -> Any:
        value = mel.astype(np.float64)
        for name, stride in (("conv1", 1), ("conv2", 2)):
            filled = np.pad(value, ((0, 0), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(filled, 3, axis=1)[:, ::stride]
            value = np.einsum("ock,cfk->of", self._weights[f"encoder.{name}.weight"], windows)
            value = _gelu(value + self._weights[f"encoder.{name}.bias"][:, None])
        value = value.T + self._weights["encoder.positional_embedding"]
        for layer in range(LAYERS):
            value = self._block(value, "encoder", layer)
        return self._norm(value, "encoder.ln_post")

    def logits(self, mel: Array, tokens: list[int]) -> Any:
        states, rows = self.encode(mel), self._weights["decoder.token_embedding.weight"]
        value = rows[tokens] + self._weights["decoder.positional_embedding"][: len(tokens)]
        for layer in range(LAYERS):
            value = self._block(value, "decoder", layer, states)
        return self._norm(value, "decoder.ln") @ rows.T


def _gelu(value: Any) -> Any:
    from math import erf

    return value * 0.5 * (1 + np.vectorize(erf)(value / np.sqrt(2)))
