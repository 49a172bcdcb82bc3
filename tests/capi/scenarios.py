"""What is asked of both libraries: scripts for `asking`, made for a model."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.capi import attributes
from openrknn.container.model import Model
from openrknn.container.parts import DataType
from openrknn.runtime.io.tensors import DTYPES
from openrknn.runtime.shapes import specs
from openrknn.vendor.context.answers import QUERIES
from openrknn.vendor.tables.enums import QueryCommand as Q
from openrknn.vendor.tables.enums import TensorFormat, TensorType
from tests.capi.asking import CODEC, Script

_RANK = 4
NOT_OF_A_FILE = (Q.PERF_DETAIL, Q.PERF_RUN)
"""Answers that are about a run."""
FILL = 0xA5
"""What is in an answer before the call: a field that the library leaves alone is seen."""
NOT_ANSWERED = {
    False: ("CURRENT_INPUT_ATTR", "CURRENT_NATIVE_INPUT_ATTR", "CURRENT_OUTPUT_ATTR", "CURRENT_NATIVE_OUTPUT_ATTR"),
    True: ("NATIVE_NHWC_OUTPUT_ATTR",),
}
"""Attributes that 1.5.2 has no answer to: of a model with one shape, of a dynamic model after its shapes were set."""
BOUND = (
    Q.OUTPUT_ATTR, Q.NATIVE_NHWC_OUTPUT_ATTR, Q.NATIVE_OUTPUT_ATTR, Q.CURRENT_OUTPUT_ATTR, Q.CURRENT_NATIVE_OUTPUT_ATTR,
)  # fmt: skip
"""How outputs are bound: the first three for a model with one shape, the others for a dynamic one."""


def ask_all(script: Script, context: int, model: Model, when: str = "", fill: int = FILL) -> None:
    """Every query with every index."""
    graph = model.graphs[0]
    counts = {"": 1, "input": len(graph.inputs), "output": len(graph.outputs)}
    for command in Q:
        if command not in NOT_OF_A_FILE:
            for index in range(counts[QUERIES[command].tensor]):
                script.query(f"{when}{command.name} {index}", context, command, index, fill=fill)


def shapes_of(model: Model, graph: int) -> bytes:
    """rknn_tensor_attr of every input, for `rknn_set_input_shapes`."""
    rows = b""
    for index, spec in enumerate(specs(model, model.graphs[graph], inputs=True)):
        form = TensorFormat.NHWC if spec.layout == "nhwc" else TensorFormat.UNDEFINED
        values = {"index": index, "n_dims": len(spec.shape), "dims": list(spec.shape), "name": spec.name, "fmt": form}
        rows += CODEC.encode("rknn_tensor_attr", values)
    return rows


def attributes_script(path: Path, model: Model) -> Script:
    """All queries after `rknn_init`, and for each choice of shapes of a dynamic model."""
    script = Script()
    context = script.init(path)
    ask_all(script, context, model)
    if model.is_dynamic:
        for graph in model.graphs:
            wanted = script.data(shapes_of(model, graph.index))
            count = len(graph.inputs)
            script.call(f"shapes {graph.index}", "rknn_set_input_shapes", f"*{context}", count, f"@{wanted}")
            ask_all(script, context, model, f"graph {graph.index} ")
    script.call("rknn_destroy", "rknn_destroy", f"*{context}")
    return script


def ask_runs(path: Path, model: Model, folder: Path, without: Collection[str] = ()) -> Script:
    """Runs with inputs of every type that fits all inputs, and outputs as they are, as floats, and in own memory.

    Inputs are files in `folder`, because they can be large. `without`: parts that are left out.
    """
    script, graph = Script(), len(model.graphs) - 1
    tensors = [attributes.input_tensor(model, graph, index) for index in range(len(model.graphs[graph].inputs))]
    kinds = ["own", "float32"]
    if all(tensor.dtype in {DataType.INT8, DataType.FLOAT16} and len(tensor.shape) == _RANK for tensor in tensors):
        kinds.append("uint8")
    for kind in (kind for kind in kinds if kind not in without):
        context = _shaped(script, path, model, graph, kind)
        given = _inputs(script, model, graph, folder, kind)
        script.call(f"{kind} inputs", "rknn_inputs_set", f"*{context}", len(tensors), f"@{given}")
        script.call(f"{kind} run", "rknn_run", f"*{context}", 0)
        _outputs(script, context, model, f"{kind} raw", want_float=0)
        _outputs(script, context, model, f"{kind} float", want_float=1)
        script.call(f"{kind} destroy", "rknn_destroy", f"*{context}")
    for command in BOUND[3:] if model.is_dynamic else BOUND[:3]:
        if command.name not in without:
            _bound(script, path, model, folder, command)
    return script


def part_of(label: str) -> str:
    """Which part of `ask_runs` a label belongs to."""
    words = label.split("_")
    if words[0] != "bound":
        return words[0]
    return next(command.name for command in BOUND if label.startswith(f"bound_{command.name}"))


def _shaped(script: Script, path: Path, model: Model, graph: int, name: str) -> int:
    context = script.init(path, 0, f"{name} init")
    if model.is_dynamic:
        wanted, count = script.data(shapes_of(model, graph)), len(model.graphs[graph].inputs)
        script.call(f"{name} shapes", "rknn_set_input_shapes", f"*{context}", count, f"@{wanted}")
    return context


def numbers(model: Model, graph: int, index: int, kind: str) -> npt.NDArray[Any]:
    """What an input is fed: the same for every library, and within what the input can hold."""
    tensor = attributes.input_tensor(model, graph, index)
    shape = tuple(attributes.input_attr(model, graph, index)["dims"])
    random = np.random.default_rng(index + len(tensor.name))
    if kind == "uint8":
        return random.integers(0, 256, shape, np.uint8)
    if tensor.dtype is DataType.INT8:
        stored = random.integers(-128, 128, shape, np.int8)
        if kind == "own":
            return stored
        if len(shape) == _RANK or tensor.quantization is None:
            return stored.astype(np.float32) / 16
        # Of inputs without a layout 1.5.2 wraps what is out of range; ours saturates.
        scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
        return ((stored.astype(np.float32) - zero) * scale).astype(np.float32)
    if tensor.dtype.name.startswith("FLOAT"):
        values = random.integers(-64, 64, shape).astype(np.float32) / 32
        return values.astype(np.float16 if kind == "own" and tensor.dtype is DataType.FLOAT16 else np.float32)
    return random.integers(0, 2, shape).astype(DTYPES[tensor.dtype] if kind == "own" else np.float32)


def _kept(folder: Path, name: str, values: npt.NDArray[Any]) -> Path:
    path = folder / name
    path.write_bytes(values.tobytes())
    return path


def _inputs(script: Script, model: Model, graph: int, folder: Path, kind: str) -> int:
    """The buffer with rknn_input of all inputs."""
    rows, places = b"", []
    for index in range(len(model.graphs[graph].inputs)):
        values = numbers(model, graph, index, kind)
        form = attributes.input_attr(model, graph, index)["fmt"]
        kinds = {"uint8": TensorType.UINT8, "float32": TensorType.FLOAT32}
        own = attributes.ELEMENT_TYPES[attributes.input_tensor(model, graph, index).dtype]
        row = {"index": index, "size": values.nbytes, "type": kinds.get(kind, own), "fmt": form}
        places.append((len(rows) + CODEC.offset("rknn_input", "buf"), _kept(folder, f"{kind}{index}", values)))
        rows += CODEC.encode("rknn_input", row)
    given = script.data(rows)
    for offset, path in places:
        script.put(given, offset, f"@{script.file(path)}")
    return given


def _outputs(script: Script, context: int, model: Model, name: str, *, want_float: int) -> None:
    count, size = len(model.graphs[0].outputs), CODEC.size("rknn_output")
    rows = [CODEC.encode("rknn_output", {"index": index, "want_float": want_float}) for index in range(count)]
    wanted = script.data(b"".join(rows))
    script.call(f"{name} get", "rknn_outputs_get", f"*{context}", count, f"@{wanted}", 0)
    for index in range(count):
        start = index * size
        buf, length = (start + CODEC.offset("rknn_output", field) for field in ("buf", "size"))
        script.sum(f"{name} {index}", f"*{wanted}+{buf}", f"%{wanted}+{length}")
    script.call(f"{name} release", "rknn_outputs_release", f"*{context}", count, f"@{wanted}")


def _bound(script: Script, path: Path, model: Model, folder: Path, command: Q) -> None:
    """Inputs as the NPU reads them and outputs as `command` describes them, all in memory of the program."""
    name, graph = f"bound {command.name}", len(model.graphs) - 1
    context = _shaped(script, path, model, graph, name)
    for index in range(len(model.graphs[graph].inputs)):
        asked = Q.CURRENT_NATIVE_INPUT_ATTR if model.is_dynamic else Q.NATIVE_INPUT_ATTR
        attr = script.query(f"{name} input {index}", context, asked, index)
        native = attributes.native_input_attr(model, graph, index)
        random = np.random.default_rng(index)
        data = random.integers(-100, 100, native["size_with_stride"], np.int8)
        if attributes.input_tensor(model, graph, index).dtype is not DataType.INT8:
            data[...] = np.resize(np.array([0, 0x38], np.int8), data.shape)  # 0.5 as float16
        script.lines.append(f"write {attr} {CODEC.offset('rknn_tensor_attr', 'pass_through')} 01")
        memory = _memory(script, context, f"{name} input {index}", attr)
        kept = script.file(_kept(folder, f"native{index}", data))
        script.copy(f"*{memory}+8", f"@{kept}", data.nbytes)
    places = []
    for index in range(len(model.graphs[graph].outputs)):
        attr = script.query(f"{name} output {index}", context, command, index)
        places.append((_memory(script, context, f"{name} output {index}", attr), attr))
    script.call(f"{name} run", "rknn_run", f"*{context}", 0)
    size = CODEC.offset("rknn_tensor_attr", "size")
    for index, (memory, attr) in enumerate(places):
        script.sum(f"{name} bytes {index}", f"*{memory}+8", f"%{attr}+{size}")
    script.call(f"{name} destroy", "rknn_destroy", f"*{context}")


def _memory(script: Script, context: int, name: str, attr: int) -> int:
    """Memory for a tensor, bound; the buffer holds its rknn_tensor_mem, and behind that where its bytes are."""
    size = CODEC.offset("rknn_tensor_attr", "size_with_stride")
    made = script.make(f"{name} memory", "rknn_create_mem", f"*{context}", f"%{attr}+{size}")
    script.call(f"{name} set", "rknn_set_io_mem", f"*{context}", f"*{made}", f"@{attr}")
    pointer = script.buffer(16)
    script.put(pointer, 0, f"*{made}")
    script.copy(f"@{pointer}+8", f"*{made}", 8)  # virt_addr is the first field
    return pointer
