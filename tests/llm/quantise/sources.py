"""Tiny models in memory, with everything that a config can ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from openrknn.llm.config import LanguageConfig, Rope
from openrknn.llm.weights import Floats

TINY: dict[str, Any] = {
    "architecture": "llama", "vocabulary": 96, "width": 48, "layers": 2, "heads": 4, "kv_heads": 2, "head_size": 16,
    "hidden": 72, "context": 64, "rope": Rope(10000.0, 16), "tied_head": True,
}  # fmt: skip


class MemorySource:
    """Random weights; some channels of the stream are large, as those of trained models are."""

    def __init__(self, *, biases: bool = False, seed: int = 0, **changes: Any) -> None:
        self.config = LanguageConfig(**(TINY | changes))
        config, random = self.config, np.random.default_rng(seed)
        heads, kv = config.heads * config.head_size, config.kv_heads * config.head_size
        self.weights: dict[str, Floats] = {}

        def put(name: str, *shape: int, scale: float = 0.0, mean: float = 0.0) -> None:
            drawn = random.normal(size=shape) * (scale or 1 / np.sqrt(shape[-1])) + mean
            self.weights[name] = drawn.astype(np.float32)

        put("embedding", config.vocabulary, config.width, scale=1.0)
        self.weights["embedding"][:, 5] *= 20
        put("final_norm", config.width, scale=0.3, mean=1.0)
        if config.rope is None:
            put("positions", config.context, config.width, scale=0.5)
            put("types", 2, config.width, scale=0.5)
        if not config.causal:
            put("embedding_norm", config.width, scale=0.3, mean=1.0)
            put("embedding_norm.bias", config.width, scale=0.3)
        if not config.tied_head:
            put("head", config.vocabulary, config.width)
        shapes = {
            "q": (heads, config.width), "k": (kv, config.width), "v": (kv, config.width), "o": (config.width, heads),
            "gate": (config.hidden, config.width), "up": (config.hidden, config.width),
            "down": (config.width, config.hidden),
        }  # fmt: skip
        if not config.gated:
            del shapes["gate"]
        norms = ["attention_norm", "ffn_norm", *(["attention_post_norm", "ffn_post_norm"] * config.post_norms)]
        for layer in range(config.layers):
            for kind, shape in shapes.items():
                put(f"layers.{layer}.{kind}", *shape)
                if biases:
                    put(f"layers.{layer}.{kind}.bias", shape[0], scale=0.5)
            for norm in norms:
                put(f"layers.{layer}.{norm}", config.width, scale=0.3, mean=1.0)
                if config.norm == "layer":
                    put(f"layers.{layer}.{norm}.bias", config.width, scale=0.3)
            if config.query_key_norm:
                for norm in ("q_norm", "k_norm"):
                    put(f"layers.{layer}.{norm}", config.head_size, scale=0.3, mean=1.0)

    def names(self) -> Iterable[str]:
        return self.weights.keys()

    def get(self, name: str) -> Floats:
        return self.weights[name]

    def rows(self, name: str, first: int, count: int) -> Floats:
        return self.weights[name][first : first + count]
