"""An ONNX graph as the partitioner sees it: who makes and reads each value, with type, shape and work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.operators import RECURRENT
from openrknn.onnxgraph import in_order, reads_of


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of one value."""

    kind: int = 0
    """ONNX's number of the element type; 0: not known, or not a tensor."""
    shape: tuple[int, ...] | None = None
    """None: open, or not known."""

    @property
    def numbers(self) -> int:
        return prod(self.shape) if self.shape is not None else 0


@dataclass(slots=True)
class Node:
    """One operator."""

    index: int
    proto: Any
    reads: tuple[str, ...]
    """Values, those of the graphs inside it as well; constants and what is left out are not among them."""
    makes: tuple[str, ...]
    macs: int = 0
    name: str = ""

    @property
    def type(self) -> str:
        domain = self.proto.domain
        return str(self.proto.op_type) if domain in {"", "ai.onnx"} else f"{domain}.{self.proto.op_type}"


@dataclass(slots=True)
class View:
    """The whole graph; nodes are in an order in which they can run."""

    model: Any
    nodes: list[Node]
    values: dict[str, Value]
    constants: dict[str, Any]
    """Initializers by name."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    makers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)

    def before(self, node: Node) -> list[int]:
        """Nodes whose results it reads."""
        return [self.makers[name] for name in node.reads if name in self.makers]

    def after(self, node: Node) -> list[int]:
        """Nodes that read its results."""
        return [reader for name in node.makes for reader in self.readers.get(name, ())]

    def steps(self, node: Node) -> int:
        """How often a recurrent layer goes round; 1 for what is not recurrent."""
        shape = self.values.get(node.proto.input[0], Value()).shape if node.type in RECURRENT else None
        if shape is None or len(shape) != 3:
            return 1
        return shape[next((entry.i for entry in node.proto.attribute if entry.name == "layout"), 0) & 1]

    def signature(self, node: Node) -> tuple[Any, ...]:
        """What decides whether the compiler can do it: equal nodes have equal fates."""
        attributes = tuple(sorted(entry.SerializeToString() for entry in node.proto.attribute))
        read = tuple(
            ("constant", tuple(self.constants[name].dims)) if name in self.constants else self.values.get(name, Value())
            for name in node.proto.input
        )
        return (node.type, attributes, read)


def view_of(model: Any) -> View:
    """Of a model whose shapes are inferred as far as they can be."""
    onnx = onnx_package()
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    values = {name: Value(tensor.data_type, tuple(tensor.dims)) for name, tensor in constants.items()}
    for entry in (*graph.value_info, *graph.output, *graph.input):
        values[entry.name] = _value(entry)
    shapes = {name: value.shape for name, value in values.items() if value.shape is not None}
    nodes: list[Node] = []
    for proto in in_order(graph.node, set(constants) | {entry.name for entry in graph.input}):
        reads = tuple(dict.fromkeys(name for name in reads_of(proto) if name and name not in constants))
        makes = tuple(name for name in proto.output if name)
        node = Node(len(nodes), proto, reads, makes, name=proto.name or (makes[0] if makes else proto.op_type))
        node.macs = macs_of(onnx, proto, shapes)
        nodes.append(node)
    view = View(
        model, nodes, values, constants,
        tuple(entry.name for entry in graph.input if entry.name not in constants),
        tuple(entry.name for entry in graph.output),
    )  # fmt: skip
    for node in nodes:
        for name in node.makes:
            view.makers[name] = node.index
        for name in node.reads:
            view.readers.setdefault(name, []).append(node.index)
    return view


def _value(entry: Any) -> Value:
    if not entry.type.HasField("tensor_type"):
        return Value()
    kind = entry.type.tensor_type
    if not kind.HasField("shape"):
        return Value(kind.elem_type)
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)
    return Value(kind.elem_type, sizes if all(size >= 0 for size in sizes) else None)


def macs_of(onnx: Any, node: Any, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """0 for what has none, and for what has unknown shapes."""
    if node.domain not in {"", "ai.onnx"}:
        return 0
    read = [shapes.get(name) for name in node.input]
    made = shapes.get(node.output[0]) if node.output else None
    kind = node.op_type
    if kind in {"Conv", "ConvInteger", "QLinearConv"}:
        weight = read[3 if kind == "QLinearConv" else 1] if len(read) > 1 else None
        return prod(made) * prod(weight[1:]) if made and weight else 0
    if kind == "ConvTranspose" and len(read) > 1:
        return prod(read[0]) * prod(read[1][1:]) if read[0] and read[1] else 0
    if kind in {"MatMul", "MatMulInteger", "QLinearMatMul"}:
        return prod(made or (1,)) * read[0][-1] if made is not None and read[0] else 0
    if kind == "Gemm" and read[0] and made:
        turned = any(entry.name == "transA" and entry.i for entry in node.attribute)
        return prod(made) * read[0][0 if turned else -1]
    if kind in RECURRENT and len(read) > 2 and read[0] and read[1] and read[2]:
        return prod(read[0][:2]) * (prod(read[1]) + prod(read[2]))
    if kind == "Einsum":
        return _einsum(onnx, node, read)
    return 0


def _einsum(onnx: Any, node: Any, read: list[tuple[int, ...] | None]) -> int:
    equation = next((onnx.helper.get_attribute_value(entry).decode() for entry in node.attribute), "")
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "." in equation or len(terms) != len(read) or len(terms) < 2:
        return 0
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, read, strict=True):
        if shape is None or len(term) != len(shape):
            return 0
        sizes.update(zip(term, shape, strict=True))
    return prod(sizes.values())
