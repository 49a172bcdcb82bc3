"""Split a graph of any length: products with constant weights for the NPU, the rest in parts for ONNX Runtime.

Networks that normalise over a whole sentence (AdaIN), that draw noise or whose lengths depend on their own numbers have
no fixed shape that could be compiled. Their products do: a convolution or a MatMul is the same for every column. So
each of them becomes a net for a window of columns, and what is between them stays a graph of any length.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.onnxgraph import OnnxGraph, reads_of
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.products.plan import CpuStep, NoiseStep, Plan, Product, Step, write_plan

LEAST = 1 << 14
"""Multiplications of a column: smaller products cost more in layouts than they save."""
_NARROW, _WIDE = 64, 2048
_NOISE = ("RandomNormalLike",)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A node that can be a product on the NPU, and what it is computed with."""

    product: Product
    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32] | None
    name: str


def folded(model: Any) -> Any:
    """The model with all that depends on weights alone computed, as ONNX Runtime does it; names stay."""
    import onnx

    from openrknn.installed_onnxruntime import installed

    runtime = installed()
    with tempfile.TemporaryDirectory(prefix="openrknn-") as folder:
        source, result = Path(folder) / "model.onnx", Path(folder) / "folded.onnx"
        onnx.save(model, str(source))
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(result)
        try:
            runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
            return onnx.load(str(result))
        except Exception as error:  # it raises types of its own
            raise VoiceSetError(f"ONNX Runtime does not take the model: {error!s:.300}") from error


def find_products(graph: OnnxGraph, *, least: int = LEAST, leave: Collection[int] = ()) -> dict[int, Found]:
    """Number of a node -> the product it is; `leave`: nodes that stay in float."""
    found: dict[int, Found] = {}
    for number, node in enumerate(graph.nodes):
        if number in leave:
            continue
        one = _conv(graph, node) if node.op_type in ("Conv", "ConvTranspose") else (
            _matmul(graph, node) if node.op_type == "MatMul" else None
        )  # fmt: skip
        if one is not None and one.product.macs >= least:
            found[number] = one
    return found


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def _conv(graph: OnnxGraph, node: Any) -> Found | None:
    weights = graph.constant(node.input[1])
    bias = graph.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    given = _attributes(node)
    if weights is None or weights.ndim != 3 or weights.dtype != np.float32 or given.get("group", 1) != 1:
        return None
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" or (len(node.input) > 2 and node.input[2] and bias is None):
        return None
    is_transposed = node.op_type == "ConvTranspose"
    rows_in, rows_out = (weights.shape[0], weights.shape[1]) if is_transposed else (weights.shape[1], weights.shape[0])
    begin, end = (int(pad) for pad in given.get("pads", (0, 0)))
    end -= int(given.get("output_padding", (0,))[0])
    stride = int(given.get("strides", (1,))[0])
    if end < 0 or given.get("output_shape") or (is_transposed and weights.shape[2] < stride):
        return None
    product = Product(
        "", "transposed" if is_transposed else "conv", node.input[0], node.output[0], 1, int(rows_in), int(rows_out),
        int(weights.shape[2]), stride, int(given.get("dilations", (1,))[0]), begin, end,
    )  # fmt: skip
    return Found(product, weights, bias, node.input[1])


def _matmul(graph: OnnxGraph, node: Any) -> Found | None:
    weights = graph.constant(node.input[1])
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32 or graph.constant(node.input[0]) is not None:
        return None
    rows_in, rows_out = weights.shape
    product = Product("", "matmul", node.input[0], node.output[0], 1, int(rows_in), int(rows_out))
    return Found(product, np.ascontiguousarray(weights.T)[:, :, None], None, node.input[1])


