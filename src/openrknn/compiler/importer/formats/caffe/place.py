"""A layer of Caffe at its place in the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.assembly import Array, Assembly, Shape
from openrknn.compiler.importer.formats.caffe.message import Message


@dataclass(frozen=True, slots=True)
class Place:
    """What a layer sees: its fields, the values that go in, the names that come out, and its arrays."""

    build: Assembly
    layer: Message
    name: str
    kind: str
    sources: tuple[str, ...]
    tops: tuple[str, ...]
    blobs: tuple[Array, ...]
    weights_file: str

    @property
    def source(self) -> str:
        """The first value that goes in."""
        return self.sources[0]

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.build.shapes[self.sources[0]]

    def wrong(self, text: str) -> ModelError:
        """An error that says where."""
        return ModelError(f"{self.layer.where}: {text}")

    def param(self, name: str) -> Message:
        """The fields of this kind of layer."""
        return self.layer.inner(f"{name}_param")

    def axis(self, number: int, rank: int | None = None) -> int:
        """An axis that may be counted from the end."""
        rank = len(self.shape) if rank is None else rank
        if not -rank <= number < rank:
            raise self.wrong(f"there is no axis {number} in {list(self.shape)}")
        return number % rank

    def map_shape(self) -> tuple[int, int, int, int]:
        """Of a value that has to be pictures."""
        if len(self.shape) != 4:
            raise self.wrong(f"it needs a value with four dimensions, not {list(self.shape)}")
        return self.shape[0], self.shape[1], self.shape[2], self.shape[3]

    def array(self, number: int, shape: Sequence[int], what: str) -> Array:
        """One of its arrays; old files write them with four dimensions."""
        if number >= len(self.blobs):
            raise self.wrong(
                f"its {what} are missing in {self.weights_file}; the two files do not belong together, or the layer "
                "has another name there"
            )
        found = self.blobs[number]
        if found.size != math.prod(shape):
            raise self.wrong(f"its {what} should be {list(shape)}; {self.weights_file} has {list(found.shape)}")
        return found.reshape(tuple(shape))

    def constant(self, suffix: str, array: object, dtype: object = "float32") -> str:
        """A constant of this layer."""
        return self.build.constant(f"{self.name}.{suffix}", array, dtype)  # type: ignore[arg-type]

    def add(
        self, kind: str, inputs: Sequence[str], shape: Sequence[int], suffix: str = "", **attributes: object
    ) -> str:
        """An operator; without a suffix it makes the layer's result."""
        return self.build.add(kind, inputs, self.tops[0] if not suffix else f"{self.name}.{suffix}", shape,
                              **attributes)  # fmt: skip

    def reshape(self, value: str, shape: Sequence[int], suffix: str = "") -> str:
        """A Reshape."""
        return self.build.reshape(value, self.tops[0] if not suffix else f"{self.name}.{suffix}", shape)

    def with_number(self, kind: str, value: str, number: float, suffix: str = "") -> str:
        """One operation of each element with a number."""
        constant = self.constant(f"{kind.lower()}", number)
        return self.add(kind, [value, constant], self.build.shapes[value], suffix)
