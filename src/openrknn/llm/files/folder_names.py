"""Names of tensors in Hugging Face folders, family by family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openrknn.llm.config import LanguageConfig
from openrknn.llm.files.families import Family
from openrknn.llm.files.source import Gatherer
from openrknn.llm.files.types import StoredTensor

ENCODERS = ("bert", "nomic-bert")
IGNORED = (
    "pooler.", "bert.pooler.", "cls.", "position_ids", "rotary_emb.inv_freq", "lm_head.weight", "vision_tower.",
    "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.",
)  # fmt: skip
"""Poolers and heads for training, constants, a copy of the tied head, and the part of Gemma 3 that sees pictures."""


@dataclass(frozen=True)
class FolderNames:
    """Where each canonical weight is; `layer` has {} for the number of the layer."""

    embedding: str
    head: str
    top: Mapping[str, str]
    layer: str
    parts: Mapping[str, str]
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tensors that hold several weights one below the other."""

    def gather(self, table: Gatherer, config: LanguageConfig, family: Family) -> None:
        """All weights of the model."""
        width = config.width
        table.take("embedding", self.embedding, (config.vocabulary, width))
        if config.rope is None:
            table.take("positions", self.top["positions"], (config.context, width))
        if config.norm_first:
            self._norm(table, config, family, ("final_norm", self.top["final_norm"], width))
            if not config.tied_head:
                table.take("head", self.head, (config.vocabulary, width))
        else:
            types = table.tensors.get(self.top["types"])
            if types is not None:
                table.take("types", self.top["types"], (types.shape[0], width))
            self._norm(table, config, family, ("embedding_norm", self.top["embedding_norm"], width))
        for layer in range(config.layers):
            self._layer(table, config, family, layer)

    def _layer(self, table: Gatherer, config: LanguageConfig, family: Family, layer: int) -> None:
        prefix, stored = f"layers.{layer}.", self.layer.format(layer)
        norms = {"attention_norm": config.width, "ffn_norm": config.width}
        if config.post_norms:
            norms |= {"attention_post_norm": config.width, "ffn_post_norm": config.width}
        if config.query_key_norm:
            norms |= {"q_norm": config.head_size, "k_norm": config.head_size}
        for name, size in norms.items():
            self._norm(table, config, family, (prefix + name, stored + self.parts[name], size))
        queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
        shapes = {
            "q": (queries, config.width), "k": (keys, config.width), "v": (keys, config.width),
            "o": (config.width, queries), "up": (config.hidden, config.width), "down": (config.width, config.hidden),
        } | ({"gate": (config.hidden, config.width)} if config.gated else {})  # fmt: skip
        for tensor, parts in self.fused.items():
            rows = [(prefix + part, shapes[part][0], 0) for part in parts]
            table.cut(f"{stored}{tensor}.weight", rows, shapes[parts[0]][1:])
            if set(parts) <= family.biases:
                biases = [(f"{name}.bias", count, 0) for name, count, _ in rows]
                table.cut(f"{stored}{tensor}.bias", biases, (), optional=True)
        for part, shape in shapes.items():
            if part in self.parts:
                table.take(prefix + part, f"{stored}{self.parts[part]}.weight", shape)
                if part in family.biases:
                    bias = [(f"{prefix}{part}.bias", shape[0], 0)]
                    table.cut(f"{stored}{self.parts[part]}.bias", bias, (), optional=True)

    def _norm(self, table: Gatherer, config: LanguageConfig, family: Family, place: tuple[str, str, int]) -> None:
        canonical, name, size = place
        table.take(canonical, f"{name}.weight", (size,), added=1.0 if family.norms_store_one_less else 0.0)
        if config.norm == "layer":
            table.take(f"{canonical}.bias", f"{name}.bias", (size,))


def folder_names(family: Family, tensors: Mapping[str, StoredTensor]) -> FolderNames:
    """The names of this family; a prefix is what comes before the embedding."""
    if family.name == "bert":
        prefix = "bert." if "bert.embeddings.word_embeddings.weight" in tensors else ""
        return _bert(prefix)
    if family.name == "nomic-bert":
        return _nomic()
    prefixes = ("model.", "", "language_model.model.", "model.language_model.")
    prefix = next((prefix for prefix in prefixes if f"{prefix}embed_tokens.weight" in tensors), "model.")
    head = "language_model.lm_head.weight" if prefix == "language_model.model." else "lm_head.weight"
    parts = {
        "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "q": "self_attn.q_proj",
        "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj", "q_norm": "self_attn.q_norm",
        "k_norm": "self_attn.k_norm", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
    }  # fmt: skip
    if family.post_norms:
        parts |= {
            "attention_post_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
            "ffn_post_norm": "post_feedforward_layernorm",
        }  # fmt: skip
    fused: dict[str, tuple[str, ...]] = {}
    if "qkv" in family.fused:
        fused["self_attn.qkv_proj"] = ("q", "k", "v")
    if "gate_up" in family.fused:
        fused["mlp.gate_up_proj"] = ("gate", "up")
    apart = {name: place for name, place in parts.items() if not any(name in inside for inside in fused.values())}
    top = {"final_norm": f"{prefix}norm"}
    return FolderNames(f"{prefix}embed_tokens.weight", head, top, f"{prefix}layers.{{}}.", apart, fused)


def _bert(prefix: str) -> FolderNames:
    top = {
        "positions": f"{prefix}embeddings.position_embeddings.weight",
        "embedding_norm": f"{prefix}embeddings.LayerNorm",
        "types": f"{prefix}embeddings.token_type_embeddings.weight",
    }  # fmt: skip
    parts = {
        "attention_norm": "attention.output.LayerNorm", "ffn_norm": "output.LayerNorm", "q": "attention.self.query",
        "k": "attention.self.key", "v": "attention.self.value", "o": "attention.output.dense",
        "up": "intermediate.dense", "down": "output.dense",
    }  # fmt: skip
    return FolderNames(f"{prefix}embeddings.word_embeddings.weight", "", top, f"{prefix}encoder.layer.{{}}.", parts)


def _nomic() -> FolderNames:
    top = {"embedding_norm": "emb_ln", "types": "embeddings.token_type_embeddings.weight"}
    parts = {
        "attention_norm": "norm1", "ffn_norm": "norm2", "o": "attn.out_proj", "up": "mlp.fc11", "gate": "mlp.fc12",
        "down": "mlp.fc2",
    }  # fmt: skip
    fused = {"attn.Wqkv": ("q", "k", "v")}
    return FolderNames("embeddings.word_embeddings.weight", "", top, "encoder.layers.{}.", parts, fused)
