"""Integers of a quantised model as products of the step's graph take them: rows joined, ordered, cut into blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compiler.errors import OptionError
from openrknn.compiler.ir import StoredWeights
from openrknn.llm.quantise.model import Quantised
from openrknn.llm.quantise.products import Int8Product
from openrknn.llm.weights import WeightSource

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Integers:
    """One product of the graph: the scale of what it reads, and what makes its integers and their scales."""

    scale: float
    make: Callable[[], tuple[Array, Array]]
    """([outputs, inputs], [outputs])."""

    def matrix(self) -> Array:
        """In real numbers, as weights of a convolution."""
        stored, scales = self.make()
        return np.asarray((stored * scales[:, None]).astype(np.float32)[:, :, None, None])

    def stored(self) -> StoredWeights:
        """As the compiler keeps weights of quantised models."""
        stored, scales = self.make()
        return StoredWeights(stored.astype(np.int64)[:, :, None, None], scales, np.zeros(len(scales), np.int64))


class LazyStored(dict[str, StoredWeights]):
    """Integers that are made when the compiler asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self._makers: dict[str, Callable[[], StoredWeights]] = {}

    def put(self, name: str, make: Callable[[], StoredWeights]) -> None:
        """Remember how they are made."""
        self._makers[name] = make

    def get(self, name: str, default: Any = None) -> Any:
        """Made anew each time: nothing is kept."""
        return self._makers[name]() if name in self._makers else default


class IntegerProducts:
    """The int8 products of a model, or none of them."""

    def __init__(self, quantised: Quantised | None) -> None:
        self._products = {} if quantised is None else dict(quantised.products)
        wrong = next((name for name, one in self._products.items() if not isinstance(one, Int8Product)), None)
        if wrong is not None:
            raise OptionError(f"{wrong} is no product of int8: W8A8 can be compiled, W4A16 only be measured")
        self.online = {} if quantised is None else dict(quantised.online)

    def check(self, source: WeightSource) -> None:
        """Weights of norms have to be in the products already: these were rounded with them."""
        for layer in range(source.config.layers if self._products else 0):
            for name in (f"layers.{layer}.attention_norm", f"layers.{layer}.ffn_norm"):
                if not np.all(source.get(name) == 1):
                    raise OptionError(f"{name} is not folded into its products; quantise the model with rotation")

    def of(
        self, names: tuple[str, ...], *, factors: Array | None = None, order: Array | None = None,
        columns: Array | None = None, rows: slice = slice(None),
    ) -> Integers | None:  # fmt: skip
        """Products below one another, or None for float. `factors`: of the outputs; `order`, `columns`: which ones."""
        found = [self._products[name] for name in names if name in self._products]
        if len(found) != len(names):
            return None
        parts = [one for one in found if isinstance(one, Int8Product)]

        def make() -> tuple[Array, Array]:
            stored = np.concatenate([one.weights for one in parts])[rows]
            scales = np.concatenate([one.scales for one in parts]).astype(np.float64)[rows]
            scales = scales if factors is None else scales * factors
            if order is not None:
                stored, scales = stored[order], scales[order]
            return (stored if columns is None else stored[:, columns]), scales

        return Integers(parts[0].input_scale, make)
