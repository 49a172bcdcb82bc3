"""A folder of Hugging Face as a language model: config.json as a `LanguageConfig`, tensors under canonical names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.errors import BadTextError
from openrknn.llm.config import Activation, LanguageConfig, Pooling
from openrknn.llm.errors import MissingTensorError, UnsupportedArchitectureError
from openrknn.llm.files.build import build_config
from openrknn.llm.files.families import Family, folder_family
from openrknn.llm.files.fields import Fields
from openrknn.llm.files.folder_names import ENCODERS, IGNORED, FolderNames, folder_names
from openrknn.llm.files.folder_rope import folder_rope
from openrknn.llm.files.jsonfile import read_object
from openrknn.llm.files.safetensors import folder_tensors
from openrknn.llm.files.source import MOST_LAYERS, FileSource, Gatherer
from openrknn.llm.files.types import StoredTensor

_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu", "swish": "silu", "swiglu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
}  # fmt: skip
_HEAD_SIZES = {"gemma": 256, "gemma2": 256, "gemma3": 256, "qwen3": 128}
"""Where config.json may leave it out because it is the family's default."""
_OLD = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "intermediate_size": "n_inner", "max_position_embeddings": "n_positions", "hidden_act": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
}  # fmt: skip


def open_folder(folder: Path, context: int | None = None) -> FileSource:
    """Checks the whole description; reads no weight."""
    said = read_object(folder / "config.json")
    if said.get("quantization_config"):
        raise UnsupportedArchitectureError(
            f"{folder.name} is quantised for another runtime: use the model it was made from"
        )
    kind = said.get("model_type")
    if not isinstance(kind, str):
        raise BadTextError("model_type is missing or no text", section="config.json")
    family = folder_family(kind)
    inner = said.get("text_config")
    if family.name == "gemma3" and isinstance(inner, dict):
        said = {**inner, **{key: said[key] for key in ("tie_word_embeddings",) if key in said}}
    said = {**{new: said[old] for new, old in _OLD.items() if old in said}, **said}
    tensors = folder_tensors(folder)
    names = folder_names(family, tensors)
    config = _config(folder, family, Fields(said, "config.json"), (tensors, names), context)
    gatherer = Gatherer(tensors)
    names.gather(gatherer, config, family)
    return FileSource(folder, config, gatherer.finish(kind, IGNORED))


def _config(
    folder: Path,
    family: Family,
    fields: Fields,
    file: tuple[dict[str, StoredTensor], FolderNames],
    context: int | None,
) -> LanguageConfig:
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        if fields.size(key, 0, least=0):
            raise UnsupportedArchitectureError(
                f"a {family.name} model with {fields.size(key)} experts: only dense ones are supported"
            )
    tensors, names = file
    embedding = tensors.get(names.embedding)
    if embedding is None or len(embedding.shape) != 2:
        raise MissingTensorError(f"the matrix {names.embedding!r} is not in the files")
    layers = fields.size("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise BadTextError(f"{layers} layers; at most {MOST_LAYERS} are read", section="config.json")
    width, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    head_size = fields.size("head_dim", _HEAD_SIZES.get(family.name, width // heads))
    trained = fields.size("max_position_embeddings", 131072 if family.name == "gemma3" else 8192)
    rope = None
    if family.rotary:
        rope, trained = folder_rope(family, fields, head_size, trained, context)
    window, windowed = _window(family, fields, layers)
    return build_config(
        family, vocabulary=embedding.shape[0], width=width, layers=layers, heads=heads,
        kv_heads=fields.size("num_key_value_heads", heads), head_size=head_size,
        hidden=fields.size("intermediate_size"), context=trained, rope=rope, activation=_activation(family, fields),
        norm_epsilon=fields.number("rms_norm_eps" if family.norm == "rms" else "layer_norm_eps"),
        causal=family.causal and not fields.flag("use_bidirectional_attention", False),
        window=window, window_layers=windowed, tied_head=_tied(family, fields, tensors, names),
        pooling=_pooling(folder), **_scales(family, fields, width, layers),
    )  # fmt: skip


def _activation(family: Family, fields: Fields) -> Activation:
    if family.name == "gemma":  # its files say "gelu" and mean the other one
        return "gelu_tanh"
    name = fields.text("hidden_activation", fields.text("hidden_act", family.activation))
    if name not in _ACTIVATIONS and name != family.activation:
        raise UnsupportedArchitectureError(f"the activation {name!r} is not supported; {', '.join(_ACTIVATIONS)} are")
    return _ACTIVATIONS.get(name, family.activation)


def _scales(family: Family, fields: Fields, width: int, layers: int) -> dict[str, Any]:
    if family.name == "granite":
        return {
            "embedding_scale": fields.number("embedding_multiplier", 1.0),
            "residual_scale": fields.number("residual_multiplier", 1.0),
            "attention_scale": fields.number("attention_multiplier", 1.0),
            "logit_scale": 1 / fields.number("logits_scaling", 1.0),
        }
    if family.name == "minicpm":
        return {
            "embedding_scale": fields.number("scale_emb", 1.0),
            "residual_scale": fields.number("scale_depth", 1.0) / layers**0.5,
            "logit_scale": fields.number("dim_model_base", 1.0) / width,
        }
    if family.name in ("gemma2", "gemma3"):
        caps = (50.0, 30.0) if family.name == "gemma2" else (0.0, 0.0)
        return {
            "attention_scale": fields.number("query_pre_attn_scalar", 256.0) ** -0.5,
            "attention_softcap": _cap(fields, "attn_logit_softcapping", caps[0]),
            "logit_softcap": _cap(fields, "final_logit_softcapping", caps[1]),
        }
    return {}


def _cap(fields: Fields, key: str, default: float) -> float | None:
    """null is none; a key that is not there has the family's default."""
    if fields.is_null(key):
        return None
    return fields.number(key, default) or None


def _window(family: Family, fields: Fields, layers: int) -> tuple[int | None, tuple[bool, ...]]:
    window = fields.size("sliding_window", 0, least=0)
    if not window or (family.name == "qwen2" and not fields.flag("use_sliding_window", False)):
        return None, ()
    kinds = fields.raw("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or not set(map(str, kinds)) <= {"sliding_attention", "full_attention"}:
            raise UnsupportedArchitectureError(f"layer_types has other kinds than sliding and full: {str(kinds)[:80]}")
        return window, tuple(kind == "sliding_attention" for kind in kinds)
    if family.name == "qwen2":
        first = fields.size("max_window_layers", layers, least=0)
        return window, tuple(layer >= first for layer in range(layers))
    every = fields.size("sliding_window_pattern", family.full_every or 0, least=0)
    return window, tuple((layer + 1) % every != 0 for layer in range(layers)) if every else ()


def _tied(family: Family, fields: Fields, tensors: dict[str, StoredTensor], names: FolderNames) -> bool:
    if family.name in ENCODERS:
        return True
    return fields.flag("tie_word_embeddings", names.head not in tensors)


def _pooling(folder: Path) -> Pooling:
    """What a folder of sentence-transformers says; "none" in others."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "none"
    said = Fields(read_object(path), "1_Pooling/config.json")
    modes: dict[str, Pooling] = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
    found = [kind for key, kind in modes.items() if said.flag(f"pooling_mode_{key}", False)]
    if len(found) != 1:
        raise UnsupportedArchitectureError("1_Pooling/config.json asks for a pooling other than cls, mean or last")
    return found[0]