def _with_biases(graph: OnnxGraph, found: dict[int, Found]) -> tuple[dict[int, Found], set[int]]:
    """MatMuls with the Add of their bias, and the numbers of these Adds, which are not needed any more."""
    result, gone = dict(found), set[int]()
    for number, one in found.items():
        readers = graph.readers.get(one.product.output, [])
        if one.product.kind != "matmul" or len(readers) != 1 or one.product.output in graph.outputs:
            continue
        add = graph.nodes[readers[0]]
        others = [name for name in add.input if name != one.product.output]
        bias = graph.constant(others[0]) if add.op_type == "Add" and len(others) == 1 else None
        if bias is not None and bias.shape == (one.product.rows_out,):
            result[number] = replace(one, product=replace(one.product, output=add.output[0]), bias=bias)
            gone.add(readers[0])
    return result, gone


def probed(graph: OnnxGraph, found: Mapping[int, Found], sample: Mapping[str, Any]) -> dict[int, int]:
    """Columns of each product for a usual sentence: one run in float that gives shapes only."""
    import onnx
    from onnx import TensorProto, helper

    from openrknn.installed_onnxruntime import installed

    runtime = installed()
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    del model.graph.output[:]
    for number, one in found.items():
        model.graph.node.append(helper.make_node("Shape", [one.product.input], [f"shape_of_{number}"]))
        model.graph.output.append(helper.make_tensor_value_info(f"shape_of_{number}", TensorProto.INT64, None))
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [f"shape_of_{number}" for number in found]
    wanted = {entry.name for entry in session.get_inputs()}
    shapes = session.run(names, {name: value for name, value in sample.items() if name in wanted})
    columns: dict[int, int] = {}
    for (number, one), shape in zip(found.items(), shapes, strict=True):
        is_matmul = one.product.kind == "matmul"
        columns[number] = int(np.prod(shape[:-1])) if is_matmul else int(shape[-1]) // (
            one.product.stride if one.product.kind == "conv" else 1
        )  # fmt: skip
    return columns


def window_of(columns: int) -> int:
    """A usual sentence in two to four windows: little is computed for nothing, and little twice."""
    window = _NARROW
    while window < _WIDE and window * 3 < columns:
        window *= 2
    return window


def split(
    model: Any, folder: Path, target: str, sample: Mapping[str, Any], *, float_above: Callable[[OnnxGraph], set[int]],
    least: int = LEAST, progress: Progress | None = None,
) -> Plan:  # fmt: skip
    """Write `plan.json`, `steps/` and `products/` into the folder.

    `sample`: inputs of a usual sentence, for the sizes of windows. `float_above`: nodes whose products stay in float.
    """
    report = progress or (lambda *_: None)
    report("reading the graph", 0, 1)
    graph = OnnxGraph(folded(model))
    found = find_products(graph, least=least, leave=float_above(graph))
    columns = probed(graph, found, sample)
    found = {number: one for number, one in found.items() if columns[number] > 1}
    found, gone = _with_biases(graph, found)
    nets: dict[str, str] = {}
    products: dict[int, Product] = {}
    for place, (number, one) in enumerate(found.items()):
        report("compiling the products", place, len(found))
        product = replace(one.product, window=window_of(columns[number]))
        # Layers that share their weights share the net.
        bias = b"" if one.bias is None else one.bias.tobytes()
        key = hashlib.sha256(bias + f"{one.name} {_shape(product)}".encode()).hexdigest()
        if key not in nets:
            nets[key] = f"products/{len(nets):03}.rknn"
            _compile(product, one, folder / nets[key], target)
        products[number] = replace(product, net=nets[key])
    report("compiling the products", len(found), len(found))
    plan = _plan(graph, products, gone, folder)
    write_plan(plan, folder / "plan.json")
    return plan


def _shape(product: Product) -> Sequence[object]:
    return (product.kind, product.window, product.kernel, product.stride, product.dilation)


def _compile(product: Product, found: Found, path: Path, target: str) -> None:
    """Without pads: the zeros at both ends come from the windows."""
    from onnx import TensorProto, helper, numpy_helper

    from openrknn.voice.make.nets import compile_net

    weights = [numpy_helper.from_array(found.weights, "w")]
    if found.bias is not None:
        weights.append(numpy_helper.from_array(found.bias.astype(np.float32), "b"))
    kind = "ConvTranspose" if product.kind == "transposed" else "Conv"
    node = helper.make_node(
        kind, ["x", *(entry.name for entry in weights)], ["y"], kernel_shape=[product.kernel],
        strides=[product.stride], dilations=[product.dilation], pads=[0, 0],
    )  # fmt: skip
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, product.rows_in, product.span])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "product", [entry], [result], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    compile_net(model, path, target)


