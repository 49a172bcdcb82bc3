"""Hugging Face's names of Whisper's weights -> OpenAI's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from openrknn.voice.make.whisper.checkpoint import Array

_WHOLE = {
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
}
_PARTS = {
    "self_attn.q_proj": "attn.query", "self_attn.k_proj": "attn.key", "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out", "self_attn_layer_norm": "attn_ln", "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key", "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out", "encoder_attn_layer_norm": "cross_attn_ln", "fc1": "mlp.0",
    "fc2": "mlp.2", "final_layer_norm": "mlp_ln",
}  # fmt: skip
_CONVOLUTIONS = frozenset(f"encoder.conv{one}.{part}" for one in (1, 2) for part in ("weight", "bias"))
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")
_NORM = re.compile(r"(encoder|decoder)\.layer_norm\.(weight|bias)")


def openai_name(name: str) -> str:
    """ "" for what is not needed (the output's weights are those of the tokens)."""
    plain = name.removeprefix("model.")
    if plain in _WHOLE:
        return _WHOLE[plain]
    if match := _LAYER.fullmatch(plain):
        part = _PARTS.get(match[3])
        is_bias_of_keys = match[3].endswith("k_proj") and match[4] == "bias"
        return f"{match[1]}.blocks.{match[2]}.{part}.{match[4]}" if part and not is_bias_of_keys else ""
    if match := _NORM.fullmatch(plain):
        return f"{match[1]}.{'ln_post' if match[1] == 'encoder' else 'ln'}.{match[2]}"
    return plain if plain in _CONVOLUTIONS else ""


def renamed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All of them that a Whisper has."""
    return {new: array for name, array in arrays.items() if (new := openai_name(name))}
