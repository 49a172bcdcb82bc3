"""The table of architectures: one row for each family of models that can be loaded."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.llm.config import Activation, Norm
from openrknn.llm.errors import UnsupportedArchitectureError

ATTENTION = frozenset({"q", "k", "v"})
ALL = frozenset({"q", "k", "v", "o", "gate", "up", "down"})


@dataclass(frozen=True)
class Family:
    """What all models of a family have in common; sizes, scales and stretched rotary embeddings are in each file."""

    name: str
    """`general.architecture` in GGUF."""
    folders: tuple[str, ...]
    """`model_type` in config.json."""
    members: str
    """Models that people know, for the documentation."""
    norm: Norm = "rms"
    activation: Activation = "silu"
    gated: bool = True
    causal: bool = True
    rotary: bool = True
    norm_first: bool = True
    query_key_norm: bool = False
    post_norms: bool = False
    norms_store_one_less: bool = False
    """Norm weights in safetensors files are one less than the factor (GGUF files have the factor)."""
    interleaved: bool = False
    """GGUF files have rows of q and k in pairs (0, half, 1, half + 1, ...): they are put back."""
    fused: frozenset[str] = frozenset()
    """Products that are one tensor in the file: "qkv", "gate_up"."""
    biases: frozenset[str] = frozenset()
    """Products that may have a bias."""
    full_every: int | None = None
    """Every n-th layer sees all tokens, the others a window; None: a window is for all layers."""
    scales: bool = False
    """Embedding, residual, logit and attention scales are in the file."""
    embedding_scaled: bool = False
    """Embeddings are multiplied by sqrt(width)."""


FAMILIES = (
    Family(
        "llama", ("llama", "mistral"), "Llama 1 to 3.2, SmolLM 1 and 2, TinyLlama, Mistral, MiniMind",
        interleaved=True, biases=ALL,
    ),
    Family("qwen2", ("qwen2",), "Qwen 1.5, 2 and 2.5", biases=ATTENTION),
    Family("qwen3", ("qwen3",), "Qwen 3, Qwen 3 Embedding", query_key_norm=True, biases=ATTENTION | {"o"}),
    Family(
        "gemma", ("gemma",), "Gemma 1", activation="gelu_tanh", norms_store_one_less=True, embedding_scaled=True,
    ),
    Family(
        "gemma2", ("gemma2",), "Gemma 2", activation="gelu_tanh", post_norms=True, norms_store_one_less=True,
        full_every=2, embedding_scaled=True,
    ),
    Family(
        "gemma3", ("gemma3_text", "gemma3"), "Gemma 3 (of models with pictures: the text part)", activation="gelu_tanh",
        post_norms=True, query_key_norm=True, norms_store_one_less=True, full_every=6, embedding_scaled=True,
    ),
    Family("phi3", ("phi3",), "Phi-3 mini and medium, Phi-3.5 mini, Phi-4 mini", fused=frozenset({"qkv", "gate_up"})),
    Family("minicpm", ("minicpm",), "MiniCPM 1, 2 and 4", interleaved=True, biases=ALL, scales=True),
    Family("granite", ("granite",), "Granite 3 (dense)", interleaved=True, biases=ALL, scales=True),
    Family(
        "bert", ("bert",), "BERT, MiniLM, BGE, E5, GTE: embeddings", norm="layer", activation="gelu", gated=False,
        causal=False, rotary=False, norm_first=False, biases=ATTENTION | {"o", "up", "down"},
    ),
    Family(
        "nomic-bert", ("nomic_bert",), "Nomic Embed 1 and 1.5: embeddings", norm="layer", causal=False,
        norm_first=False, fused=frozenset({"qkv"}), biases=ALL,
    ),
)  # fmt: skip

_EXPERTS = ("moe", "mixtral", "dbrx", "grok", "arctic", "deepseek", "gpt-oss", "gpt_oss", "jamba")


def gguf_family(name: str) -> Family:
    """The row for this `general.architecture`."""
    return _found({row.name: row for row in FAMILIES}.get(name), name)


def folder_family(name: str) -> Family:
    """The row for this `model_type`."""
    return _found(next((row for row in FAMILIES if name in row.folders), None), name)


def _found(row: Family | None, name: str) -> Family:
    if row is not None:
        return row
    if any(word in name.lower() for word in _EXPERTS):
        raise UnsupportedArchitectureError(
            f"{name!r} is a mixture of experts, which is not supported: use a dense model of {known()}"
        )
    raise UnsupportedArchitectureError(f"the architecture {name!r} is not supported; these are: {known()}")


def known() -> str:
    """All names, for messages."""
    return ", ".join(row.name for row in FAMILIES)
