"""Whether a compiled file computes its model: a short text on the software NPU and in float.

Graphs are made with ranges that were measured on a few tokens. A model of another kind can have numbers that no one
has met, and a file that is wrong answers as fluently as one that is right. So each file is run once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from openrknn.llm.embedder import NpuEmbedder
from openrknn.llm.npu import NpuEngine
from openrknn.llm.ports import makes_embeddings
from openrknn.llm.quantise.measure import compare
from openrknn.llm.reference import ReferenceEngine, embed
from openrknn.llm.weights import WeightSource

__all__ = ["TEXT", "Agreement", "measure_agreement"]

TEXT = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be, this truth is so well fixed."
)
_MOST_TOKENS = 32
_MOST = {"fp16": 0.01, "w8a8": 0.25, "w4a16": 0.5}
"""KL. Files that are right had 0.00002 (fp16), 0.044 (w8a8) and 0.19 (w4a16) in the first tokens of a text."""
_LEAST_COSINE = {"fp16": 0.999, "w8a8": 0.95, "w4a16": 0.9}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of a file with its model in float, over some tokens."""

    tokens: int
    measure: Literal["KL", "cosine"]
    """Divergence of the distributions of the next token; of models of embeddings: cosine of the vectors."""
    value: float
    bound: float

    @property
    def is_good(self) -> bool:
        """Not so where the value is NaN."""
        return self.value <= self.bound if self.measure == "KL" else self.value >= self.bound


def measure_agreement(
    path: str | os.PathLike[str], source: WeightSource, tokens: Sequence[int], precision: str,
    progress: Callable[[str, int, int], None] | None = None,
) -> Agreement:  # fmt: skip
    """Run the first tokens of a text. Raises `NumberRangeError` for numbers that the file cannot hold."""
    tell = progress or (lambda *_: None)
    tell("check", 0, 1)
    if makes_embeddings(source.config):
        with NpuEmbedder(path, "software") as embedder:
            some = list(tokens[: min(_MOST_TOKENS, embedder.capacity)])
            cosine = float(np.dot(embedder.embed(some), embed(source, some)))
        tell("check", 1, 1)
        return Agreement(len(some), "cosine", cosine, _LEAST_COSINE[precision])
    with NpuEngine(path, "software") as engine:
        some = list(tokens[: min(_MOST_TOKENS, engine.capacity)])
        found = compare(ReferenceEngine(source, keep=False), {"npu": engine}, [some],
                        lambda done, of: tell("check", done, of))["npu"]  # fmt: skip
    tell("check", 1, 1)
    return Agreement(found.tokens, "KL", found.kl, _MOST[precision])
