"""A GGUF file as a language model: its metadata as a `LanguageConfig`, its tensors under canonical names."""

from __future__ import annotations

import numpy as np

from openrknn.errors import BadTextError
from openrknn.llm.config import LanguageConfig, Pooling, Rope
from openrknn.llm.errors import MissingTensorError, NotWeightsError, UnsupportedArchitectureError
from openrknn.llm.files import ropes
from openrknn.llm.files.build import build_config
from openrknn.llm.files.families import Family, gguf_family
from openrknn.llm.files.fields import Fields
from openrknn.llm.files.gguf import GgufFile
from openrknn.llm.files.source import MOST_LAYERS, FileSource, Gatherer

_POOLINGS: dict[int, Pooling] = {0: "none", 1: "mean", 2: "cls", 3: "last"}
_WIDE_SCORES = {("gemma2", 46), ("gemma3", 62)}
"""The 27B models divide scores by sqrt(width / heads); their files do not have this value."""
_IGNORED = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "cls.weight", "cls.bias")
"""Rotary divisors are in the configuration; `cls` is a pooler that embeddings do not use."""


def open_gguf(file: GgufFile, context: int | None = None) -> FileSource:
    """Checks the whole description; reads no weight but rotary divisors."""
    kind = file.metadata.get("general.type", "model")
    if kind != "model":
        raise UnsupportedArchitectureError(f"{file.path.name} holds no model but {str(kind)[:40]!r}")
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise BadTextError("general.architecture is missing or no text", section="metadata")
    family = gguf_family(name)
    if not file.tensors:
        raise NotWeightsError(f"{file.path.name} has a vocabulary and no weights")
    config = _config(file, family, Fields(file.metadata, "metadata", name + "."), context)
    gatherer = Gatherer(file.tensors)
    _Tables(gatherer, config, family).gather()
    return FileSource(file.path, config, gatherer.finish(name, _IGNORED))


