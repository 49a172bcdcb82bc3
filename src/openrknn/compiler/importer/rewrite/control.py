"""Branches whose condition is known before anything is fed, and loops that run a few times, whatever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.rewrite.writer import Writer
from openrknn.onnxgraph import makers_of


def _if(writer: Writer, node: Any) -> None:
    """The branch that is taken, where bound shapes answer the question (PyTorch's squeeze asks for a size)."""
    condition = writer.constant(node.input[0])
    if condition is None or condition.size != 1:
        return
    wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    branch = next((entry.g for entry in node.attribute if entry.name == wanted), None)
    if branch is None or len(branch.output) != len(node.output):
        return
    names = _kept(writer, branch)
    _write(writer, branch, names)
    for entry, target in zip(branch.output, node.output, strict=True):
        if target:
            writer.add("Identity", names.get(entry.name, entry.name), to=target)


def _kept(writer: Writer, graph: Any) -> dict[str, str]:
    """The constants of an inner graph, with names of their own in the model."""
    onnx = onnx_package()
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        names[tensor.name] = writer.facts.fresh(f"{writer.name}_{tensor.name}")
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
        writer.facts.added.append(copy)
    return names


def _write(writer: Writer, graph: Any, names: dict[str, str], suffix: str = "") -> None:
    """The nodes of an inner graph; `names` learns what their results are called."""
    for inner in graph.node:
        for name in inner.output:
            if name:
                names[name] = writer.facts.fresh(f"{writer.name}_{name}{suffix}")
    for inner in graph.node:
        copy = _renamed(inner, names)
        if suffix:
            copy.name = f"{writer.name}_{inner.name or inner.output[0]}{suffix}"
        writer.put(copy)


_MOST_TURNS, _MOST_NODES = 64, 4000


def _loop(writer: Writer, node: Any) -> None:
    """Written out, where the number of turns is known and nothing else ends it."""
    body = next((entry.g for entry in node.attribute if entry.name == "body"), None)
    limit = writer.constant(node.input[0])
    asked = writer.constant(node.input[1])
    carried = len(node.input) - 2
    if body is None or limit is None or limit.size != 1 or len(body.input) != carried + 2:
        return
    turns = int(limit.reshape(-1)[0])
    if not 0 < turns <= _MOST_TURNS or turns * len(body.node) > _MOST_NODES or len(body.output) != len(node.output) + 1:
        return
    if (node.input[1] and (asked is None or not bool(asked.reshape(-1).all()))) or not _goes_on(writer, body):
        return
    fixed = _kept(writer, body)
    state = list(node.input[2:])
    rows: list[list[str]] = [[] for _ in body.output[1 + carried :]]
    truth = writer.new(True, np.bool_)
    for turn in range(turns):
        names = fixed | dict(zip((entry.name for entry in body.input),
                                 (writer.new(turn, np.int64), truth, *state), strict=True))  # fmt: skip
        _write(writer, body, names, f"_{turn}")
        made = [names.get(entry.name, entry.name) for entry in body.output[1:]]
        state = made[:carried]
        for row, name in zip(rows, made[carried:], strict=True):
            row.append(_unsqueezed(writer, name))
    for name, target in zip(state, node.output[:carried], strict=True):
        if target:
            writer.add("Identity", name, to=target)
    for row, target in zip(rows, node.output[carried:], strict=True):
        if target:
            writer.add("Concat", *row, to=target, axis=0)


def _goes_on(writer: Writer, body: Any) -> bool:
    """Whether the body asks for another turn in any case."""
    onnx = onnx_package()
    made = makers_of(body.node)
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in body.initializer}
    name = body.output[0].name
    while name in made and made[name].op_type in {"Identity", "Cast"}:
        name = made[name].input[0]
    if name == body.input[1].name:
        return True
    value = known.get(name, writer.constant(name))
    if name in made and made[name].op_type == "Constant":
        given = [entry.t for entry in made[name].attribute if entry.HasField("t")]
        value = onnx.numpy_helper.to_array(given[0]) if given else None
    return value is not None and bool(value.reshape(-1).all())


def _unsqueezed(writer: Writer, name: str) -> str:
    if writer.facts.opset >= 13:
        return writer.add("Unsqueeze", name, writer.new([0], np.int64))
    return writer.add("Unsqueeze", name, axes=[0])


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """A copy with other names, in the graphs inside it too."""
    onnx = onnx_package()
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        renamed = [names.get(name, name) for name in field]
        del field[:]
        field.extend(renamed)
    for entry in copy.attribute:
        if entry.HasField("g"):
            own = {name for inner in entry.g.node for name in inner.output} | {value.name for value in entry.g.input}
            outer = {old: new for old, new in names.items() if old not in own}
            inner_nodes = [_renamed(inner, outer) for inner in entry.g.node]
            del entry.g.node[:]
            entry.g.node.extend(inner_nodes)
            for value in entry.g.output:
                value.name = outer.get(value.name, value.name)
    return copy


RULES: dict[str, Callable[[Writer, Any], None]] = {"If": _if, "Loop": _loop}
