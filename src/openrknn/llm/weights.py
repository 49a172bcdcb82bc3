"""Canonical names of a language model's weights, and what a source of them can do.

Matrices are [outputs, inputs]. Rotary halves have the layout of `Rope`, independent of the file. Norm weights are
what the normalised numbers are multiplied by (Gemma's files store one less).

| name | shape |
|---|---|
| `embedding` | [vocabulary, width] |
| `positions`, `types` | [context, width], [types, width]: encoders with learned positions |
| `embedding_norm`, `embedding_norm.bias` | [width]: encoders |
| `final_norm`, `head`, `head.bias` | [width], [vocabulary, width] (absent if tied), [vocabulary] |
| `layers.N.attention_norm`, `layers.N.ffn_norm` | [width]; `.bias` where the norm is a layer norm |
| `layers.N.attention_post_norm`, `layers.N.ffn_post_norm` | [width] |
| `layers.N.q`, `.k`, `.v`, `.o` | [heads * head_size, width], ..., [width, heads * head_size]; perhaps `.bias` |
| `layers.N.q_norm`, `layers.N.k_norm` | [head_size] |
| `layers.N.gate`, `.up`, `.down` | [hidden, width], [hidden, width], [width, hidden]; perhaps `.bias` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from openrknn.llm.config import LanguageConfig

Floats = npt.NDArray[np.float32]


class WeightSource(Protocol):
    """Weights of one model, read when they are asked for: a model may be larger than memory."""

    @property
    def config(self) -> LanguageConfig: ...

    def names(self) -> Iterable[str]:
        """All canonical names that `get` knows."""
        ...

    def get(self, name: str) -> Floats:
        """One tensor in float32. Raises `KeyError` for a name that is not in `names`."""
        ...

    def rows(self, name: str, first: int, count: int) -> Floats:
        """`get(name)[first : first + count]`, without reading the rest where the file allows it."""
        ...
