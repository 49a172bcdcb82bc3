"""The payload of a mini file (0x1004): the inverse of `mini`.

Everything is linked while it is written: each place that holds an address gets the one that its tensor has in the plan
[commands | compiler constants | weights | internal memory] with base 0, so that a loader only has to add where the
image is. In files of the vendor's converter the places hold these addresses already: head, task records, commands
and constants of a file that is read and written again are equal byte for byte; the names are another FlatBuffer with
the same content.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping

from openrknn.container.mini import HEAD, HEAD_BYTES
from openrknn.container.model import Model
from openrknn.container.parts import TASK, Graph, Kind, Tensor
from openrknn.container.schema import MINI
from openrknn.container.table_writer import TableWriter
from openrknn.errors import BadRelocationError, BadTensorError, UnsupportedError
from openrknn.isa.words import WORD_BYTES, with_value

CONTAINER_VERSION = 0x1004
_IDENTIFIER = b"RKNN"
_ALIGNMENT = 64
_ADDRESS_LIMIT = 1 << 32
_WEIGHTS = {Kind.WEIGHT, Kind.CPU_CONSTANT, Kind.LUT}


def payload(model: Model) -> bytes:
    """Head, task records, commands, constants, weights, names."""
    if len(model.graphs) != 1 or model.is_dynamic:
        raise UnsupportedError(f"a mini file has one graph, this model has {len(model.graphs)}: write container 6")
    graph = model.graphs[0]
    constants = _region(_constants(model, graph), model.memory.constant_bytes)
    weights = _region(_weights(model, graph), model.memory.weight_bytes)
    starts = _starts(model, graph, len(constants), len(weights))
    commands = _linked(graph, starts)
    tasks = b"".join(TASK.pack(*task) for task in graph.tasks)
    tasks += bytes(-len(tasks) % _ALIGNMENT)
    names = _names(model)
    sizes = (len(names), len(tasks), len(graph.tasks), len(commands), model.memory.internal_bytes, len(weights))
    head = HEAD.pack(*sizes, len(constants)).ljust(HEAD_BYTES, b"\0")
    return head + tasks + commands + constants + weights + names


def _has_own_region(model: Model) -> bool:
    """Toolkit 1.6.1 has no region for the compiler's constants: they lie among the weights."""
    return model.memory.constant_bytes > 0


def _constants(model: Model, graph: Graph) -> Iterable[Tensor]:
    own = _has_own_region(model)
    return [tensor for tensor in graph.tensors if own and tensor.kind is Kind.COMPILER_CONSTANT]


def _weights(model: Model, graph: Graph) -> Iterable[Tensor]:
    kinds = _WEIGHTS if _has_own_region(model) else {*_WEIGHTS, Kind.COMPILER_CONSTANT}
    return [tensor for tensor in graph.tensors if tensor.kind in kinds]


def _region(tensors: Iterable[Tensor], size: int) -> bytes:
    made = bytearray(size)
    for tensor in tensors:
        if tensor.data is None or not len(tensor.data):
            continue
        if tensor.offset + len(tensor.data) > size:
            raise BadTensorError(
                f"{len(tensor.data)} bytes at {tensor.offset:#x} are outside its region of {size:#x} bytes",
                section=f"tensor {tensor.index} {tensor.name!r}",
            )
        made[tensor.offset : tensor.offset + len(tensor.data)] = tensor.data
    return bytes(made)


def _starts(model: Model, graph: Graph, constants: int, weights: int) -> dict[str, int]:
    """Tensor name -> its address in the plan; a lookup table is the commands."""
    constant_start = len(graph.commands) * WORD_BYTES
    weight_start = constant_start + constants
    internal_start = weight_start + weights
    if internal_start + model.memory.internal_bytes > _ADDRESS_LIMIT:
        raise BadTensorError("the model does not fit into the NPU's 32-bit addresses", section="mini head")
    own = _has_own_region(model)
    found: dict[str, int] = {}
    for tensor in graph.tensors:
        if tensor.kind.is_activation:
            found[tensor.name] = internal_start + tensor.offset
        elif tensor.kind is Kind.COMPILER_CONSTANT and own:
            found[tensor.name] = constant_start + tensor.offset
        elif tensor.kind in {Kind.COMMANDS, Kind.LUT}:
            found[tensor.name] = 0
        elif tensor.kind in _WEIGHTS or tensor.kind is Kind.COMPILER_CONSTANT:
            found[tensor.name] = weight_start + tensor.offset
    return found


def _linked(graph: Graph, starts: Mapping[str, int]) -> bytes:
    """The commands with every address filled in; links between tasks count from the first command already."""
    words = array("Q", graph.commands)
    for group in graph.relocations:
        if group.tensor not in starts:
            raise BadRelocationError("no tensor with a place has this name", section=f"relocations of {group.tensor!r}")
        for addend, command in struct.iter_unpack("<iI", group.entries):
            if command >= len(words):
                raise BadRelocationError(
                    f"command {command} is to be patched, but there are {len(words)}",
                    section=f"relocations of {group.tensor!r}",
                )
            words[command] = with_value(words[command], starts[group.tensor] + addend)
    return words.tobytes()


def _names(model: Model) -> bytes:
    writer = TableWriter(MINI, _IDENTIFIER)
    slots = MINI.model
    return writer.build.root(
        [
            *writer.numbers(slots, "i", format_version=model.format_version, toolkit_number=model.toolkit_number),
            *writer.texts(
                slots,
                target=model.target,
                notes=model.notes_text,
                toolkit_text=model.toolkit_text,
                platform=model.platform,
                framework=model.framework,
                custom_string=model.custom_string,
            ),
            writer.build.tables(slots["graphs"], (writer.graph(graph) for graph in model.graphs)),
        ]
    )
