"""An ONNX graph as lists that can be walked: who makes a value, who reads it, what it depends on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from openrknn.compiler.errors import ModelError, SequenceError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.read import read_model
from openrknn.compiler.ir import Array
from openrknn.onnxgraph import OnnxGraph, makers_of

SHAPE_READERS = ("Shape", "Size")
"""They read how large a value is, not what it is."""
_MOST_BRANCHES = 64


class Net(OnnxGraph):
    """A model of one graph without branches."""

    def __init__(self, model: Any) -> None:
        onnx = onnx_package()
        super().__init__(model)
        for node in self.nodes:
            if node.op_type == "Constant":
                value = next((entry.t for entry in node.attribute if entry.name == "value"), None)
                if value is None:
                    array = _plain_constant(onnx, node)
                    value = onnx.numpy_helper.from_array(array, node.output[0])
                self.constants[node.output[0]] = value
        self.made = makers_of(node for node in self.nodes if node.op_type != "Constant")

    def array(self, name: str) -> Array:
        """The contents of a constant."""
        found: Array = onnx_package().numpy_helper.to_array(self.constants[name])
        return found

    def dims(self, name: str) -> list[int | str]:
        """Sizes of an input; open ones by name."""
        shape = self.inputs[name].type.tensor_type.shape
        return [int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in shape.dim]

    def kind(self, name: str) -> Any:
        """The NumPy type of an input."""
        return onnx_package().helper.tensor_dtype_to_np_dtype(self.inputs[name].type.tensor_type.elem_type)

    def depending(self, roots: Iterable[str]) -> set[str]:
        """Every value whose numbers depend on these; sizes do not count."""
        found = set(roots)
        for node in self.nodes:
            if node.op_type not in SHAPE_READERS and any(name in found for name in node.input):
                found.update(name for name in node.output if name)
        return found

    def part(self, outputs: Collection[str], cut: Mapping[str, Array] | None = None, fed: Collection[str] = ()) -> Any:
        """A model of what these values need; values in `cut` are constants, sizes in `fed` are inputs."""
        onnx, cut = onnx_package(), cut or {}
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if any(name in needed and name not in cut and name not in fed for name in node.output):
                nodes.append(node)
                needed.update(name for name in node.input if name)
        model = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        graph = model.graph
        graph.name = "part"
        graph.node.extend(reversed(nodes))
        graph.initializer.extend(
            entry for entry in self.model.graph.initializer if entry.name in needed and entry.name not in cut
        )
        graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in cut.items() if name in needed
        )
        graph.input.extend(entry for name, entry in self.inputs.items() if name in needed and name not in cut)
        whole = onnx.TensorProto.INT64
        graph.input.extend(onnx.helper.make_tensor_value_info(name, whole, None) for name in fed if name in needed)
        graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in outputs)
        return model


def origin(net: Net, name: str) -> str:
    """Where a value comes from, behind operators that change nothing but its type."""
    while name in net.made and net.made[name].op_type in ("Identity", "Cast"):
        name = net.made[name].input[0]
    return name


def flat(source: Any, truths: Mapping[str, bool] | None = None) -> Net:
    """A model without branches: each `If` is decided by constants, or by inputs whose value is given."""
    model = read_model(source)
    for _ in range(_MOST_BRANCHES):
        net = Net(model)
        node = next((node for node in net.nodes if node.op_type == "If"), None)
        if node is None:
            break
        _decide(net, node, truths)
    else:
        raise SequenceError(f"more than {_MOST_BRANCHES} branches; a decoder has one, for the first step and the rest")
    loop = next((node for node in net.nodes if node.op_type in ("Loop", "Scan")), None)
    if loop is not None:
        raise SequenceError(f"{loop.op_type} {loop.name!r}: loops inside a decoder's step are not read",
                            operators=[loop.name])  # fmt: skip
    return net


def _decide(net: Net, node: Any, truths: Mapping[str, bool] | None) -> None:
    """Put the branch that is taken in place of the `If`."""
    onnx = onnx_package()
    switch = origin(net, node.input[0])
    if switch in net.constants:
        taken = bool(net.array(switch).all())
    elif switch in net.inputs:
        taken = (truths or {}).get(switch, True)
    else:
        raise SequenceError(
            f"If {node.name!r} is decided by {switch!r}, which is neither an input nor a constant",
            operators=[node.name],
        )
    branch = next(entry.g for entry in node.attribute if entry.name == ("then_branch" if taken else "else_branch"))
    own = {name for inner in branch.node for name in inner.output} | {entry.name for entry in branch.initializer}
    names = {name: f"{node.output[0]}/{name}" for name in own if name}
    graph = net.model.graph
    place = list(graph.node).index(node)
    written = []
    for inner in branch.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.input[:] = [names.get(name, name) for name in inner.input]
        copy.output[:] = [names.get(name, name) for name in inner.output]
        written.append(copy)
    for given, wanted in zip(branch.output, node.output, strict=True):
        written.append(onnx.helper.make_node("Identity", [names.get(given.name, given.name)], [wanted]))
    for entry in branch.initializer:
        copy = graph.initializer.add()
        copy.CopyFrom(entry)
        copy.name = names[entry.name]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*rest[:place], *written, *rest[place + 1 :]])


def _plain_constant(onnx: Any, node: Any) -> Array:
    import numpy as np

    for entry in node.attribute:
        value = onnx.helper.get_attribute_value(entry)
        if entry.name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if entry.name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise ModelError(f"Constant {node.name!r} holds no numbers", operators=[node.name])
