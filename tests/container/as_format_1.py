"""A model of today's format as toolkits 1.2 to 1.4 would have stored it: register lists instead of commands.

No converter that writes model format 1 can be installed any more. The slots are those that public files show: a
register list names its table in slot 1, and the table's tensor holds the lists that load it.
"""

from __future__ import annotations

import struct
from itertools import groupby

from openrknn.chips import TaskList
from openrknn.container.builder import Builder, Slot
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, Task, Tensor
from openrknn.isa.words import offset_of, value_of

_LOAD_MASK = 0x18
_TABLE = 0x4100, 0x20000
"""LUT_ACCESS_CFG, and the bit that opens a table for writing."""


def as_format_1(model: Model, *, tables: bool = True) -> bytes:
    """The file. Without `tables` no list names one, as if the file had lost them."""
    graph = model.graphs[0]
    build = Builder(b"RKNN")
    blobs: list[bytes] = [b""]
    kept = [tensor for tensor in graph.tensors if tensor.kind not in {Kind.COMMANDS, Kind.TASKS, Kind.LUT}]
    places = {tensor.index: number for number, tensor in enumerate(kept, 1)}
    stored = [[build.text(5, "")], *(_tensor(build, tensor, blobs) for tensor in kept)]

    def words_tensor(name: str, kind: Kind, words: list[int]) -> int:
        blobs.append(struct.pack(f"<{len(words)}Q", *words))
        stored.append([build.scalar(0, "B", 13), build.scalar(2, "B", kind), build.text(5, name),
                       build.scalar(18, "i", len(blobs) - 1)])  # fmt: skip
        return len(stored) - 1

    one_core = [graph.tasks[number] for number in graph.task_lists[TaskList(1, 0)]]
    nodes = []
    for node in graph.nodes:
        mine = [task for task in one_core if task.op_index == node.index]
        lists, loads = [], list[Task]()
        for is_load, run in groupby(mine, key=lambda task: _loads_table(graph, task)):
            if is_load:
                loads = list(run)
                continue
            for task in run:
                words = [word for load in loads for word in _words(graph, load)]
                lut = words_tensor(f"{node.type} {node.index}", Kind.LUT, words) if words and tables else 0
                source = words_tensor(f"list {len(stored)}", Kind.REGISTER_LIST, _words(graph, task))
                lists.append(_list(build, graph, task, source=source, lut=lut, places=places))
                loads = []
        nodes.append([
            build.text(1, node.type), build.text(2, node.name), build.scalar(3, "B", node.target),
            build.numbers(4, "i", [places[index] for index in node.inputs if index in places]),
            build.numbers(5, "i", [places[index] for index in node.outputs]), build.tables(6, lists),
        ])  # fmt: skip
    ends = [build.numbers(2 + at, "i", [places[index] for index in numbers])
            for at, numbers in enumerate((graph.inputs, graph.outputs))]  # fmt: skip
    payload = build.root([
        build.scalar(0, "i", 1), build.text(1, model.target),
        build.tables(2, [[build.tables(0, stored), build.tables(1, nodes), *ends]]),
        build.tables(4, [[build.raw(0, data, 1)] if data else [] for data in blobs]),
        build.text(7, "1.3.0-test(compiler 1.3.0)"), build.text(8, model.platform),
    ])  # fmt: skip
    header = b"RKNN\0\0\0\0" + struct.pack("<QQ", 2, len(payload)) + bytes(40)
    return header + payload + struct.pack("<Q2s", 2, b"{}")


def _tensor(build: Builder, tensor: Tensor, blobs: list[bytes]) -> list[Slot]:
    quantization = tensor.quantization
    scales = list(quantization.scale) if quantization else []
    zeros = list(quantization.zero_point) if quantization else []
    if tensor.data is not None:
        blobs.append(bytes(tensor.data))
    return [
        build.scalar(0, "B", tensor.dtype), build.scalar(1, "B", tensor.layout), build.scalar(2, "B", tensor.kind),
        build.numbers(3, "i", tensor.native_shape), build.numbers(4, "i", tensor.shape), build.text(5, tensor.name),
        build.text(6, tensor.granularity), build.text(7, tensor.quantized_type),
        build.numbers(10, "f", scales), build.numbers(11, "i", zeros),
        build.scalar(12, "I", tensor.size_bytes), build.scalar(13, "I", tensor.offset),
        build.scalar(18, "i", len(blobs) - 1 if tensor.data is not None else 0),
        build.scalar(19, "i", tensor.pixel_alignment), build.scalar(20, "i", tensor.row_alignment),
    ]  # fmt: skip


def _words(graph: Graph, task: Task) -> list[int]:
    return [value_of(word) << 32 | offset_of(word) << 16 for word in graph.task_words(task, tail=False)]


def _loads_table(graph: Graph, task: Task) -> bool:
    register, opens = _TABLE
    return task.enable_mask == _LOAD_MASK and any(
        offset_of(word) == register and value_of(word) & opens for word in graph.task_words(task, tail=False)
    )


def _list(
    build: Builder, graph: Graph, task: Task, *, source: int, lut: int, places: dict[int, int]
) -> list[Slot]:
    numbers = {tensor.name: places.get(tensor.index, 0) for tensor in graph.tensors}
    relocations = b"".join(
        struct.pack("<IIiIII", offset_of(graph.commands[entry.command]), numbers[group.tensor], entry.addend, 0, 0, 0)
        for group in graph.relocations
        for entry in group
        if task.first_command <= entry.command < task.first_command + task.amount
    )
    return [
        build.scalar(0, "i", source), build.scalar(1, "i", lut), build.scalar(3, "i", task.enable_mask),
        build.scalar(4, "i", task.int_mask), build.raw(5, relocations, 24), build.scalar(6, "i", 0),
        build.scalar(8, "i", 1),
    ]  # fmt: skip
