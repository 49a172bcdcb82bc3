"""Basic Pitch, which hears notes: two nets, with decibels between them that no fp16 holds.

The first one is a constant-Q transform, the second a convolutional net over its normalised decibels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openrknn.onnxgraph import makers_of
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net, find_file
from openrknn.voice.sets import VoiceSet, write_set

_SAMPLES, _FRAMES, _BINS = 43_844, 172, 309


def make(
    source: Path, folder: Path, target: str = "rk3588", *, name: str = "basic-pitch", origin: str = ""
) -> VoiceSet:  # fmt: skip
    """From `nmp.onnx` of the package basic-pitch."""
    path = find_file(source, "nmp.onnx")
    transform, network, outputs = _halves(path)
    compile_net(transform, folder / "transform.rknn", target)
    compile_net(network, folder / "notes.rknn", target)
    made = VoiceSet(
        folder, name, "basic-pitch", "notes", 22_050, target=target, licence="Apache-2.0", source=origin or path.name,
        files={"transform": "transform.rknn", "notes": "notes.rknn"}, options={"outputs": outputs},
    )  # fmt: skip
    write_set(made)
    return made


def _halves(path: Path) -> tuple[Any, Any, dict[str, str]]:
    from openrknn.compiler import read_model

    model = read_model(str(path))
    graph = model.graph
    makers = makers_of(graph.node)
    log = next((node for node in graph.node if node.op_type == "Log"), None)
    where = next((node for node in graph.node if node.op_type == "Where"), None)
    sums = [node for node in graph.node if node.op_type == "ReduceSum"]
    squares = makers.get(sums[0].input[0]) if len(sums) == 1 else None
    if log is None or where is None or squares is None or squares.op_type != "Mul" or len(graph.output) != 3:
        raise VoiceSetError(f"{path}: this is not the model of Basic Pitch: a transform, its decibels, three outputs")
    normal = where.output[0]
    for node in graph.node:
        if node.input and node.input[0] == normal and node.op_type in ("Reshape", "Unsqueeze"):
            normal = node.output[0]
    # In the file: onsets, notes, contours. The numbers of bins and the authors' order tell them apart.
    outputs = {"onset": graph.output[0].name, "note": graph.output[1].name, "contour": graph.output[2].name}
    sound = graph.input[0].name
    first = _part(model, sound, [1, _SAMPLES, 1], {squares.input[0]: [1, _BINS, _FRAMES, 2]})
    ends = {
        outputs["onset"]: [1, _FRAMES, 88],
        outputs["note"]: [1, _FRAMES, 88],
        outputs["contour"]: [1, _FRAMES, 264],
    }
    return first, _part(model, normal, [1, _FRAMES, _BINS, 1], ends), outputs


def _part(model: Any, taken: str, shape: list[int], given: dict[str, list[int]]) -> Any:
    """The operators between one value and others."""
    from onnx import TensorProto, helper

    makers = makers_of(model.graph.node)
    needed, open_ = set(), list(given)
    while open_:
        node = makers.get(open_.pop())
        if node is not None and node.output[0] not in needed:
            needed.add(node.output[0])
            open_ += [name for name in node.input if name != taken]
    nodes = [node for node in model.graph.node if node.output[0] in needed]
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "part", [helper.make_tensor_value_info(taken, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in given.items()],
        [entry for entry in model.graph.initializer if entry.name in read],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
