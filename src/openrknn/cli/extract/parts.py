"""The parts of a model, written one kind at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.analysis.explain import list_label
from openrknn.analysis.weights.arrays import bias_array, constant_array, real_bias, weight_array
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader, WeightUse
from openrknn.cli.common.folder import Folder, safe_name
from openrknn.cli.common.output import Mode, Output
from openrknn.container.compressed import may_be_compressed
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind, Layout, Quantization, Tensor
from openrknn.container.tables import table_loads
from openrknn.errors import BadTextError, UnsupportedError

__all__ = ["write_commands", "write_constants", "write_tables", "write_texts"]

_NOT_CONSTANTS = {Kind.COMMANDS, Kind.TASKS, Kind.LUT, Kind.REGISTER_LIST}


# -------------------------------------------------------------------------------------------------- weights


@dataclass(frozen=True, slots=True)
class _Owner:
    """The operator that uses a tensor, and how."""

    operator: Operator
    use: WeightUse


def write_constants(
    model: Model, graph: Graph, folder: Folder, prefix: str, wanted: set[str], *, as_float: bool
) -> None:
    """Weights, biases and other constants; graphs that share the data of graph 0 write nothing again."""
    reader = WeightReader(model, graph)
    weights: dict[int, _Owner] = {}
    biases: dict[int, _Owner] = {}
    for operator in model.operators_of(graph):
        use = reader.use(operator)
        if use is not None:
            weights.setdefault(use.tensor.index, _Owner(operator, use))
            if use.operands is not None:
                biases.setdefault(use.operands.index, _Owner(operator, use))
    for tensor in graph.tensors:
        if not tensor.data or tensor.kind in _NOT_CONSTANTS:
            continue
        name = f"{tensor.index:04d}_{safe_name(tensor.name)}"
        if tensor.index in weights or tensor.layout is Layout.O1I1HWI2O2 or may_be_compressed(tensor):
            if "weights" in wanted:
                _Weight(reader, folder, f"{prefix}weights/{name}", tensor, weights.get(tensor.index)).write(as_float)
        elif tensor.index in biases:
            if "weights" in wanted:
                _write_bias(reader, folder, f"{prefix}biases/{name}", biases[tensor.index], as_float=as_float)
        elif "constants" in wanted:
            _write_constant(model, folder, f"{prefix}constants/{name}", tensor)


def _about(tensor: Tensor) -> dict[str, Any]:
    return {
        **({"compressed": True} if tensor.compressed else {}),
        "tensor": tensor.name,
        "kind": tensor.kind.name.lower(),
        "stored_as": tensor.dtype.label,
        "native_shape": list(tensor.native_shape),
    }


@dataclass(frozen=True, slots=True)
class _Weight:
    reader: WeightReader
    folder: Folder
    path: str
    tensor: Tensor
    owner: _Owner | None

    def write(self, as_float: bool) -> None:
        use = self.owner.use if self.owner else None
        about = _about(use.tensor if use else self.tensor)
        try:
            weights = weight_array(self.reader, self.tensor, use)
        except UnsupportedError as problem:
            self.folder.add_bytes(
                f"{self.path}.bin", self.tensor.data or b"", "weights as stored", **about, problem=str(problem)
            )
            return
        about["order"] = {"depthwise": "CIHW", "transposed": "IOHW"}.get(use.form if use else "", "OIHW")
        if self.owner:
            about["operator"] = self.owner.operator.name
        quantization, more = self._quantization()
        self.folder.add_array(f"{self.path}.npy", weights, "weights", **about, **more)
        if as_float and quantization is not None:
            real = numerics.dequantize(weights, quantization.scale, quantization.zero_point, axis=quantization.axis)
            self.folder.add_array(f"{self.path}.float.npy", real, "weights as real numbers", **about)

    def _quantization(self) -> tuple[Quantization | None, dict[str, Any]]:
        if self.owner is None:
            return None, {}
        try:
            found = quantization_of(self.reader, self.owner.operator, self.owner.use)
        except UnsupportedError as problem:
            return None, {"scale_problem": str(problem)}
        if found is None:
            return None, {}
        return found, {"axis": found.axis, "scale": list(found.scale), "zero_point": list(found.zero_point)}


def _write_bias(reader: WeightReader, folder: Folder, path: str, owner: _Owner, *, as_float: bool) -> None:
    operator, use = owner.operator, owner.use
    tensor = use.operands
    if tensor is None:
        return
    about = {**_about(tensor), "operator": operator.name, "weights": use.tensor.name}
    try:
        bias = bias_array(reader, use)
    except UnsupportedError as problem:
        folder.add_bytes(f"{path}.bin", tensor.data or b"", "operands as stored", **about, problem=str(problem))
        return
    if bias is None:
        folder.add_bytes(f"{path}.bin", tensor.data or b"", "operands as stored", **about)
        return
    folder.add_array(f"{path}.npy", bias, "biases", **about)
    if not as_float:
        return
    try:
        quantization = quantization_of(reader, operator, use)
        weights = weight_array(reader, use.tensor, use)
    except UnsupportedError:
        return
    real = real_bias(reader, operator, use, weights, quantization) if quantization is not None else None
    if real is not None:
        folder.add_array(f"{path}.float.npy", real, "biases as real numbers", **about)


def _write_constant(model: Model, folder: Folder, path: str, tensor: Tensor) -> None:
    about = _about(tensor)
    try:
        folder.add_array(f"{path}.npy", constant_array(model, tensor), "constants", **about)
    except UnsupportedError as problem:
        folder.add_bytes(f"{path}.bin", tensor.data or b"", "constants as stored", **about, problem=str(problem))


# -------------------------------------------------------------------------------------------------- tables, commands


def write_tables(graph: Graph, folder: Folder, prefix: str) -> None:
    """Look-up tables, each different one once: row 0 for negative inputs, row 1 for positive ones."""
    halves: dict[str, dict[int, tuple[int, ...]]] = {}
    for load in table_loads(graph):
        entry = halves.setdefault(load.name, {})
        for row, entries in enumerate((load.negative, load.positive)):
            if entries is not None:
                entry.setdefault(row, entries)
    for number, (name, rows) in enumerate(halves.items()):
        for row, entries in rows.items():
            half = ("negative", "positive")[row]
            path = f"{prefix}tables/{number:02d}_{safe_name(name)}.{half}.npy"
            folder.add_array(path, np.array(entries, np.int16), "look-up tables", function=name, half=half)


def write_commands(model: Model, graph: Graph, folder: Folder, prefix: str) -> None:
    """Register commands as words and in words, and the task records."""
    if not graph.tasks:
        return
    data = graph.commands.cast("B")
    folder.add_bytes(f"{prefix}commands/commands.bin", data, "register commands, 64 bits each, little endian")
    folder.add_text(f"{prefix}commands/commands.txt", _listing(model, graph), "register commands in words")
    rows = _task_rows(graph)
    folder.add_json(f"{prefix}commands/tasks.json", rows, "task records")
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    folder.add_text(f"{prefix}commands/tasks.csv", table.getvalue(), "task records")


def _listing(model: Model, graph: Graph) -> str:
    from openrknn.analysis.listing import Listing
    from openrknn.cli.common.disassembly import write_text

    stream = io.StringIO()
    chosen = [(list_label(entry), numbers, list(numbers)) for entry, numbers in graph.task_lists.items()]
    write_text(Listing(model, graph), chosen, Output(Mode.HUMAN, color="never", stream=stream))
    return stream.getvalue()


def _task_rows(graph: Graph) -> list[dict[str, Any]]:
    lists = {number: list_label(entry) for entry, numbers in graph.task_lists.items() for number in numbers}
    return [
        {
            "task": number,
            "list": lists.get(number, ""),
            "operator": task.op_index,
            "operator_type": graph.nodes[task.op_index].type,
            "operator_name": graph.nodes[task.op_index].name,
            "enable_mask": task.enable_mask,
            "int_mask": task.int_mask,
            "int_clear": task.int_clear,
            "commands": task.amount,
            "first_command": task.first_command,
        }
        for number, task in enumerate(graph.tasks)
    ]


# -------------------------------------------------------------------------------------------------- texts


def write_texts(model: Model, folder: Folder) -> None:
    """The converter's notes, the small JSONs and the trailing one, and the custom string."""
    texts: Mapping[str, tuple[str, str]] = {
        "notes.txt": (model.notes_text, "the converter's notes, as stored"),
        "inputs.json": (model.input_json, "types and layouts of the inputs, as stored"),
        "outputs.json": (model.output_json, "types and layouts of the outputs, as stored"),
        "custom_string.txt": (model.custom_string, "the custom string"),
    }
    for name, (text, what) in texts.items():
        if text:
            folder.add_text(f"texts/{name}", text, what)
    if len(model.json_bytes):
        folder.add_bytes("texts/graph.json", model.json_bytes, "the trailing JSON, as stored")
    with suppress(BadTextError, ValueError):  # notes.txt has them, even if they are no dict or hold a NaN
        if model.notes:
            folder.add_json("texts/notes.json", model.notes, "the converter's notes")
