"""Operators that ONNX Runtime's optimizers make, as the plain ones that they were made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package

_MICROSOFT = "com.microsoft"


class _Writer:
    """Nodes in the place of one."""

    def __init__(self, graph: Any, node: Any) -> None:
        self.onnx = onnx_package()
        self.graph, self.node = graph, node
        self.nodes: list[Any] = []
        self.attributes = {entry.name: self.onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if not node.output:
            raise ModelError(f"{node.op_type} {node.name!r} of the .ort file has no output; the file is damaged")
        self._base = node.name or node.output[0]

    def new(self, value: Any) -> str:
        """A constant."""
        name = f"{self._base}/constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], to: str = "", **attributes: Any) -> str:
        """One operator."""
        made = to or f"{self._base}/{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [made], name=made, **attributes))
        return made

    def input(self, number: int) -> str:
        """An operand, empty where there is none."""
        return self.node.input[number] if number < len(self.node.input) else ""


def put_back(model: Any) -> None:
    """Change the model in place; operators that have no plain equivalent stay, and are refused where they are used."""
    _graph(model.graph)
    used = {node.domain for node in model.graph.node}
    kept = [entry for entry in model.opset_import if not entry.domain or entry.domain in used]
    for domain in sorted(used - {entry.domain for entry in kept}):
        kept.append(onnx_package().helper.make_opsetid(domain, 1))
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _graph(graph: Any) -> None:
    nodes: list[Any] = []
    for node in graph.node:
        for entry in node.attribute:
            for inner in (*([entry.g] if entry.HasField("g") else []), *entry.graphs):
                _graph(inner)
        rule = _RULES.get(node.op_type) if node.domain == _MICROSOFT else None
        writer = _Writer(graph, node)
        if rule is not None and rule(writer):
            nodes.extend(writer.nodes)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _activated(writer: _Writer, value: str) -> bool:
    """The activation that was fused, onto the last result."""
    kind = writer.attributes.get("activation", b"")
    text = kind.decode() if isinstance(kind, bytes) else str(kind)
    numbers = [float(entry) for entry in writer.attributes.get("activation_params", ())]
    target = writer.node.output[0]
    if text in {"Relu", "Sigmoid", "Tanh"}:
        writer.add(text, [value], target)
    elif text == "LeakyRelu" and numbers:
        writer.add(text, [value], target, alpha=numbers[0])
    elif text == "HardSigmoid" and len(numbers) > 1:
        writer.add(text, [value], target, alpha=numbers[0], beta=numbers[1])
    elif text == "Clip" and len(numbers) > 1:
        writer.add(text, [value, *(writer.new(np.float32(entry)) for entry in numbers[:2])], target)
    else:
        return False
    return True


def _fused_conv(writer: _Writer) -> bool:
    window = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}
    kept = {key: value for key, value in writer.attributes.items() if key in window}
    operands = [writer.input(number) for number in range(3) if writer.input(number)]
    made = writer.add("Conv", operands, **kept)
    if writer.input(3):
        made = writer.add("Add", [made, writer.input(3)])
    if not writer.attributes.get("activation"):
        writer.nodes[-1].output[0] = writer.node.output[0]
        return True
    return _activated(writer, made)


def _fused_gemm(writer: _Writer) -> bool:
    kept = {key: value for key, value in writer.attributes.items() if key in {"alpha", "beta", "transA", "transB"}}
    made = writer.add("Gemm", list(writer.node.input), **kept)
    numbers = [writer.attributes[key] for key in ("activation_alpha", "activation_beta") if key in writer.attributes]
    writer.attributes["activation_params"] = numbers
    return _activated(writer, made)


def _fused_matmul(writer: _Writer) -> bool:
    if writer.attributes.get("transBatchA") or writer.attributes.get("transBatchB"):
        return False
    ranks = {entry.name: len(entry.dims) for entry in writer.graph.initializer}
    for info in (*writer.graph.value_info, *writer.graph.input, *writer.graph.output):
        if info.type.tensor_type.HasField("shape"):
            ranks.setdefault(info.name, len(info.type.tensor_type.shape.dim))
    operands = []
    for number, key in ((0, "transA"), (1, "transB")):
        value = writer.input(number)
        if writer.attributes.get(key):
            rank = ranks.get(value, 0)
            if rank < 2:
                return False
            value = writer.add("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2])
        operands.append(value)
    alpha = float(writer.attributes.get("alpha", 1.0))
    if alpha == 1.0:
        writer.add("MatMul", operands, writer.node.output[0])
    else:
        made = writer.add("MatMul", operands)
        writer.add("Mul", [made, writer.new(np.float32(alpha))], writer.node.output[0])
    return True


def _gelu(writer: _Writer) -> bool:
    source, target = writer.input(0), writer.node.output[0]
    if writer.input(1):
        source = writer.add("Add", [source, writer.input(1)])
    if writer.node.op_type == "QuickGelu":
        alpha = writer.new(np.float32(writer.attributes.get("alpha", 1.702)))
        writer.add("Mul", [source, writer.add("Sigmoid", [writer.add("Mul", [source, alpha])])], target)
        return True
    if writer.node.op_type == "FastGelu":
        cube = writer.add("Mul", [writer.add("Mul", [source, source]), source])
        inner = writer.add("Add", [source, writer.add("Mul", [cube, writer.new(np.float32(0.044715))])])
        root = writer.new(np.float32(math.sqrt(2 / math.pi)))
        gate = writer.add("Tanh", [writer.add("Mul", [inner, root])])
    else:
        gate = writer.add("Erf", [writer.add("Div", [source, writer.new(np.float32(math.sqrt(2)))])])
    product = writer.add("Mul", [source, writer.add("Add", [gate, writer.new(np.float32(1))])])
    writer.add("Mul", [product, writer.new(np.float32(0.5))], target)
    return True


def _normalisation(writer: _Writer) -> bool:
    """SkipLayerNormalization: a sum, and LayerNormalization over the last dimension."""
    node = writer.node
    if any(node.output[1:3]):
        return False
    total = writer.add("Add", [writer.input(0), writer.input(1)])
    if writer.input(4):
        total = writer.add("Add", [total, writer.input(4)])
    if len(node.output) > 3 and node.output[3]:
        writer.nodes[-1].output[0] = total = node.output[3]
    operands = [entry for entry in (total, writer.input(2), writer.input(3)) if entry]
    writer.add("LayerNormalization", operands, node.output[0], axis=-1, epsilon=writer.attributes.get("epsilon", 1e-12))
    return True


def _few_bits(writer: _Writer) -> bool:
    """MatMulNBits: weights of 4 or 8 bits in blocks, each with a scale, as the matrix they stand for."""
    arrays = {entry.name: entry for entry in writer.graph.initializer}
    bits, block = int(writer.attributes.get("bits", 4)), int(writer.attributes.get("block_size", 0))
    depth, outputs = int(writer.attributes.get("K", 0)), int(writer.attributes.get("N", 0))
    names = [writer.input(number) for number in (1, 2)]
    is_known = all(name in arrays for name in names) and not writer.input(4)
    if bits not in {4, 8} or min(block, depth, outputs) < 1 or not is_known:
        return False
    stored, scales = (writer.onnx.numpy_helper.to_array(arrays[name]) for name in names)
    blocks = -(-depth // block)
    count = outputs * blocks
    if stored.dtype != np.uint8 or scales.size != count or stored.size * 8 != count * block * bits:
        return False
    numbers = _unpacked(stored.reshape(outputs * blocks, -1), bits).astype(np.float32)
    zero: Any = np.float32(1 << (bits - 1))
    if writer.input(3):
        given = writer.onnx.numpy_helper.to_array(arrays[writer.input(3)]) if writer.input(3) in arrays else np.zeros(0)
        if given.dtype != np.uint8:
            return False
        zero = _unpacked(given.reshape(outputs, -1), bits)[:, :blocks].reshape(-1, 1).astype(np.float32)
        if zero.size != outputs * blocks:
            return False
    real = (numbers - zero) * scales.reshape(-1, 1).astype(np.float32)
    matrix = writer.new(real.reshape(outputs, blocks * block)[:, :depth].T.copy())
    if writer.input(5):
        made = writer.add("MatMul", [writer.input(0), matrix])
        writer.add("Add", [made, writer.input(5)], writer.node.output[0])
    else:
        writer.add("MatMul", [writer.input(0), matrix], writer.node.output[0])
    return True


def _unpacked(rows: Any, bits: int) -> Any:
    """The low half of a byte comes first."""
    return rows if bits == 8 else np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1)


def _plain(kind: str) -> Callable[[_Writer], bool]:
    """Move the operator to ONNX's own domain."""

    def rule(writer: _Writer) -> bool:
        writer.add(kind, list(writer.node.input), writer.node.output[0], **writer.attributes)
        return True

    return rule


_RULES: dict[str, Callable[[_Writer], bool]] = {
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _gelu,
    "QuickGelu": _gelu,
    "SkipLayerNormalization": _normalisation,
    "MatMulNBits": _few_bits,
    "QuantizeLinear": _plain("QuantizeLinear"),
    "DequantizeLinear": _plain("DequantizeLinear"),
}
