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
from openrknn.llm.quantise.products import Int4Product, Int8Product
from openrknn.llm.weights import WeightSource

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Integers:
    """One product of the graph: the scale of what it reads, and what makes its integers and their scales."""

    scale: float | None
    """None: weights of int4 for inputs of fp16."""
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
        """Computed each time: nothing is cached."""
        return self._makers[name]() if name in self._makers else default


class IntegerProducts:
    """The products of a model with weights of int8 or int4, or none of them."""

    def __init__(self, quantised: Quantised | None) -> None:
        self._products = {} if quantised is None else dict(quantised.products)
        for name, one in self._products.items():
            if isinstance(one, Int4Product) and one.scales.shape[1] > 1:
                raise OptionError(f"{name} has {one.scales.shape[1]} groups of inputs; int4 with one scale per output "
                                  "(group=0) can be compiled, groups only be measured")  # fmt: skip
        self.online = {} if quantised is None else dict(quantised.online)

    @property
    def has_int4(self) -> bool:
        """Whether there are weights of int4."""
        return any(isinstance(one, Int4Product) for one in self._products.values())

    def bytes_of(self, name: str) -> float:
        """Of one weight of a product."""
        found = self._products.get(name)
        return 2.0 if found is None else 1.0 if isinstance(found, Int8Product) else 0.5

    def check(self, source: WeightSource) -> None:
        """Weights of norms have to be in the products already: these were rounded with them."""
        for layer in range(source.config.layers if self._products else 0):
            for name in (f"layers.{layer}.attention_norm", f"layers.{layer}.ffn_norm"):
                if not np.all(source.get(name) == 1):
                    raise OptionError(f"{name} is not folded into its products; quantise the model with rotation")

    def of(
        self, names: tuple[str, ...], *, factors: Array | None = None, order: Array | None = None,
        columns: Array | None = None, rows: slice | Array = slice(None),
    ) -> Integers | None:  # fmt: skip
        """Products below one another, or None for float. `factors`: of the outputs; `order`, `columns`: which ones."""
        found = [self._products[name] for name in names if name in self._products]
        if len(found) != len(names):
            return None
        parts = [one for one in found if isinstance(one, Int8Product | Int4Product)]

        def make() -> tuple[Array, Array]:
            stored = np.concatenate([one.weights for one in parts])[rows]
            scales = np.concatenate([one.scales.reshape(-1) for one in parts]).astype(np.float64)[rows]
            scales = scales if factors is None else scales * factors
            if order is not None:
                stored, scales = stored[order], scales[order]
            return (stored if columns is None else stored[:, columns]), scales

        first = parts[0]
        return Integers(first.input_scale if isinstance(first, Int8Product) else None, make)
