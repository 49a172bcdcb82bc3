"""Writes a model in the first mini container (0x1003), which no converter that can be installed writes any more.

The plan is [task records | commands | weights | internal memory], linked at 0; the names are JSON in base64. The layout
is that of files in a camera maker's SDK (docs/wild.md); the network inside is one of our goldens.
"""

from __future__ import annotations

import base64
import json
import struct
from array import array
from typing import Any

from openrknn.container.model import Model
from openrknn.container.parts import TASK, Graph, Kind, Tensor
from openrknn.container.schema import patch_offsets

LINK = 0x0101_0000_0000_0010
REGISTER = 0xFFFF_0000_0000_FFFF
VALUE = 0xFFFFFFFF << 16
CATEGORIES = {
    Kind.INPUT: "INPUT",
    Kind.OUTPUT: "OUTPUT",
    Kind.INTERNAL: "INTERNAL",
    Kind.WEIGHT: "WEIGHT",
    Kind.COMPILER_CONSTANT: "WEIGHT",
    Kind.CPU_CONSTANT: "COEFF",
}
TARGETS = {0: "CPU", 1: "GPU", 2: "NPU"}


def whole(size: int) -> int:
    return -(-size // 64) * 64


def as_old_mini(model: Model) -> bytes:
    graph = model.graphs[0]
    places, weights = constants(graph)
    task_bytes = whole(len(graph.tasks) * TASK.size)
    weight_start = task_bytes + whole(8 * len(graph.commands))
    internal_start = weight_start + len(weights)
    internal = max(tensor.offset + whole(tensor.size_bytes) for tensor in graph.tensors if tensor.kind.is_activation)
    located = {tensor.name: internal_start + tensor.offset for tensor in graph.tensors if tensor.kind.is_activation}
    located |= {name: weight_start + offset for name, offset in places.items()}
    names = base64.b64encode(json.dumps(described(model, located)).encode())
    commands = linked(graph, located, task_bytes)
    commands += bytes(whole(len(commands)) - len(commands))
    tasks = b"".join(TASK.pack(*task) for task in graph.tasks)
    sizes = (len(names), task_bytes, len(graph.tasks), len(commands), internal, len(weights), 0)
    head = struct.pack("<7I", *sizes) + bytes(64 - 28)
    payload = head + names + tasks + bytes(task_bytes - len(tasks)) + commands + weights
    header = b"RKNN\0\0\0\0" + struct.pack("<QQ", 0x1003, len(payload)) + bytes(40)
    return header + payload + struct.pack("<Q2s", 2, b"{}")


def constants(graph: Graph) -> tuple[dict[str, int], bytes]:
    places: dict[str, int] = {}
    data = b""
    for tensor in graph.tensors:
        if tensor.data and CATEGORIES.get(tensor.kind) in {"WEIGHT", "COEFF"}:
            places[tensor.name] = len(data)
            data += bytes(tensor.data) + bytes(whole(len(tensor.data)) - len(tensor.data))
    return places, data


def linked(graph: Graph, located: dict[str, int], task_bytes: int) -> bytes:
    words = array("Q", graph.commands)
    for group in graph.relocations:
        for entry in group:
            words[entry.command] = words[entry.command] & ~VALUE | (located[group.tensor] + entry.addend) << 16
    for task in graph.tasks:
        at = task.first_command + task.amount
        if words[at] & REGISTER == LINK:
            words[at] += task_bytes << 16
    return words.tobytes()


def task_of(graph: Graph, command: int) -> int:
    return next(
        number
        for number, task in enumerate(graph.tasks)
        if task.first_command <= command < task.first_command + task.amount
    )


def described(model: Model, located: dict[str, int]) -> dict[str, Any]:
    graph = model.graphs[0]
    claims: dict[str, list[dict[str, int]]] = {
        group.tensor: [
            {
                "addr_regofs": graph.commands[entry.command] & 0xFFFF,
                "task_start": task_of(graph, entry.command),
                "task_number": 1,
            }
            for entry in group
        ]
        for group in graph.relocations
    }
    start = 0
    operators = []
    for node in graph.nodes:
        count = sum(node.task_counts)
        operators.append(
            {
                "type": node.type,
                "name": node.name,
                "inputs": list(node.inputs) or None,
                "outputs": list(node.outputs) or None,
                "target": TARGETS[node.target],
                "params": None,
                "taskinfo": {"task_start": start, "task_number": count},
            }
        )
        start += count
    inputs = [graph.tensors[index] for index in graph.inputs]
    return {
        "target": model.target,
        "target_platform": model.platform,
        "toolkit_version": model.toolkit_text,
        "framework_name": model.framework,
        "custom_string": model.custom_string,
        "description": model.notes_text,
        "inputs": [{"name": tensor.name, "stride_align_size": tensor.row_alignment} for tensor in inputs],
        "operators": operators,
        "subgraph_tensors": [entry_of(tensor, located, claims.get(tensor.name)) for tensor in graph.tensors],
        "argb_configs": converters(model, graph),
    }


def entry_of(tensor: Tensor, located: dict[str, int], claims: list[dict[str, int]] | None) -> dict[str, Any]:
    quantization = tensor.quantization
    return {
        "category": CATEGORIES.get(tensor.kind, "UNDEFINED"),
        "dtype": tensor.dtype.name if tensor.dtype.bits else "UNDEFINED",
        "layout": tensor.layout.name,
        "name": tensor.name,
        "offset": located.get(tensor.name, 0) if tensor.kind.is_activation else 0,
        "orig_shape": list(tensor.shape) or None,
        "shape": list(tensor.native_shape) or None,
        "quantinfo": {
            "scale": quantization.scale[0] if quantization else 1.0,
            "zp": quantization.zero_point[0] if quantization else 0,
        },
        "taskinfos": claims,
    }


def converters(model: Model, graph: Graph) -> list[dict[str, Any]]:
    """The nine registers of the input converter, with what uint8 pictures need (`org`) and what int8 needs (`pt`)."""
    registers = patch_offsets(model.chip.family, "convert")[:9]
    found = []
    for patch in graph.convert_patches:
        slots = [(slot, register) for slot, register in zip(patch.slots, registers, strict=False) if slot is not None]
        found.append(
            {
                "name": patch.input,
                "taskinfos": [{"task_start": task_of(graph, slots[0][0].command), "task_number": 1}],
                "argb_reginfos": [
                    {"addr_regofs": register, "org_regval": slot.value, "pt_regval": 0} for slot, register in slots
                ],
            }
        )
    return found
