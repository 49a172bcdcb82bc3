#!/usr/bin/env python3
"""Writes the table of architectures into docs/llm.md, from `openrknn.llm.files.families`."""

from __future__ import annotations

from pathlib import Path

from openrknn.llm.files.families import FAMILIES, Family

PAGE = Path(__file__).resolve().parents[1] / "docs/llm.md"
BEGIN, END = "<!-- families: written by tools/make_llm_docs.py -->\n", "<!-- families end -->\n"
_ACTIVATIONS = {"silu": "SiLU", "gelu": "GELU", "gelu_tanh": "GELU (tanh)"}


def table() -> str:
    """One row for each family."""
    lines = [
        "| GGUF | `model_type` | models | norms | feed-forward | attention | besides |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        folders = ", ".join(f"`{name}`" for name in family.folders)
        cells = (
            f"`{family.name}`",
            folders,
            family.members,
            _norms(family),
            _feed(family),
            _attention(family),
            _besides(family),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _norms(family: Family) -> str:
    kind = "RMS" if family.norm == "rms" else "layer"
    place = "before" if family.norm_first else "after"
    return f"{kind}, {place}{' and after' if family.post_norms else ''}"


def _feed(family: Family) -> str:
    return f"{_ACTIVATIONS[family.activation]}{', gated' if family.gated else ''}"


def _attention(family: Family) -> str:
    words = ["causal" if family.causal else "both ways", "rotary" if family.rotary else "learned positions"]
    if family.query_key_norm:
        words.append("norms of q and k")
    if family.full_every:
        every = {2: "second"}.get(family.full_every, f"{family.full_every}th")
        words.append(f"window, every {every} layer without")
    return ", ".join(words)


def _besides(family: Family) -> str:
    words = []
    if family.biases:
        words.append("biases of " + (", ".join(sorted(family.biases)) if len(family.biases) < 6 else "all products"))
    if family.fused:
        words.append("fused " + " and ".join(sorted(family.fused)))
    if family.embedding_scaled:
        words.append("embedding times sqrt(width)")
    if family.scales:
        words.append("scales of embedding, residual, logits" + (", scores" if family.name == "granite" else ""))
    if family.norms_store_one_less:
        words.append("norms stored less one")
    return "; ".join(words)


def page() -> str:
    """The page with today's table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
