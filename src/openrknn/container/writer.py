"""A `Model` back into a container-6 file that the vendor's runtime accepts.

`load(encode(model)) == model` up to the path and the file's size. What the reader did not understand
(`Model.unknown`) would be lost, so such a model is refused unless the caller says that it may be.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from openrknn.container.builder import Builder, Slot
from openrknn.container.model import Model
from openrknn.container.outer import HEADER_BYTES, MAGIC, Flavour
from openrknn.container.parameters import PARAMETERS
from openrknn.container.parts import (
    DynamicInput,
    Graph,
    InputPatch,
    Node,
    Normalization,
    OutputTask,
    Parameters,
    RelocationGroup,
    Tensor,
)
from openrknn.container.schema import V6
from openrknn.errors import UnsupportedError

__all__ = ["encode"]

_CONTAINER_VERSION = 6
_IDENTIFIER = b"RKNN"


def encode(model: Model, *, drop_unknown: bool = False) -> bytes:
    """The bytes of a `.rknn` with this content.

    Raises `UnsupportedError` for mini and format-1 models, and, unless `drop_unknown`, for models with parts that are
    not understood.
    """
    if model.flavour is not Flavour.FLATBUFFER or model.format_version != 6:
        raise UnsupportedError(
            f"only container 6 can be written; this is a {model.flavour} file with model format {model.format_version}"
        )
    if model.unknown and not drop_unknown:
        raise UnsupportedError(f"writing would lose what is not understood: {'; '.join(model.unknown[:3])}")
    payload = _Writer(drop_unknown=drop_unknown).model(model)
    header = MAGIC + struct.pack("<QQ", _CONTAINER_VERSION, len(payload))
    json = bytes(model.json_bytes)
    return header.ljust(HEADER_BYTES, b"\0") + payload + struct.pack("<Q", len(json)) + json


class _Writer:
    def __init__(self, *, drop_unknown: bool) -> None:
        self._drop_unknown = drop_unknown
        self._build = Builder(_IDENTIFIER)

    def model(self, model: Model) -> bytes:
        build, slots = self._build, V6.model
        return build.root(
            [
                *self._numbers(slots, "i", format_version=model.format_version, toolkit_number=model.toolkit_number),
                *self._numbers(slots, "B", framework_layout=model.framework_layout),
                *self._texts(
                    slots,
                    target=model.target,
                    notes=model.notes_text,
                    toolkit_text=model.toolkit_text,
                    platform=model.platform,
                    framework=model.framework,
                    custom_string=model.custom_string,
                    input_json=model.input_json,
                    output_json=model.output_json,
                    batch_text=model.batch_text,
                    shape_mode=model.shape_mode,
                ),
                build.tables(slots["graphs"], (self._graph(graph) for graph in model.graphs)),
                build.numbers(V6.empty_model[-1], "i", ()),
                build.tables(slots["dynamic_inputs"], (self._dynamic(entry) for entry in model.dynamic_inputs)),
                build.texts(slots["shared_weights"], model.shared_weights),
                build.table_slot(
                    slots["memory"],
                    [
                        build.scalar(number, "Q", value)
                        for number, value in enumerate(model.memory)
                        if number < 2 or value
                    ],
                ),
                build.tables(slots["blobs"], self._blobs(model)),
                build.text(slots["custom_operators"], model.custom_operators, wide=True),
            ]
        )

    def _numbers(self, slots: Mapping[str, int], code: str, **values: float) -> Iterator[Slot]:
        """Scalars; FlatBuffers leave zeros out."""
        return (self._build.scalar(slots[name], code, value) for name, value in values.items() if value)

    def _texts(self, slots: Mapping[str, int], **values: str) -> Iterator[Slot]:
        return (self._build.text(slots[name], value) for name, value in values.items())

    def _blobs(self, model: Model) -> Iterator[list[Slot]]:
        data = {
            tensor.blob: tensor.data
            for graph in model.graphs
            for tensor in graph.tensors
            if tensor.blob and tensor.data is not None
        }
        for number in range(max(data, default=0) + 1):
            yield [self._build.blob(0, data[number])] if number in data else []

    def _graph(self, graph: Graph) -> list[Slot]:
        build, slots = self._build, V6.graph
        return [
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
            *(build.numbers(number, "i", ()) for number in V6.empty_graph),
        ]

    def _tensor(self, tensor: Tensor) -> list[Slot]:
        build, slots = self._build, V6.tensor
        quantization = tensor.quantization
        amounts, offsets, third = tensor.compression or ((), (), ())
        return [
            *self._numbers(
                slots,
                "B",
                dtype=tensor.dtype,
                layout=tensor.layout,
                kind=tensor.kind,
                memory_class=tensor.memory_class,
            ),
            *self._numbers(slots, "I", size_bytes=tensor.size_bytes, offset=tensor.offset),
            *self._numbers(
                slots,
                "i",
                compressed=tensor.compressed,
                blob=tensor.blob,
                pixel_alignment=tensor.pixel_alignment,
                row_alignment=tensor.row_alignment,
            ),
            *self._texts(slots, name=tensor.name, granularity=tensor.granularity, quantized_type=tensor.quantized_type),
            build.numbers(slots["native_shape"], "i", tensor.native_shape),
            build.numbers(slots["shape"], "i", tensor.shape),
            build.numbers(slots["minimum"], "f", tensor.minimum),
            build.numbers(slots["maximum"], "f", tensor.maximum),
            build.numbers(slots["scale"], "f", quantization.scale if quantization else ()),
            build.numbers(slots["zero_point"], "i", quantization.zero_point if quantization else ()),
            build.numbers(slots["compressed_amounts"], "i", amounts),
            build.numbers(slots["compressed_offsets"], "i", offsets),
            build.numbers(slots["compressed_third"], "i", third),
        ]

    def _node(self, node: Node) -> list[Slot]:
        build, slots = self._build, V6.node
        return [
            *self._texts(slots, type=node.type, name=node.name),
            *self._numbers(slots, "B", target=node.target, mac_flag=node.mac_flag),
            build.numbers(slots["inputs"], "i", node.inputs),
            build.numbers(slots["outputs"], "i", node.outputs),
            *self._parameters(node.parameters),
            build.raw(slots["attributes"], node.attribute_bytes, 1),
            build.numbers(slots["task_counts"], "i", node.task_counts),
            build.numbers(slots["lut_task_counts"], "i", node.lut_task_counts),
            *([build.numbers(slots["workloads"], "i", node.workloads)] if node.workloads else []),
        ]

    def _parameters(self, parameters: Parameters | None) -> Iterator[Slot]:
        if parameters is None or parameters.values is None:
            return
        build, slots = self._build, V6.node
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
        build, slots = self._build, V6.relocation
        return [
            build.text(slots["tensor"], group.tensor),
            build.raw(slots["entries"], group.entries, 8),
            build.raw(slots["cores"], group.cores, 8),
        ]

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

    def _dynamic(self, entry: DynamicInput) -> list[Slot]:
        build = self._build
        return [build.tables(0, ([build.numbers(0, "i", shape)] for shape in entry.shapes))]
