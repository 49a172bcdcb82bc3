"""openWakeWord: a front end that all words share (mel bands and an embedding), and a small net for each word.

The mel front end of the authors is a model too: the real and imaginary part of a spectrum as two convolutions, squares,
a matrix of mel bands, then decibels. Its products are the NPU's here, in one net over frames; the decibels, whose range
no fp16 holds, are left to `openrknn.voice.wake`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net, find_file
from openrknn.voice.sets import VoiceSet, installed, write_set

_MEL = ("melspectrogram.tflite", "melspectrogram.onnx")
_EMBEDDING = ("embedding_model.tflite", "embedding_model.onnx")
_BINS, _FRAME, _FRAMES, _BANDS = 257, 512, 8, 32
_WINDOW = (1, 76, _BANDS, 1)

_WORDS = ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "okay_nabu")
_LICENCE = "CC BY-NC-SA 4.0"
"""What openWakeWord's authors say of their words; that of your own is yours to say."""

Array = npt.NDArray[Any]


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "hey_jarvis", origin: str = "") -> VoiceSet:
    """From a folder with the models of openwakeword or pyopen-wakeword, or from one net of a word of your own.

    A file of your own needs the front end beside it, or a set that has it already.
    """
    path = source if source.is_file() else _net_of(source, name)
    folder.mkdir(parents=True, exist_ok=True)
    _front_end(path.parent, folder, target)
    model, verify = _two_stages(_read(path))
    compile_net(model, folder / "word.rknn", target)
    licence = _LICENCE if path.stem in _WORDS else ""
    made = VoiceSet(
        folder, name, "openwakeword", "wake", 16_000, target=target, licence=licence, source=origin or path.name,
        files={"mel": "mel.rknn", "embedding": "embedding.rknn", "word": "word.rknn"},
        options={} if verify is None else {"verify": verify},
    )  # fmt: skip
    write_set(made)
    return made


def _net_of(source: Path, name: str) -> Path:
    try:
        return find_file(source, f"{name}.tflite", f"{name}.onnx", f"{name}_v*.onnx")
    except VoiceSetError as error:
        files = [path for path in source.rglob("*") if path.suffix in (".tflite", ".onnx")]
        words = sorted(path.name for path in files if path.name not in (*_MEL, *_EMBEDDING))
        raise VoiceSetError(f"{source}: which word? Give the file of one: {', '.join(words[:20]) or 'none'}") from error


def _front_end(source: Path, folder: Path, target: str) -> None:
    if not any((source / name).is_file() for name in _MEL):
        for other in installed("wake"):
            if other.target == target and other.family == "openwakeword":
                shutil.copyfile(other.file("mel"), folder / "mel.rknn")
                shutil.copyfile(other.file("embedding"), folder / "embedding.rknn")
                return
        raise VoiceSetError(
            f"{source}: no {_MEL[1]} beside the net of the word, and no other wake word at home to take it from; "
            "`openrknn voice get hey_jarvis` makes one"
        )
    compile_net(_mel_net(find_file(source, *_MEL)), folder / "mel.rknn", target)
    embedding = find_file(source, *_EMBEDDING)
    model = _read(embedding)
    shapes = {model.graph.input[0].name: _WINDOW} if embedding.suffix == ".onnx" else None
    compile_net(model, folder / "embedding.rknn", target, shapes=shapes)


def _read(path: Path) -> Any:
    from openrknn.compiler import read_model

    return read_model(str(path))


def _mel_net(path: Path) -> Any:
    """[1, 512, 1, 8] frames -> [1, 32, 1, 8] power in mel bands: products only, and squares between them."""
    from onnx import TensorProto, helper, numpy_helper

    model = _read(path)
    arrays = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    waves = [arrays[node.input[1]] for node in model.graph.node if node.op_type == "Conv" and node.input[1] in arrays]
    bands = [
        arrays[name]
        for node in model.graph.node
        if node.op_type == "MatMul"
        for name in node.input
        if name in arrays and arrays[name].shape == (_BINS, _BANDS)
    ]
    if [wave.size for wave in waves] != [_BINS * _FRAME] * 2 or len(bands) != 1 or bands[0].max() > 1:
        raise VoiceSetError(f"{path}: this is not openWakeWord's mel front end: two convolutions of {_FRAME} samples")
    numbers = {
        "waves": np.concatenate([wave.reshape(_BINS, _FRAME, 1, 1) for wave in waves]),
        "bands": np.concatenate([bands[0], bands[0]]).T.reshape(_BANDS, 2 * _BINS, 1, 1),
    }
    nodes = [
        helper.make_node("Conv", ["frames", "waves"], ["spectrum"]),
        helper.make_node("Mul", ["spectrum", "spectrum"], ["squares"]),
        helper.make_node("Conv", ["squares", "bands"], ["power"]),
    ]
    graph = helper.make_graph(
        nodes, "mel", [helper.make_tensor_value_info("frames", TensorProto.FLOAT, [1, _FRAME, 1, _FRAMES])],
        [helper.make_tensor_value_info("power", TensorProto.FLOAT, [1, _BANDS, 1, _FRAMES])],
        [numpy_helper.from_array(np.ascontiguousarray(value, np.float32), key) for key, value in numbers.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _two_stages(model: Any) -> tuple[Any, float | None]:
    """Some words ask a second net where the first one says yes: both are computed, and the outputs are both scores."""
    from onnx import helper, numpy_helper

    branch = next((node for node in model.graph.node if node.op_type == "If"), None)
    if branch is None:
        return model, None
    arrays = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    arrays |= {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t)
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    bodies = {entry.name: entry.g for entry in branch.attribute}
    asked = next((node for node in model.graph.node if node.op_type in ("GreaterOrEqual", "Greater")), None)
    bound = arrays.get(asked.input[1]) if asked is not None else None
    if asked is None or bound is None or bound.size != 1 or len(branch.output) != 1:
        raise VoiceSetError(f"the net of the word decides by {branch.name!r} in a way that is not understood")
    then = bodies["then_branch"]
    nodes = [node for node in model.graph.node if node is not branch]
    graph = helper.make_graph(
        [*nodes, *then.node], model.graph.name, list(model.graph.input),
        [_score(asked.input[0]), _score(then.output[0].name)],
        [*model.graph.initializer, *then.initializer],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    return made, float(bound.reshape(-1)[0])


def _score(name: str) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1])
