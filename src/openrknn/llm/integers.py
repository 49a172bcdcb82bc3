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

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Integers:
    """One product of the graph: the scale of what it reads, and what makes its integers and their scales."""

    scale: float | None
    """None: weights of int4 for inputs of fp16."""
    make: Callable[[], tuple[Array, Array]]
    """([outputs, inputs], [outputs]); of int4 scales are [outputs, groups of inputs]."""
    groups: int = 1
    heads: int = 1
    """More than one: inputs are in the order of the weights, and in the map their surfaces take turns."""

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
        self.online = {} if quantised is None else dict(quantised.online)

    @property
    def has_any(self) -> bool:
        """Whether there are weights in integers."""
        return bool(self._products)

    @property
    def has_int4(self) -> bool:
        """Whether there are weights of int4."""
        return any(isinstance(one, Int4Product) for one in self._products.values())

    def bytes_of(self, name: str) -> float:
        """Of one weight of a product."""
        found = self._products.get(name)
        return 2.0 if found is None else 1.0 if isinstance(found, Int8Product) else 0.5

    def of(
        self, names: tuple[str, ...], *, factors: Array | None = None, order: Array | None = None,
        columns: Array | None = None, rows: slice | Array = slice(None),
    ) -> Integers | None:  # fmt: skip
        """Products below one another, or None for float. `factors`: of the outputs; `order`, `columns`: which ones."""
        found = [self._products[name] for name in names if name in self._products]
        if len(found) != len(names):
            return None
        parts = [one for one in found if isinstance(one, Int8Product | Int4Product)]

        first = parts[0]
        heads = _heads(columns) if isinstance(first, Int4Product) and first.scales.shape[1] > 1 else 1
        columns = None if heads > 1 else columns
        places = _groups(names[0], first, columns)

        def make() -> tuple[Array, Array]:
            stored = np.concatenate([one.weights for one in parts])[rows]
            scales = np.concatenate([one.scales for one in parts]).astype(np.float64)[rows]
            scales = scales if factors is None else (scales.T * factors).T
            if order is not None:
                stored, scales = stored[order], scales[order]
            stored = stored if columns is None else stored[:, columns]
            return stored, scales if places is None else scales[:, places]

        scale = first.input_scale if isinstance(first, Int8Product) else None
        return Integers(scale, make, 1 if places is None else len(places), heads)


def _heads(columns: Array | None) -> int:
    """How many heads' surfaces take turns in an order of inputs; 1: it is another order."""
    if columns is None:
        return 1
    breaks = np.flatnonzero(np.diff(columns) != 1)
    if not len(breaks):
        return 1
    atom = int(breaks[0]) + 1
    heads = len(columns) // max(int(columns[atom]), 1)
    if len(columns) % (heads * atom):
        return 1
    turned = np.arange(len(columns)).reshape(heads, -1, atom).transpose(1, 0, 2).reshape(-1)
    return heads if np.array_equal(turned, columns) else 1


def _groups(name: str, product: Int8Product | Int4Product, columns: Array | None) -> Array | None:
    """Groups of the inputs that are taken, which are contiguous; None: weights of int8."""
    if isinstance(product, Int8Product):
        return None
    count = product.scales.shape[1]
    inputs = np.arange(product.weights.shape[1]) if columns is None else np.asarray(columns)
    if count == 1:
        return np.zeros(1, np.int64)
    size = product.weights.shape[1] // count
    found = inputs.reshape(-1, size) // size if len(inputs) % size == 0 else np.zeros((1, 2))
    if np.any(found != found[:, :1]) or np.any(np.diff(inputs) != 1):
        raise OptionError(f"{name} takes its inputs in another order than groups of {size} have; quantise it with one "
                          "scale per output")  # fmt: skip
    return np.asarray(found[:, 0])
