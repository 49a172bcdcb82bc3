"""How large the numbers in front of each norm become, measured on a few tokens in float.

Sums of squares are stored in fp16, which holds 30 binary orders. Some models have tokens whose hidden numbers are a
thousand times as large as those of others (the first token of a text, mostly), so each norm gets a factor of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openrknn.llm.reference import ReferenceCache, Transformer
from openrknn.llm.weights import Floats, WeightSource

_TOKENS = 24
_ROOM = 64.0
"""Texts may have sums of squares that are larger than all that were seen: eight times as large numbers."""
_LARGEST = 65504.0
_MOST_POWER = 24
DEFAULT_POWER = 14
"""Where nothing was measured."""


class _Measured(Transformer):
    def __init__(self, source: WeightSource) -> None:
        super().__init__(source, keep=False)
        self.largest: dict[str, float] = {}

    def norm(self, name: str, x: Floats) -> Floats:
        squares = float(np.square(x, dtype=np.float64).sum(-1).max())
        self.largest[name] = max(squares, self.largest.get(name, 0.0))
        return super().norm(name, x)


def measure_squares(source: WeightSource, start: int | None = None) -> dict[str, float]:
    """Norm -> the largest sum of squares that it sees: tokens from everywhere in the vocabulary, as two texts.

    `start`: the token that texts start with. One of the two starts with it: Gemma 3's has numbers ten times as large
    as any other token in the first place, and other models have them in the first place whatever stands there.
    """
    config = source.config
    model = _Measured(source)
    spread = np.unique(np.linspace(0, config.vocabulary - 1, _TOKENS).astype(int)).tolist()
    begin = [] if start is None else [start]
    for tokens in ([*begin, *spread[::2]], spread[1::2]):
        if tokens and config.causal:
            x = model.hidden_states(ReferenceCache(config), tokens[: config.context])
            model.norm("final_norm", x)
    return model.largest


def stream_factor(squares: Mapping[str, float]) -> float:
    """What the residual stream is multiplied by, a power of two: numbers up to twice those seen are fp16's."""
    read = ("attention_norm", "ffn_norm", "final_norm")
    largest = max((value for name, value in squares.items() if name.endswith(read)), default=0.0)
    return 2.0 ** -max(0, math.ceil(math.log2(max(2 * math.sqrt(largest) / _LARGEST, 1e-30))))


def powers(squares: Mapping[str, float]) -> dict[str, int]:
    """Norm -> the power of two that sums are divided by."""
    return {
        name: min(max(0, math.ceil(math.log2(max(value, 1e-30) * _ROOM / _LARGEST))), _MOST_POWER)
        for name, value in squares.items()
    }