def _config(file: GgufFile, family: Family, fields: Fields, context: int | None) -> LanguageConfig:
    if fields.size("expert_count", 0, least=0):
        raise UnsupportedArchitectureError(
            f"a {family.name} model with {fields.size('expert_count')} experts is not supported: only dense models are"
        )
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise MissingTensorError("the matrix 'token_embd.weight' is not in the file")
    layers = fields.size("block_count")
    if layers > MOST_LAYERS:
        raise BadTextError(f"{layers} layers; at most {MOST_LAYERS} are read", section="metadata")
    width = fields.size("embedding_length")
    heads = fields.size("attention.head_count")
    head_size = fields.size("attention.key_length", width // heads)
    if fields.size("attention.value_length", head_size) != head_size:
        raise UnsupportedArchitectureError("keys and values of different sizes are not supported")
    epsilon = "attention.layer_norm_rms_epsilon" if family.norm == "rms" else "attention.layer_norm_epsilon"
    trained = fields.size("context_length")
    rope, trained = _rope(file, family, fields, head_size=head_size, trained=trained, context=context)
    window, windowed = _window(family, fields, layers)
    logit = fields.number("logit_scale", 0.0 if family.name != "minicpm" else width / 256)
    wide = (family.name, layers) in _WIDE_SCORES
    return build_config(
        family,
        vocabulary=embedding.shape[0], width=width, layers=layers, heads=heads,
        kv_heads=fields.size("attention.head_count_kv", heads), head_size=head_size,
        hidden=fields.size("feed_forward_length"), context=trained, norm_epsilon=fields.number(epsilon), rope=rope,
        causal=fields.flag("attention.causal", family.causal),
        attention_scale=(width / heads) ** -0.5 if wide else _optional(fields, "attention.scale"),
        attention_softcap=_optional(fields, "attn_logit_softcapping"),
        logit_softcap=_optional(fields, "final_logit_softcapping"),
        embedding_scale=fields.number("embedding_scale", 12.0 if family.name == "minicpm" else 1.0),
        residual_scale=fields.number("residual_scale", 1.4 / layers**0.5 if family.name == "minicpm" else 1.0),
        logit_scale=1 / logit if logit else 1.0, window=window, window_layers=windowed,
        tied_head="output.weight" not in file.tensors, pooling=_pooling(fields),
    )  # fmt: skip


def _optional(fields: Fields, key: str) -> float | None:
    value = fields.number(key, 0.0, positive=False)
    return None if value == 0 else fields.number(key)


def _pooling(fields: Fields) -> Pooling:
    kind = fields.size("pooling_type", 0, least=0)
    if kind not in _POOLINGS:
        raise UnsupportedArchitectureError(f"pooling type {kind} (a ranking model) is not supported")
    return _POOLINGS[kind]


def _window(family: Family, fields: Fields, layers: int) -> tuple[int | None, tuple[bool, ...]]:
    window = fields.size("attention.sliding_window", 4096 if family.name == "gemma2" else 0, least=0)
    if not window:
        return None, ()
    pattern = fields.raw("attention.sliding_window_pattern")
    if isinstance(pattern, np.ndarray):
        if len(pattern) != layers:
            raise BadTextError(f"sliding_window_pattern has {len(pattern)} flags for {layers} layers")
        return window, tuple(bool(flag) for flag in pattern)
    every = fields.size("attention.sliding_window_pattern", family.full_every or 0, least=0)
    return window, tuple((layer + 1) % every != 0 for layer in range(layers)) if every else ()


def _rope(
    file: GgufFile, family: Family, fields: Fields, *, head_size: int, trained: int, context: int | None
) -> tuple[Rope | None, int]:
    """The rotary embedding, and the positions for which it is right."""
    if not family.rotary:
        return None, trained
    base = fields.number("rope.freq_base", 10000.0)
    size = fields.size("rope.dimension_count", head_size)
    if size % 2 or size > head_size:
        raise BadTextError(f"rope.dimension_count is {size} for heads of {head_size}", section="metadata")
    if family.interleaved and size != head_size:
        raise UnsupportedArchitectureError(f"{family.name} that rotates {size} of {head_size} numbers is not supported")
    if not fields.flag("rope.scaling.finetuned", True) and family.name == "granite":
        raise UnsupportedArchitectureError("a granite model without rotary embedding is not supported")
    local = fields.number("rope.freq_base_swa", 10000.0) if family.name == "gemma3" else None
    divisors: tuple[float, ...] = ()
    scale = fields.number("rope.scaling.attn_factor", 1.0)
    kind = fields.text("rope.scaling.type", "none")
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0))
    original = fields.size("rope.scaling.original_context_length", trained)
    if "rope_factors_long.weight" in file.tensors:
        far = context is not None and context > original
        divisors = _stored_divisors(file, f"rope_factors_{'long' if far else 'short'}.weight", size)
        trained = trained if far else original
    elif "rope_freqs.weight" in file.tensors:
        divisors = _stored_divisors(file, "rope_freqs.weight", size)
    elif kind == "linear" or (kind == "none" and factor != 1):
        divisors = ropes.linear(size, factor)
    elif kind == "yarn":
        fast = fields.number("rope.scaling.yarn_beta_fast", 32.0)
        slow = fields.number("rope.scaling.yarn_beta_slow", 1.0)
        divisors = ropes.yarn(size, base, factor, original, fast=fast, slow=slow)
        scale *= ropes.yarn_scale(factor)
    elif kind not in ("none", "longrope"):
        raise UnsupportedArchitectureError(f"the rotary embedding {kind!r} is not supported")
    return Rope(base, size, divisors, scale, local), trained


