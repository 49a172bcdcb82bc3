"""The parts of a `Model` into FlatBuffer tables of any generation; `schema` says which slot holds what.

A slot that a generation does not have is left out: what it would hold is somewhere else in the file, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from openrknn.container.builder import Builder, Slot
from openrknn.container.parameters import PARAMETERS
from openrknn.container.parts import (
    Graph,
    InputPatch,
    Node,
    Normalization,
    OutputTask,
    Parameters,
    RelocationGroup,
    Tensor,
)
from openrknn.container.schema import Generation

_NOWHERE = -1


class _Slots:
    """Slot numbers by name; those that the generation does not have are negative."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers

    def __getitem__(self, name: str) -> int:
        return self._numbers.get(name, _NOWHERE)


class TableWriter:
    """Makes the slots of tables for one file; what they point to is written when the root is."""

    def __init__(self, generation: Generation, identifier: bytes) -> None:
        self._generation = generation
        self._build = Builder(identifier)

    @property
    def build(self) -> Builder:
        return self._build

    def numbers(self, slots: Mapping[str, int], code: str, **values: float) -> Iterator[Slot]:
        """Scalars; FlatBuffers leave zeros out."""
        return (
            self._build.scalar(slots[name], code, value) for name, value in values.items() if value and name in slots
        )

    def texts(self, slots: Mapping[str, int], **values: str) -> Iterator[Slot]:
        return (self._build.text(slots[name], value) for name, value in values.items() if name in slots)

    def graph(self, graph: Graph) -> list[Slot]:
        build, slots = self._build, _Slots(self._generation.graph)
        return _kept(
            build.tables(slots["tensors"], (self._tensor(tensor) for tensor in graph.tensors)),
            build.tables(slots["nodes"], (self._node(node) for node in graph.nodes)),
            build.numbers(slots["inputs"], "i", graph.inputs),
            build.numbers(slots["outputs"], "i", graph.outputs),
            build.tables(slots["normalizations"], (self._normalization(entry) for entry in graph.normalizations)),
            build.tables(slots["relocations"], (self._relocation(group) for group in graph.relocations)),
            build.tables(slots["image_patches"], self._patches(graph.image_patches)),
            build.tables(slots["convert_patches"], self._patches(graph.convert_patches)),
            build.numbers(slots["list_starts"], "i", graph.list_starts),
            build.tables(slots["output_tasks"], (self._output_task(entry) for entry in graph.output_tasks)),
            *(build.numbers(number, "i", ()) for number in self._generation.empty_graph),
        )

    def _tensor(self, tensor: Tensor) -> list[Slot]:
        build, known = self._build, self._generation.tensor
        slots = _Slots(known)
        quantization = tensor.quantization
        amounts, offsets, third = tensor.compression or ((), (), ())
        return _kept(
            *self.numbers(
                known,
                "B",
                dtype=tensor.dtype,
                layout=tensor.layout,
                kind=tensor.kind,
                memory_class=tensor.memory_class,
            ),
            *self.numbers(known, "I", size_bytes=tensor.size_bytes, offset=tensor.offset),
            *self.numbers(
                known,
                "i",
                compressed=tensor.compressed,
                blob=tensor.blob,
                identity=tensor.identity,
                pixel_alignment=tensor.pixel_alignment,
                row_alignment=tensor.row_alignment,
            ),
            *self.texts(known, name=tensor.name, granularity=tensor.granularity, quantized_type=tensor.quantized_type),
            build.numbers(slots["native_shape"], "i", tensor.native_shape),
            build.numbers(slots["shape"], "i", tensor.shape),
            build.numbers(slots["minimum"], "f", tensor.minimum),
            build.numbers(slots["maximum"], "f", tensor.maximum),
            build.numbers(slots["scale"], "f", quantization.scale if quantization else ()),
            build.numbers(slots["zero_point"], "i", quantization.zero_point if quantization else ()),
            build.numbers(slots["compressed_amounts"], "i", amounts),
            build.numbers(slots["compressed_offsets"], "i", offsets),
            build.numbers(slots["compressed_third"], "i", third),
        )

    def _node(self, node: Node) -> list[Slot]:
        build, known = self._build, self._generation.node
        slots = _Slots(known)
        return _kept(
            *self.texts(known, type=node.type, name=node.name),
            *self.numbers(known, "B", target=node.target, mac_flag=node.mac_flag),
            build.numbers(slots["inputs"], "i", node.inputs),
            build.numbers(slots["outputs"], "i", node.outputs),
            *self._parameters(node.parameters),
            build.raw(slots["attributes"], node.attribute_bytes, 1),
            build.numbers(slots["task_counts"], "i", node.task_counts),
            build.numbers(slots["lut_task_counts"], "i", node.lut_task_counts),
            *([build.numbers(slots["workloads"], "i", node.workloads)] if node.workloads else []),
            # Tables that the vendor's converter fills with whatever its memory held: they are there, and empty.
            *(build.table_slot(number, ()) for number in self._generation.ignored_node),
        )

    def _parameters(self, parameters: Parameters | None) -> Iterator[Slot]:
        if parameters is None or parameters.values is None:
            return
        build, slots = self._build, self._generation.node
        inner: list[Slot] = []
        for number, (name, coding) in enumerate(PARAMETERS[parameters.type].slots):
            value = parameters.values.get(name)
            if isinstance(value, str):
                inner.append(build.text(number, value))
            elif coding == "ss" and isinstance(value, tuple):
                inner.append(build.texts(number, [str(word) for word in value]))
            elif isinstance(value, tuple):
                inner.append(
                    build.numbers(number, "f" if coding == "fs" else "i", [n for n in value if not isinstance(n, str)])
                )
            elif value is not None:
                inner.append(build.scalar(number, coding, value))
        yield build.scalar(slots["parameter_type"], "B", parameters.type)
        yield build.table_slot(slots["parameters"], inner)

    def _normalization(self, entry: Normalization) -> list[Slot]:
        build = self._build
        return [
            build.numbers(0, "f", entry.mean),
            build.numbers(1, "f", entry.std),
            build.numbers(2, "i", entry.order),
        ]

    def _relocation(self, group: RelocationGroup) -> list[Slot]:
        build, slots = self._build, _Slots(self._generation.relocation)
        return _kept(
            build.text(slots["tensor"], group.tensor),
            build.raw(slots["entries"], group.entries, 8),
            build.raw(slots["cores"], group.cores, 8),
        )

    def _patches(self, patches: Iterable[InputPatch]) -> Iterator[list[Slot]]:
        for name, members in groupby(patches, key=lambda patch: patch.input):
            yield [self._build.text(0, name), self._build.tables(1, [self._patch(patch) for patch in members])]

    def _patch(self, patch: InputPatch) -> list[Slot]:
        slots = [self._build.pair(number, *slot) for number, slot in enumerate(patch.raw_slots) if slot is not None]
        return slots + [
            self._build.scalar(number, "i", value) for number, value in ((7, patch.last), (8, patch.first_row)) if value
        ]

    def _output_task(self, entry: OutputTask) -> list[Slot]:
        return [self._build.text(0, entry.name), self._build.scalar(1, "i", entry.tasks)]


def _kept(*slots: Slot) -> list[Slot]:
    return [slot for slot in slots if slot[0] != _NOWHERE]
