"""Tiny language models in files, made here: random weights under canonical names, written as llama.cpp would."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.llm.weights import Floats

WIDTH, HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, LAYERS, VOCABULARY = 64, 4, 2, 16, 96, 2, 40
NAMES = {
    "attention_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v",
    "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip
SHAPES = {
    "attention_norm": (WIDTH,), "ffn_norm": (WIDTH,), "q": (HEADS * HEAD_SIZE, WIDTH),
    "k": (KV_HEADS * HEAD_SIZE, WIDTH), "v": (KV_HEADS * HEAD_SIZE, WIDTH), "o": (WIDTH, HEADS * HEAD_SIZE),
    "gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN),
}  # fmt: skip


def llama_weights(seed: int = 1) -> dict[str, Floats]:
    """Canonical weights of a model with a tied head."""
    random = np.random.default_rng(seed)
    weights = {"embedding": random.normal(size=(VOCABULARY, WIDTH)), "final_norm": random.normal(size=WIDTH)}
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            weights[f"layers.{layer}.{name}"] = random.normal(size=shape) * 0.2
    return {name: value.astype(np.float32) for name, value in weights.items()}


def paired(rows: Floats, heads: int) -> Floats:
    """Rows of q or k as GGUF files of Llama have them."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(
    path: Path,
    weights: dict[str, Floats],
    *,
    kind: str = "F32",
    changes: dict[str, Any] | None = None,
    extend: Callable[[Any], None] = lambda writer: None,
) -> Path:
    """A Llama; `kind` is the format of its matrices, `changes` are keys of metadata (None: leave out).

    `extend` is given the `GGUFWriter`, for what the file has besides.
    """
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    said: dict[str, Any] = {
        "block_count": LAYERS, "context_length": 32, "embedding_length": WIDTH, "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
    } | (changes or {})  # fmt: skip
    for key, value in said.items():
        if isinstance(value, float):
            writer.add_float32(f"llama.{key}", value)
        elif isinstance(value, list):
            writer.add_array(f"llama.{key}", value)
        elif value is not None:
            writer.add_uint32(f"llama.{key}", value)
    extend(writer)
    for name, value in weights.items():
        stored = {"embedding": "token_embd", "final_norm": "output_norm", "head": "output"}.get(name, name)
        if name.startswith("layers."):
            _, layer, part = name.split(".")
            stored = f"blk.{layer}.{NAMES[part]}"
        heads = {"q": HEADS, "k": KV_HEADS}.get(name.rpartition(".")[2])
        ordered = np.ascontiguousarray(paired(value, heads)) if heads else value
        quantisation = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
        data = gguf.quants.quantize(ordered, quantisation)
        writer.add_tensor(f"{stored}.weight", data, raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def stored_weight(name: str, shape: tuple[int, ...]) -> Floats:
    """Numbers that follow from the name: `RandomState` gives the same ones for ever."""
    numbers = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape) * 0.3
    return (numbers + (0.5 if len(shape) == 1 else 0.0)).astype(np.float32)


def write_safetensors(path: Path, tensors: Mapping[str, Floats]) -> Path:
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(value.tobytes() for value in tensors.values()))
    return path


def write_folder(folder: Path, golden: Mapping[str, Any]) -> Path:
    """The model of a golden (tools/make_llm_goldens.py), as transformers would save it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(golden["config"]))
    weights = {name: stored_weight(name, tuple(shape)) for name, shape in golden["shapes"].items()}
    write_safetensors(folder / "model.safetensors", weights)
    return folder
