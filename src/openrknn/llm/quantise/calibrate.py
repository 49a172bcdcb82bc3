"""What the inputs of products look like: a float model reads text, and a sample of each input is kept.

The first position is left out: there the stream of trained models is hundreds of times larger than anywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from openrknn.llm.quantise.products import INT8_MOST, usable_scale
from openrknn.llm.reference import ReferenceCache, Transformer
from openrknn.llm.weights import Floats, WeightSource

Ranges = Literal["max", "percentile", "mse"]
_ROWS = 256
"""Rows of each input that are kept of one text."""
_SHARES = np.geomspace(0.15, 1.0, 24)
_PERCENTILE = 0.9999
_FEW = 200_000
_SAME = {"k": "q", "v": "q", "up": "gate"}


def input_of(name: str, *, gated: bool) -> str:
    """Products that read the same numbers have one name for them: that of the first one."""
    prefix, _, kind = name.rpartition(".")
    same = _SAME.get(kind) if gated or kind != "up" else None
    return f"{prefix}.{same}" if same else name


@dataclass(slots=True)
class Seen:
    """An input of products."""

    largest: float = 0.0
    rows: list[Floats] = field(default_factory=list)
    hessian: Floats | None = None

    @property
    def sample(self) -> Floats:
        return np.concatenate(self.rows).astype(np.float32)


class Recorder(Transformer):
    """A float model that keeps what its products read."""

    def __init__(self, source: WeightSource, *, hessians: bool = False) -> None:
        super().__init__(source, keep=True)
        self.seen: dict[str, Seen] = {}
        self._hessians = hessians
        self._is_first = False

    def read(self, tokens: Sequence[int]) -> None:
        """One text from its first token on."""
        cache = ReferenceCache(self.config)
        self._is_first = True
        self.hidden_states(cache, tokens[:1])
        self._is_first = False
        self.logits(self.hidden_states(cache, tokens[1:]))

    def product(self, name: str, x: Floats) -> Floats:
        key = input_of(name, gated=self.config.gated)
        if not self._is_first and key == name:
            entry = self.seen.setdefault("head" if name == "embedding" else name, Seen())
            entry.largest = max(entry.largest, float(np.abs(x).max()))
            step = max(1, len(x) // _ROWS)
            entry.rows.append(x[::step].astype(np.float16))
            if self._hessians:
                squares = x.T @ x
                entry.hessian = squares if entry.hessian is None else entry.hessian + squares
        return super().product(name, x)


def choose_scale(seen: Seen, method: Ranges) -> float:
    """Of int8 for an input: all of it, all but one in 10,000, or what has the least error."""
    if method == "max":
        return usable_scale(max(seen.largest, 1e-6) / INT8_MOST)
    numbers = seen.sample.reshape(-1)
    if method == "percentile":
        return usable_scale(max(float(np.quantile(np.abs(numbers), _PERCENTILE)), 1e-6) / INT8_MOST)
    # Whole rows: every n-th number may be of every n-th channel only, and miss those that are large.
    numbers = seen.sample[:: max(1, numbers.size // _FEW)].reshape(-1)
    scales = max(seen.largest, 1e-6) * _SHARES / INT8_MOST
    errors = [
        float(np.square(np.clip(np.rint(numbers / scale), -INT8_MOST - 1, INT8_MOST) * scale - numbers).mean())
        for scale in scales.astype(np.float32)
    ]
    return usable_scale(float(scales[int(np.argmin(errors))]))
