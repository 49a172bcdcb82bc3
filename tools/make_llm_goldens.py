#!/usr/bin/env python3
"""Writes tests/llm/goldens: what `transformers` computes for a tiny model of every family.

    PYTHONPATH=src:. python tools/make_llm_goldens.py [NAME ...]

Needs torch and transformers (5.23 wrote the files that are there). Weights are numbers that tests/llm/tiny.py makes of
the names of the tensors, so that a golden has only the configuration, the shapes and a few rows of the result.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.numpy import load_file, save_file

from tests.llm.tiny import stored_weight

FOLDER = Path(__file__).resolve().parents[1] / "tests/llm/goldens"
TOKENS = [1, 5, 9, 33, 2, 47, 59, 11, 3, 3, 21, 8, 40, 17]
SIZES = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ENCODER = {key: value for key, value in SIZES.items() if not key.endswith("token_id") and "key_value" not in key}


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **more}}


_LONG = _rope(
    "longrope",
    partial_rotary_factor=0.5,
    short_factor=[1.0, 1.5],
    long_factor=[2.0, 3.5],
    original_max_position_embeddings=32,
) | {"original_max_position_embeddings": 32, "partial_rotary_factor": 0.5}
_SCALES = {
    "embedding_multiplier": 6.0,
    "logits_scaling": 4.0,
    "residual_multiplier": 0.25,
    "attention_multiplier": 8**-0.5,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", _rope("default")),
    "llama-llama3": (
        "Llama",
        {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
        | _rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
    ),
    "llama-linear": ("Llama", _rope("linear", factor=4.0)),
    "mistral": ("Mistral", {"sliding_window": 6, "head_dim": 16}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-yarn": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
        | _rope("yarn", factor=4.0, original_max_position_embeddings=16),
    ),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2": (
        "Gemma2",
        {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0,
         "final_logit_softcapping": 3.0},
    ),
    "gemma3": (
        "Gemma3",
        {"head_dim": 16, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 24,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
         "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    ),
    "phi3": ("Phi3", {"sliding_window": 7}),
    "phi3-long": ("Phi3", _LONG),
    "phi3-far": ("Phi3", _LONG),
    "granite": ("Granite", {**_SCALES, "attention_multiplier": 0.2, "tie_word_embeddings": True}),
    "minicpm": ("Granite", _SCALES),
    "bert": ("Bert", {}),
    "nomic-bert": ("NomicBert", {}),
}  # fmt: skip


def main(names: list[str]) -> None:
    """All cases, or those that are named."""
    for name in names or list(CASES):
        golden = make(name, *CASES[name])
        text = json.dumps(golden, separators=(",", ":")).replace('},"', '},\n"') + "\n"
        (FOLDER / f"{name}.json").write_text(text)
        print(name, len(text), "bytes")


def make(name: str, family: str, more: dict[str, Any]) -> dict[str, Any]:
    """One golden. MiniCPM, which transformers does not have, is Granite by other names."""
    is_encoder = "Bert" in family
    settings = {**(ENCODER if is_encoder else SIZES), **more}
    config = getattr(transformers, f"{family}{'Text' if family == 'Gemma3' else ''}Config")(**settings)
    kind = getattr(transformers, f"{family}{'Model' if is_encoder else 'ForCausalLM'}")
    with tempfile.TemporaryDirectory() as folder:
        # Names in files are not always those in memory: it is the library that says them, and reads them again.
        kind(config).float().save_pretrained(folder)
        path = Path(folder) / "model.safetensors"
        shapes = {key: tuple(value.shape) for key, value in load_file(path).items()}
        save_file({key: stored_weight(key, shape) for key, shape in shapes.items()}, path, {"format": "pt"})
        model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = TOKENS * 3 if name == "phi3-far" else TOKENS
    with torch.no_grad():
        result = model(torch.tensor([tokens]))
    rows = result.last_hidden_state if is_encoder else result.logits
    said = config.to_dict()
    if name == "minicpm":
        said = {key: said[key] for key in (*SIZES, "rms_norm_eps", "tie_word_embeddings", "rope_parameters")}
        said |= {"model_type": "minicpm", "scale_emb": 6.0, "scale_depth": 0.25 * 2**0.5, "dim_model_base": 8}
    kept = {key: value for key, value in said.items() if value is not None and key not in ("id2label", "label2id")}
    places = [0, 7, len(tokens) - 1]
    return {
        "config": kept, "tokens": tokens, "shapes": {key: list(shape) for key, shape in shapes.items()},
        "rows": {str(place): [round(float(number), 5) for number in rows[0, place]] for place in places},
    }  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
