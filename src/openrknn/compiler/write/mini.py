"""Models in the form of the chips that keep everything in one image, and with the converter set for uint8 pictures."""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace

from openrknn.container.mini_writer import CONTAINER_VERSION
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.parts import Graph, InputPatch, Kind, MemoryPlan, PatchSlot, Tensor
from openrknn.container.patch import input_values
from openrknn.isa.words import value_of, with_value

_ALIGNMENT = 64
_NO_IDENTITY = -1


def as_mini(model: Model) -> Model:
    """Constants one after the other in the region of weights; operators without what only a CPU reads."""
    graph = model.graphs[0]
    tensors, offset = [], 0
    for tensor in graph.tensors:
        entry = replace(tensor, blob=0, identity=tensor.index + _NO_IDENTITY, minimum=(), maximum=(), granularity="",
                        quantized_type="")  # fmt: skip
        if tensor.kind in {Kind.COMMANDS, Kind.TASKS}:
            entry = replace(entry, size_bytes=0)
        elif tensor.data is not None:
            entry = replace(entry, offset=offset, size_bytes=len(tensor.data))
            offset += -(-len(tensor.data) // _ALIGNMENT) * _ALIGNMENT
        tensors.append(entry)
    nodes = tuple(
        replace(node, parameters=None, attribute_bytes=node.attribute_bytes if _is_end(node.type) else memoryview(b""))
        for node in graph.nodes
    )
    return replace(
        model, container_version=CONTAINER_VERSION, flavour=Flavour.MINI,
        graphs=(replace(graph, tensors=tuple(tensors), nodes=nodes, output_tasks=()),),
        memory=MemoryPlan(offset, model.memory.internal_bytes, 0),
    )  # fmt: skip


def _is_end(kind: str) -> bool:
    return kind in {"InputOperator", "OutputOperator"}


def with_pixels(model: Model) -> Model:
    """The input converter as uint8 pictures need it: what files hold of chips whose runtime expects it there."""
    return replace(model, graphs=tuple(_with_pixels(model, graph) for graph in model.graphs))


def _with_pixels(model: Model, graph: Graph) -> Graph:
    inputs = {graph.tensors[index].name: True for index in graph.inputs}
    words = array("Q", graph.commands)
    for command, value in input_values(model, graph, inputs):
        words[command] = with_value(words[command], value & 0xFFFF_FFFF)
    commands = memoryview(words.tobytes()).cast("Q")
    return replace(
        graph, commands=commands, tensors=tuple(_with_stream(tensor, commands) for tensor in graph.tensors),
        convert_patches=tuple(_patch(patch, commands) for patch in graph.convert_patches),
    )  # fmt: skip


def _with_stream(tensor: Tensor, commands: memoryview) -> Tensor:
    return replace(tensor, data=commands.cast("B")) if tensor.kind is Kind.COMMANDS else tensor


def _patch(patch: InputPatch, commands: memoryview) -> InputPatch:
    """The values that the table holds are those of the commands, as signed numbers."""

    def stored(slot: PatchSlot | None) -> PatchSlot | None:
        if slot is None:
            return None
        return PatchSlot(struct.unpack("<i", struct.pack("<I", value_of(commands[slot.command])))[0], slot.command)

    raw = tuple(stored(slot) if slot in patch.slots else slot for slot in patch.raw_slots)
    return replace(patch, slots=tuple(map(stored, patch.slots)), raw_slots=raw)
