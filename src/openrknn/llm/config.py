"""What a language model is, independent of the file it came from: shapes, norms, rotary embedding, attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu", "gelu_tanh"]
Norm = Literal["rms", "layer"]
Pooling = Literal["none", "mean", "cls", "last"]


@dataclass(frozen=True)
class Rope:
    """Rotary embedding. Canonical weights rotate halves: number i of a head with number i + size / 2."""

    base: float
    size: int
    """Numbers of a head that are rotated; the rest passes unchanged."""
    divisors: tuple[float, ...] = ()
    """A divisor for each of the size / 2 frequencies (Llama 3, Phi-3 long); empty: all are 1."""
    scale: float = 1.0
    """What cosines and sines are multiplied by (YaRN, Phi-3 long)."""
    local_base: float | None = None
    """The base in layers with a sliding window (Gemma 3), which have no divisors; or None for what all layers have."""

    def frequencies(self, windowed: bool = False) -> tuple[float, ...]:
        """Radians per position of each of the size / 2 pairs, in a layer with or without a sliding window."""
        local = self.local_base if windowed else None
        base = self.base if local is None else local
        plain = [base ** (-2.0 * pair / self.size) for pair in range(self.size // 2)]
        if local is not None or not self.divisors:
            return tuple(plain)
        return tuple(frequency / divisor for frequency, divisor in zip(plain, self.divisors, strict=True))


@dataclass(frozen=True)
class LanguageConfig:
    """A transformer, decoder or encoder. A loader writes one of these, and nothing behind it asks for the family."""

    architecture: str
    """The family as its file calls it, for messages: llama, qwen2, gemma3, bert, ..."""
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    """Width between the two products of the feed-forward part."""
    context: int
    """Positions the model was trained for."""
    norm: Norm = "rms"
    norm_epsilon: float = 1e-5
    activation: Activation = "silu"
    gated: bool = True
    """down(activation(gate(x)) * up(x)); otherwise down(activation(up(x)))."""
    rope: Rope | None = None
    """None: positions are learned rows that are added to the embedding."""
    causal: bool = True
    query_key_norm: bool = False
    """RMS norms over each head of queries and keys (Qwen3, Gemma 3)."""
    post_norms: bool = False
    """Norms on the result of attention and of the feed-forward part, before it is added (Gemma 2 and 3)."""
    norm_first: bool = True
    """Norms before attention and feed-forward; False: after each addition (BERT)."""
    attention_scale: float | None = None
    """What scores are multiplied by, or None for 1 / sqrt(head_size)."""
    attention_softcap: float | None = None
    """c * tanh(score / c) (Gemma 2)."""
    logit_softcap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    """What the result of attention and of the feed-forward part is multiplied by (MiniCPM, Granite)."""
    logit_scale: float = 1.0
    window: int | None = None
    """Tokens that a layer with a sliding window sees, the newest included."""
    window_layers: tuple[bool, ...] = ()
    """Which layers have the window; empty: all of them if `window` is given."""
    tied_head: bool = False
    pooling: Pooling = "none"
    """How rows become one embedding, for encoders."""

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values evenly")
        if self.window_layers and len(self.window_layers) != self.layers:
            raise ValueError(f"window_layers names {len(self.window_layers)} layers of {self.layers}")

    def window_of(self, layer: int) -> int | None:
        """Tokens that this layer sees, or None for all."""
        if self.window_layers and not self.window_layers[layer]:
            return None
        return self.window

    def rope_frequencies(self, layer: int) -> tuple[float, ...]:
        """Radians per position of each pair of a head in this layer; empty without rotary embedding."""
        return () if self.rope is None else self.rope.frequencies(self.window_of(layer) is not None)

    def score_scale(self) -> float:
        return self.head_size**-0.5 if self.attention_scale is None else self.attention_scale
