"""The quantised model as an engine in NumPy: the integers that the NPU computes, float for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from openrknn.llm.engine import Cache
from openrknn.llm.errors import CacheFullError
from openrknn.llm.quantise.model import Quantised, turn_online
from openrknn.llm.reference import ReferenceCache, ReferenceEngine, Transformer
from openrknn.llm.weights import Floats


class QuantisedEngine(ReferenceEngine):
    """An `Engine`. A text that starts with the model's prefix has that position in float, as in compiled files."""

    def __init__(
        self, quantised: Quantised, *, capacity: int | None = None, like: QuantisedEngine | None = None
    ) -> None:
        """`like`: an engine of the same float weights, to share them with."""
        super().__init__(quantised.source, capacity=capacity)
        self.quantised = quantised
        self._kept: dict[str, Floats] = {} if like is None else like._kept
        self._float = _FloatTransformer(quantised, self._kept)
        self._model = _IntegerTransformer(quantised, self._kept)

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        past = cast("ReferenceCache", cache)
        is_prefix = bool(tokens) and not past.tokens and tokens[0] == self.quantised.prefix
        if not is_prefix:
            return super().forward(cache, tokens, all_logits=all_logits)
        if len(tokens) > self.capacity:
            raise CacheFullError(f"{len(tokens)} tokens are more than the {self.capacity} that fit")
        first = self._float.hidden_states(past, tokens[:1])
        if len(tokens) == 1:
            return self._float.logits(first)
        rest = super().forward(cache, tokens[1:], all_logits=all_logits)
        return np.concatenate([self._float.logits(first), rest]) if all_logits else rest

    def close(self) -> None:
        super().close()
        self._float.forget()


def prefix_bytes(quantised: Quantised, token: int) -> bytes:
    """The first position of all texts that start with a token, in fp16: keys and values, then logits.

    [layers, 2, kv_heads, 1, head_size] and [vocabulary]. Logits are those before a scale and a soft cap.
    """
    model = _FloatTransformer(quantised, {})
    cache = ReferenceCache(model.config)
    x = model.hidden_states(cache, [token])
    rows = np.stack([np.stack(pair) for pair in zip(cache.keys, cache.values, strict=True)])
    logits = model.scores(x)[0]
    return b"".join(bytes(part.astype(np.float16).tobytes()) for part in (rows, logits))


class _FloatTransformer(Transformer):
    def __init__(self, quantised: Quantised, kept: dict[str, Floats]) -> None:
        super().__init__(quantised.source, keep=True)
        self._kept, self._online = kept, quantised.online

    def product(self, name: str, x: Floats) -> Floats:
        return super().product(name, turn_online(name, x, self._online))


class _IntegerTransformer(Transformer):
    def __init__(self, quantised: Quantised, kept: dict[str, Floats]) -> None:
        super().__init__(quantised.source, keep=True)
        self._kept, self._online, self._products = kept, quantised.online, quantised.products

    def product(self, name: str, x: Floats) -> Floats:
        turned = turn_online(name, x, self._online)
        found = self._products.get("head" if name == "embedding" else name)
        return super().product(name, turned) if found is None else found(turned)
