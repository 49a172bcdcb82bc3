"""Branches whose condition is known, before anything is fed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.rewrite.writer import Writer

__all__ = ["RULES"]


def _if(writer: Writer, node: Any) -> None:
    """The branch that is taken, where bound shapes answer the question (PyTorch's squeeze asks for a size)."""
    condition = writer.constant(node.input[0])
    if condition is None or condition.size != 1:
        return
    wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    branch = next((entry.g for entry in node.attribute if entry.name == wanted), None)
    if branch is None or len(branch.output) != len(node.output):
        return
    onnx = onnx_package()
    names: dict[str, str] = {}
    for tensor in branch.initializer:
        names[tensor.name] = writer.facts.fresh(f"{writer.name}_{tensor.name}")
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
        writer.facts.added.append(copy)
    for inner in branch.node:
        for name in inner.output:
            if name:
                names[name] = writer.facts.fresh(f"{writer.name}_{name}")
    for inner in branch.node:
        writer.put(_renamed(inner, names))
    for entry, target in zip(branch.output, node.output, strict=True):
        if target:
            writer.add("Identity", names.get(entry.name, entry.name), to=target)


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


RULES: dict[str, Callable[[Writer, Any], None]] = {"If": _if}