def _stored_divisors(file: GgufFile, name: str, size: int) -> tuple[float, ...]:
    tensor = file.tensors.get(name)
    if tensor is None:
        raise MissingTensorError(f"the tensor {name!r} is not in the file")
    if tensor.shape != (size // 2,):
        raise BadTextError(f"{name} has the shape {list(tensor.shape)} for {size // 2} frequencies", section=name)
    found = tuple(map(float, tensor.floats(slice(None))))
    if not all(0 < value < float("inf") for value in found):
        raise BadTextError(f"{name} has divisors that are no numbers above 0", section=name)
    return found


class _Tables:
    """Puts the tensors of llama.cpp's names under canonical ones."""

    def __init__(self, table: Gatherer, config: LanguageConfig, family: Family) -> None:
        self._table, self._config, self._family = table, config, family

    def gather(self) -> None:
        config, table = self._config, self._table
        table.take("embedding", "token_embd.weight", (config.vocabulary, config.width))
        if config.rope is None:
            table.take("positions", "position_embd.weight", (config.context, config.width))
        if config.norm_first:
            self._norm("final_norm", "output_norm", config.width)
            if not config.tied_head:
                table.take("head", "output.weight", (config.vocabulary, config.width))
        else:
            types = table.tensors.get("token_types.weight")
            if types is not None:
                table.take("types", "token_types.weight", (types.shape[0], config.width))
            self._norm("embedding_norm", "token_embd_norm", config.width)
        for layer in range(config.layers):
            self._layer(f"layers.{layer}.", f"blk.{layer}.")

    def _layer(self, prefix: str, blk: str) -> None:
        config = self._config
        width, hidden = config.width, config.hidden
        self._norm(prefix + "attention_norm", blk + ("attn_norm" if config.norm_first else "attn_output_norm"), width)
        self._norm(prefix + "ffn_norm", blk + ("ffn_norm" if config.norm_first else "layer_output_norm"), width)
        if config.post_norms:
            self._norm(prefix + "attention_post_norm", blk + "post_attention_norm", width)
            self._norm(prefix + "ffn_post_norm", blk + "post_ffw_norm", width)
        if config.query_key_norm:
            self._norm(prefix + "q_norm", blk + "attn_q_norm", config.head_size)
            self._norm(prefix + "k_norm", blk + "attn_k_norm", config.head_size)
        queries, keys = config.heads * config.head_size, config.kv_heads * config.head_size
        paired = config.head_size if self._family.interleaved else 0
        attention = [("q", queries, paired), ("k", keys, paired), ("v", keys, 0)]
        if self._table.has(f"{blk}attn_qkv.weight"):
            self._product(prefix, blk + "attn_qkv", attention, width)
        else:
            for part in attention:
                self._product(prefix, f"{blk}attn_{part[0]}", [part], width)
        self._product(prefix, blk + "attn_output", [("o", width, 0)], queries)
        if "gate_up" in self._family.fused:
            self._product(prefix, blk + "ffn_up", [("gate", hidden, 0), ("up", hidden, 0)], width)
        else:
            self._product(prefix, blk + "ffn_up", [("up", hidden, 0)], width)
            if config.gated:
                self._product(prefix, blk + "ffn_gate", [("gate", hidden, 0)], width)
        self._product(prefix, blk + "ffn_down", [("down", width, 0)], hidden)

    def _norm(self, canonical: str, name: str, size: int) -> None:
        self._table.take(canonical, f"{name}.weight", (size,))
        if self._config.norm == "layer":
            self._table.take(f"{canonical}.bias", f"{name}.bias", (size,))

    def _product(self, prefix: str, name: str, parts: list[tuple[str, int, int]], inputs: int) -> None:
        self._table.cut(f"{name}.weight", [(prefix + part, rows, pair) for part, rows, pair in parts], (inputs,))
        if all(part in self._family.biases for part, _, _ in parts):
            biases = [(f"{prefix}{part}.bias", rows, pair) for part, rows, pair in parts]
            self._table.cut(f"{name}.bias", biases, (), optional=True)
