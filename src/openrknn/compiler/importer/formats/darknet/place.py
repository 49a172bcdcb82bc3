"""A layer at its place in the network."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.compiler.importer.formats.assembly import Array, Assembly, Shape
from openrknn.compiler.importer.formats.darknet.activations import activate
from openrknn.compiler.importer.formats.darknet.cfg import Section
from openrknn.compiler.importer.formats.darknet.weights import Weights


@dataclass(frozen=True, slots=True)
class Place:
    """What a layer sees: its options, the value before it, all values before that, and the weights."""

    build: Assembly
    weights: Weights
    section: Section
    name: str
    source: str
    number: int
    values: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        """Of the value before it."""
        return self.build.shapes[self.source]

    def map_shape(self) -> tuple[int, int, int]:
        """Channels, rows, columns; a vector is a map of one pixel."""
        shape = self.shape
        return (shape[1], shape[2], shape[3]) if len(shape) == 4 else (shape[1], 1, 1)

    def as_map(self) -> str:
        """The value before it with rows and columns."""
        shape = self.shape
        return self.source if len(shape) == 4 else self.build.reshape(self.source, f"{self.name}.map", (*shape, 1, 1))

    def before(self, number: int) -> str:
        """The value of a layer: a negative number counts back from here, others from the start."""
        wanted = self.number + number if number < 0 else number
        if not 0 <= wanted < self.number:
            raise self.section.wrong(f"it takes layer {number}; only layers 0 to {self.number - 1} come before it")
        return self.values[wanted]

    def take(self, *shape: int) -> Array:
        """The next numbers of the weights file."""
        return self.weights.take(shape, f"[{self.section.kind}] at line {self.section.line}")

    def add(self, kind: str, inputs: list[str], suffix: str, shape: Shape | list[int], **attributes: object) -> str:
        """An operator of this layer."""
        return self.build.add(kind, inputs, self.name + suffix, shape, **attributes)

    def activated(self, value: str, default: str = "linear") -> str:
        """With the layer's activation."""
        kind = self.section.word("activation", default)
        return activate(self.build, value, self.name, self.section, kind)

    def suffix(self, default: str = "linear") -> str:
        """What the value before the activation is called: it has the layer's own name if there is none."""
        return "" if self.section.word("activation", default) == "linear" else ".sum"
