"""A tiny language model with a vocabulary of bytes and a chat template, as a GGUF file."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from openrknn.llm.tokens.pieces import _BYTES
from tests.llm.tiny import HEADS, HIDDEN, KV_HEADS, LAYERS, NAMES, WIDTH, llama_weights, paired

SIZE = 259
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def write_chat_model(path: Path, *, context: int = 128, template: str | None = TEMPLATE) -> Path:
    """Weights are random: what it says is nonsense, and always the same."""
    weights = llama_weights()
    weights["embedding"] = np.random.default_rng(2).normal(size=(SIZE, WIDTH)).astype(np.float32)
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, number in {
        "block_count": LAYERS, "context_length": context, "embedding_length": WIDTH, "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
    }.items():  # fmt: skip
        writer.add_uint32(f"llama.{key}", number)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    _add_vocabulary(writer)
    if template is not None:
        writer.add_chat_template(template)
    for name, value in weights.items():
        stored = {"embedding": "token_embd", "final_norm": "output_norm"}.get(name, name)
        if name.startswith("layers."):
            _, layer, part = name.split(".")
            stored = f"blk.{layer}.{NAMES[part]}"
        heads = {"q": HEADS, "k": KV_HEADS}.get(name.rpartition(".")[2])
        writer.add_tensor(f"{stored}.weight", np.ascontiguousarray(paired(value, heads)) if heads else value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    signs = {value: sign for sign, value in _BYTES.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*(signs[value] for value in range(256)), "he", "<begin>", "<end>"])
    writer.add_token_types([1] * 257 + [3, 3])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
