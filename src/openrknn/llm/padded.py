"""A model whose heads have whole groups of numbers: those that are missing are zeros, which change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from openrknn.llm.config import LanguageConfig
from openrknn.llm.ports import HEAD_GROUP
from openrknn.llm.weights import Floats, WeightSource


def padded(source: WeightSource) -> WeightSource:
    """The source itself where nothing is missing."""
    return source if source.config.head_size % HEAD_GROUP == 0 else _Padded(source)


class _Padded:
    def __init__(self, source: WeightSource) -> None:
        self._source = source
        before = source.config
        size = -(-before.head_size // HEAD_GROUP) * HEAD_GROUP
        self._config = replace(before, head_size=size, attention_scale=before.score_scale())

    @property
    def config(self) -> LanguageConfig:
        return self._config

    def names(self) -> Iterable[str]:
        return self._source.names()

    def get(self, name: str) -> Floats:
        found = self._source.get(name)
        kind = name.removesuffix(".bias").rpartition(".")[2]
        if kind in {"q", "k", "v", "q_norm", "k_norm"}:
            return self._wider(found)
        return self._wider(found.T).T if kind == "o" and found.ndim > 1 else found

    def rows(self, name: str, first: int, count: int) -> Floats:
        return self._source.rows(name, first, count)

    def _wider(self, rows: Floats) -> Floats:
        """[heads * numbers, ...] with zeros behind the numbers of each head."""
        numbers, size = self._source.config.head_size, self._config.head_size
        heads = rows.reshape(-1, numbers, *rows.shape[1:])
        made = np.zeros((len(heads), size, *rows.shape[1:]), np.float32)
        made[:, :numbers] = heads
        return made.reshape(-1, *rows.shape[1:])
