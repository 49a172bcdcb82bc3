"""ONNX Runtime's own format (`.ort`): the ONNX model as a FlatBuffer, often after ONNX Runtime's optimizers.

The graph is ONNX already, but for operators of ONNX Runtime's own domains; those that have plain equivalents are put
back (`internal`), others are refused by name. Fused nodes that a provider compiled hold no operators any more.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.formats.ort.internal import put_back
from openrknn.compiler.importer.formats.ort.values import attribute, tensor, value_info
from openrknn.container.flatbuffer import Buffer, Table
from openrknn.errors import FormatError
from openrknn.onnxgraph import reads_of

__all__ = ["read"]

_FUSED = 1
_DEEPEST = 20
_NEWEST_IR = 11


def read(source: str | os.PathLike[str] | bytes) -> Any:
    """The model as an ONNX `ModelProto`."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), "the model"
    else:
        name = str(source)
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise ModelError(f"{name} cannot be read: {error.strerror}") from None
    try:
        model = _model(Buffer(memoryview(data), 0, name).root(b"ORTM"), name)
    except FormatError as error:
        raise ModelError(f"{name} is no model of ONNX Runtime, or a damaged one: {error}") from None
    put_back(model)
    return model


def _model(root: Table, name: str) -> Any:
    onnx = onnx_package()
    stored = root.table(1)
    graph = stored.table(7) if stored is not None else None
    if stored is None or graph is None:
        raise ModelError(f"{name} (version {root.text(0) or '?'}) holds no graph; convert the ONNX model again")
    model = onnx.ModelProto(
        ir_version=min(max(stored.i64(0), 3), _NEWEST_IR), producer_name=stored.text(2),
        producer_version=stored.text(3), domain=stored.text(4), doc_string=stored.text(6),
    )  # fmt: skip
    try:
        model.model_version = stored.i64(5)
        for entry in stored.tables(1):
            model.opset_import.add(domain=_domain(entry.text(0)), version=entry.i64(1))
        _Reader(onnx, name).graph(graph, model.graph, 0)
    except (TypeError, ValueError) as error:  # numbers and texts that protobuf does not hold
        raise ModelError(f"{name} is damaged: {error}") from None
    if not any(not entry.domain for entry in model.opset_import):
        raise ModelError(f"{name} does not say which version of ONNX's operators it has; convert the model again")
    return model


def _domain(text: str) -> str:
    return "" if text == "ai.onnx" else text


class _Reader:
    """Graphs inside graphs, with a limit."""

    def __init__(self, onnx: Any, name: str) -> None:
        self._onnx = onnx
        self._name = name

    def graph(self, table: Table, target: Any, depth: int) -> None:
        """Fill a GraphProto."""
        if depth > _DEEPEST:
            raise ModelError(f"{self._name}: its graphs hold each other {_DEEPEST} deep; the file is damaged")
        if table.count(7):
            raise ModelError(f"{self._name} has sparse weights; convert a model with dense ones")
        target.name = "graph" if depth else "model"
        target.initializer.extend(tensor(self._onnx, entry, self._name) for entry in table.tables(0))
        infos = {entry.text(0): entry for entry in table.tables(1)}
        known = {entry.name for entry in target.initializer}
        for names, entries in ((table.texts(5), target.input), (table.texts(6), target.output)):
            for label in names:
                if depth and label in known and entries is target.input:
                    continue
                entries.append(value_info(self._onnx, label, infos.get(label), self._name))
        ends = {entry.name for entry in (*target.input, *target.output)} | known
        for label, info in infos.items():
            if label and label not in ends:
                made = value_info(self._onnx, label, info, self._name)
                if made.type.HasField("tensor_type") and made.type.tensor_type.HasField("shape"):
                    target.value_info.append(made)
        nodes = sorted(table.tables(2), key=lambda entry: entry.u32(4))
        self._nodes([self._node(entry, depth) for entry in nodes], target, known)

    def _node(self, table: Table, depth: int) -> Any:
        label, kind = table.text(0), table.text(5)
        if table.i32(6) == _FUSED:
            raise ModelError(
                f"{self._name}: node {label!r} was compiled for {table.text(7) or 'a provider'}; convert the model "
                "for the CPU provider"
            )
        node = self._onnx.NodeProto(
            name=label, op_type=kind, domain=_domain(table.text(2)), input=table.texts(8), output=table.texts(9)
        )
        for entry in table.tables(10):
            made = attribute(self._onnx, entry, self._name)
            if made is None:
                made = node.attribute.add(name=entry.text(0))
                self._graphs(entry, made, depth)
            else:
                node.attribute.append(made)
        while node.output and not node.output[-1]:
            del node.output[-1]
        while node.input and not node.input[-1]:
            del node.input[-1]
        return node

    def _graphs(self, entry: Table, made: Any, depth: int) -> None:
        body = entry.table(7)
        if body is not None:
            made.type = self._onnx.AttributeProto.GRAPH
            self.graph(body, made.g, depth + 1)
            return
        made.type = self._onnx.AttributeProto.GRAPHS
        for inner in entry.tables(12):
            self.graph(inner, made.graphs.add(), depth + 1)

    def _nodes(self, nodes: list[Any], target: Any, known: set[str]) -> None:
        """In an order in which everything is made before it is read: optimizers leave the indices of old nodes."""
        made = {name for node in nodes for name in node.output if name}
        ready = known | {entry.name for entry in target.input}
        waiting = nodes
        while waiting:
            later = []
            for node in waiting:
                needed = set(reads_of(node))
                if needed.intersection(made) <= ready:
                    target.node.append(node)
                    ready.update(node.output)
                else:
                    later.append(node)
            if len(later) == len(waiting):
                raise ModelError(f"{self._name}: its nodes read each other in a circle; the file is damaged")
            waiting = later
