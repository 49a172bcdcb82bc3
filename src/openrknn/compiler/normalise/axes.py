"""How a value follows from another one by Reshape and Transpose alone: factors of its size, in another order.

    base [1, 64, 1, 20]  ->  [1, 2, 32, 20]  ->  [1, 20, 2, 32]     sizes (2, 32, 20), order (2, 0, 1)

The sizes stand in the base's own order (row by row); `order` says in which order the value runs through them. Sizes
of 1 do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openrknn.compiler.ir import Array


@dataclass(frozen=True, slots=True)
class View:
    """A value that holds the numbers of `base`, permuted."""

    base: str
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, base: str, shape: Sequence[int]) -> View:
        """A value as itself."""
        sizes = tuple(size for size in shape if size != 1)
        return cls(base, sizes, tuple(range(len(sizes))))

    @property
    def is_plain(self) -> bool:
        """Whether nothing changes its place."""
        return self.order == tuple(range(len(self.order)))

    def _split(self, factor: int, first: int) -> View:
        """One factor becomes two."""
        sizes = (*self.sizes[:factor], first, self.sizes[factor] // first, *self.sizes[factor + 1 :])
        order: list[int] = []
        for entry in self.order:
            order += [entry, entry + 1] if entry == factor else [entry + (entry > factor)]
        return View(self.base, sizes, tuple(order))

    def _cut(self, sequence: str, shape: Sequence[int]) -> tuple[View, list[list[int]]] | None:
        """Factors that end where the dimensions of a shape end, and those of each dimension."""
        view, at = self, 0
        groups: list[list[int]] = []
        for size in shape:
            left = size
            group: list[int] = []
            while left > 1:
                running = view.order if sequence == "order" else tuple(range(len(view.sizes)))
                if at >= len(running):
                    return None
                factor = running[at]
                found = view.sizes[factor]
                if left % found and found % left:
                    return None
                if found > left:
                    view = view._split(factor, left)
                    found = left
                    if sequence == "order":  # earlier entries behind this factor moved by one
                        groups = [[entry + (entry > factor) for entry in other] for other in groups]
                        group = [entry + (entry > factor) for entry in group]
                group.append(factor)
                left //= found
                at += 1
            groups.append(group)
        return view, groups

    def dimensions(self, shape: Sequence[int]) -> tuple[View, list[list[int]]] | None:
        """Cut for the value's shape: the factors of each of its dimensions."""
        return self._cut("order", shape)

    def base_dimensions(self, shape: Sequence[int]) -> tuple[View, list[list[int]]] | None:
        """Cut for the base's shape: the factors of each of the base's dimensions."""
        return self._cut("sizes", shape)

    def transposed(self, shape: Sequence[int], order: Sequence[int]) -> View | None:
        """The value once more transposed."""
        cut = self.dimensions(shape)
        if cut is None:
            return None
        view, groups = cut
        return View(view.base, view.sizes, tuple(factor for axis in order for factor in groups[axis])).joined()

    def joined(self) -> View:
        """With as few factors as possible."""
        view, at = self, 0
        while at + 1 < len(view.order):
            factor = view.order[at]
            if view.order[at + 1] != factor + 1:
                at += 1
                continue
            sizes = (*view.sizes[:factor], view.sizes[factor] * view.sizes[factor + 1], *view.sizes[factor + 2 :])
            order = tuple(entry - (entry > factor) for entry in view.order if entry != factor + 1)
            view = View(view.base, sizes, order)
        return view

    def without_ones(self) -> View:
        """Sizes of 1 do not count."""
        kept = [at for at, size in enumerate(self.sizes) if size != 1]
        order = tuple(kept.index(entry) for entry in self.order if entry in kept)
        return View(self.base, tuple(self.sizes[at] for at in kept), order)

    def same_order(self, other: View) -> bool:
        """Whether both run through their bases alike."""
        one, two = self.joined(), other.joined()
        return (one.sizes, one.order) == (two.sizes, two.order)

    def forward(self, array: Array, shape: Sequence[int]) -> Array:
        """The value from its base."""
        return array.reshape(self.sizes).transpose(self.order).reshape(tuple(shape))

    def backward(self, array: Array, shape: Sequence[int]) -> Array:
        """The base from the value."""
        back = np.argsort(self.order) if self.order else ()
        return array.reshape([self.sizes[entry] for entry in self.order]).transpose(tuple(back)).reshape(tuple(shape))
