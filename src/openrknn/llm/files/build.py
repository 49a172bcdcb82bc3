"""A `LanguageConfig` of what a family is and what its file says; contradictions are errors of the file."""

from __future__ import annotations

from typing import Any

from openrknn.errors import BadTextError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.files.families import Family


def build_config(family: Family, **said: Any) -> LanguageConfig:
    """What the file said, completed by the row of the table."""
    width, layers = said["width"], said["layers"]
    if family.embedding_scaled:
        said["embedding_scale"] = width**0.5
    said.setdefault("causal", family.causal)
    said.setdefault("activation", family.activation)
    if said["window_layers"] and not any(said["window_layers"]):
        said["window"], said["window_layers"] = None, ()
    if said["window_layers"] and len(said["window_layers"]) != layers:
        raise BadTextError(f"windows of {len(said['window_layers'])} layers are given, for {layers} layers")
    if said["heads"] % said["kv_heads"]:
        raise BadTextError(f"{said['heads']} heads cannot share {said['kv_heads']} heads of keys and values evenly")
    return LanguageConfig(
        architecture=family.name, norm=family.norm, gated=family.gated, query_key_norm=family.query_key_norm,
        post_norms=family.post_norms, norm_first=family.norm_first, **said,
    )  # fmt: skip
