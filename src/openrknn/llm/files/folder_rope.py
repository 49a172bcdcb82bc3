"""The rotary embedding that config.json describes, in the spelling of transformers 4 and of 5."""

from __future__ import annotations

from openrknn.errors import BadTextError
from openrknn.llm.config import Rope
from openrknn.llm.errors import UnsupportedArchitectureError
from openrknn.llm.files import ropes
from openrknn.llm.files.families import Family
from openrknn.llm.files.fields import Fields

_BASES = {"nomic-bert": 1000.0, "gemma3": 1_000_000.0}


def folder_rope(family: Family, fields: Fields, head_size: int, trained: int, context: int | None) -> tuple[Rope, int]:
    """The rotary embedding, and the positions for which it is right."""
    said, local = _parameters(family, fields)
    base = said.number(
        "rope_theta", fields.number("rope_theta", fields.number("rotary_emb_base", _BASES.get(family.name, 1e4)))
    )
    part = said.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0))
    size = int(head_size * part)
    if size % 2 or not 0 < size <= head_size:
        raise BadTextError(f"partial_rotary_factor {part} leaves {size} of {head_size} numbers", section=fields.section)
    kind = said.text("rope_type", said.text("type", "default"))
    original = said.size("original_max_position_embeddings", fields.size("original_max_position_embeddings", trained))
    divisors: tuple[float, ...] = ()
    scale = 1.0
    if kind == "linear":
        divisors = ropes.linear(size, said.number("factor"))
    elif kind == "llama3":
        low, high = said.number("low_freq_factor"), said.number("high_freq_factor")
        if not low < high:
            raise BadTextError(f"low_freq_factor {low} is not below high_freq_factor {high}", section=said.section)
        divisors = ropes.llama3(size, base, said.number("factor"), original, low=low, high=high)
    elif kind == "yarn":
        divisors, scale = _yarn(said, size, base, original)
    elif kind in ("longrope", "su"):
        far = context is not None and context > original
        divisors = said.numbers("long_factor" if far else "short_factor")
        factor = said.number("factor", trained / original)
        scale = said.number("attention_factor", ropes.long_scale(factor, original))
        trained = trained if far else original
    elif kind not in ("default", "dynamic"):  # up to the trained context, "dynamic" is the plain one
        raise UnsupportedArchitectureError(f"the rotary embedding {kind!r} is not supported")
    if divisors and (len(divisors) != size // 2 or min(divisors) <= 0):
        raise BadTextError(f"{len(divisors)} divisors above 0 for {size // 2} frequencies", section=said.section)
    return Rope(base, size, divisors, scale, local), trained


def _parameters(family: Family, fields: Fields) -> tuple[Fields, float | None]:
    """What is said about layers that see everything, and the base in those with a window."""
    local = fields.number("rope_local_base_freq", 10000.0) if family.name == "gemma3" else None
    if fields.has("rope_parameters"):
        said = fields.inner("rope_parameters")
        if said.has("full_attention"):
            if said.has("sliding_attention"):
                inner = said.inner("sliding_attention")
                if inner.text("rope_type", "default") != "default":
                    raise UnsupportedArchitectureError("a stretched rotary embedding in layers with a window")
                local = inner.number("rope_theta", 10000.0)
            return said.inner("full_attention"), local
        return said, local
    return (fields.inner("rope_scaling") if fields.has("rope_scaling") else Fields({}, fields.section)), local


def _yarn(said: Fields, size: int, base: float, original: float) -> tuple[tuple[float, ...], float]:
    factor = said.number("factor")
    fast, slow = said.number("beta_fast", 32.0), said.number("beta_slow", 1.0)
    divisors = ropes.yarn(size, base, factor, original, fast=fast, slow=slow, whole=said.flag("truncate", True))
    scale = ropes.yarn_scale(factor)
    if said.has("mscale") and said.has("mscale_all_dim"):
        scale = ropes.yarn_scale(factor, said.number("mscale")) / ropes.yarn_scale(
            factor, said.number("mscale_all_dim")
        )
    return divisors, said.number("attention_factor", scale)
