"""A tiny language model with a vocabulary of bytes and a chat template, as a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

from openrknn.llm.tokens.pieces import _BYTES
from tests.llm.tiny import WIDTH, llama_weights, write_gguf

SIZE = 259
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def write_chat_model(
    path: Path, *, context: int = 128, template: str | None = TEMPLATE, changes: Mapping[str, object] | None = None
) -> Path:
    """Weights are random: what it says is nonsense, and always the same. `changes` are keys of metadata."""
    weights = llama_weights()
    weights["embedding"] = np.random.default_rng(2).normal(size=(SIZE, WIDTH)).astype(np.float32)

    def extend(writer: gguf.GGUFWriter) -> None:
        _add_vocabulary(writer)
        if template is not None:
            writer.add_chat_template(template)

    return write_gguf(path, weights, changes={"context_length": context} | dict(changes or {}), extend=extend)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    signs = {value: sign for sign, value in _BYTES.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*(signs[value] for value in range(256)), "he", "<begin>", "<end>"])
    writer.add_token_types([1] * 257 + [3, 3])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