def _plan(graph: OnnxGraph, products: Mapping[int, Product], gone: Collection[int], folder: Path) -> Plan:
    """Steps in order: with each product between two parts of the CPU, all that can run before it has run."""
    outside = {number for number, node in enumerate(graph.nodes) if node.op_type in _NOISE}
    levels: dict[str, int] = {}
    cpu: dict[int, list[int]] = {}
    host: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        level = max((levels.get(name, 0) for name in reads_of(node)), default=0)
        if number in products or number in outside:
            host.setdefault(level, []).append(number)
            level += 1
        elif number not in gone:
            cpu.setdefault(level, []).append(number)
        levels.update(dict.fromkeys(node.output, level))
    types = _types(graph)
    needed = set(graph.outputs)
    steps: list[Step] = []
    (folder / "steps").mkdir(parents=True, exist_ok=True)
    for level in range(max([*cpu, *host]), -1, -1):  # backwards: what later steps need is what a part gives
        for number in reversed(host.get(level, [])):
            one = products.get(number) or _noise(graph.nodes[number])
            steps.append(one)
            needed.add(one.input if isinstance(one, Product) else one.like)
        nodes = [graph.nodes[number] for number in cpu.get(level, [])]
        made = {name for node in nodes for name in node.output if name}
        outputs = sorted(made & needed)
        if not outputs:
            continue
        path = f"steps/{level:03}.onnx"
        inputs = _part(graph, nodes, outputs, folder / path, types)
        steps.append(CpuStep(path, tuple(inputs), tuple(outputs)))
        needed.update(inputs)
    used = {name for step in steps for name in (step.inputs if isinstance(step, CpuStep) else ())}
    used |= {step.input if isinstance(step, Product) else step.like for step in steps if not isinstance(step, CpuStep)}
    inputs = [name for name in graph.inputs if name in used]
    return Plan(tuple(inputs), tuple(graph.outputs), tuple(reversed(steps)))


def _noise(node: Any) -> NoiseStep:
    given = _attributes(node)
    return NoiseStep(node.input[0], node.output[0], float(given.get("mean", 0.0)), float(given.get("scale", 1.0)))


def _types(graph: OnnxGraph) -> dict[str, int]:
    from onnx import TensorProto, shape_inference

    inferred = shape_inference.infer_shapes(graph.model)
    known = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    found = {entry.name: int(entry.type.tensor_type.elem_type) for entry in known}
    return {name: kind or int(TensorProto.FLOAT) for name, kind in found.items()}


def _part(graph: OnnxGraph, nodes: list[Any], outputs: list[str], path: Path, types: Mapping[str, int]) -> list[str]:
    """Write the part that makes these values; gives what it needs from elsewhere."""
    import onnx
    from onnx import TensorProto, helper

    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    wanted, ahead = set[int](), list(outputs)
    while ahead:
        number = makers.get(ahead.pop(), -1)
        if number >= 0 and number not in wanted:
            wanted.add(number)
            ahead.extend(reads_of(nodes[number]))
    kept = [node for number, node in enumerate(nodes) if number in wanted]
    made = {name for node in kept for name in node.output}
    reads = dict.fromkeys(name for node in kept for name in reads_of(node) if name and name not in made)
    inputs = [name for name in reads if name not in graph.constants]

    def entry(name: str) -> Any:
        return helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), None)

    part = helper.make_graph(
        kept, "part", [entry(name) for name in inputs], [entry(name) for name in outputs],
        [graph.constants[name] for name in reads if name in graph.constants],
    )  # fmt: skip
    model = helper.make_model(part, opset_imports=list(graph.model.opset_import))
    model.ir_version = graph.model.ir_version
    onnx.save(model, str(path))
    return inputs
