"""Resemblyzer's encoder, which tells voices apart: three LSTM layers, a few frames of mel bands a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.nets import compile_net, find_file
from openrknn.voice.make.pickled_old import read_old_state
from openrknn.voice.sets import VoiceSet, write_set

Array = npt.NDArray[Any]
_FRAMES = 8
"""Of a step: 20 steps are a window of 1.6 s."""
_GATES = (0, 3, 1, 2)
"""ONNX has the gates of an LSTM in the order input, output, forget, cell; PyTorch input, forget, cell, output."""


def make(source: Path, folder: Path, target: str = "rk3588", *, name: str = "resemblyzer", origin: str = "",
         ) -> VoiceSet:  # fmt: skip
    """From `pretrained.pt` of the package Resemblyzer."""
    path = find_file(source, "pretrained.pt")
    state = read_old_state(path, "model_state")
    compile_net(embedding_net(state, str(path)), folder / "embedding.rknn", target)
    made = VoiceSet(
        folder, name, "resemblyzer", "embedding", 16_000, language="", target=target, licence="Apache-2.0",
        source=origin or path.name, files={"net": "embedding.rknn"},
        options={"states": {"net": {"new_h": "h", "new_c": "c"}}, "frames": _FRAMES,
                 "width": len(state["linear.bias"])},
    )  # fmt: skip
    write_set(made)
    return made


def embedding_net(state: dict[str, Array], where: str) -> Any:
    """[frames, 1, bands] of mel bands -> [1, width]; h and c are [layers, 1, width]. The last step counts."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    numbers: dict[str, Array] = {}
    layers = sum(key.startswith("lstm.weight_ih_l") for key in state)
    try:
        bands, width = state["lstm.weight_ih_l0"].shape[1], state["linear.weight"].shape[1]
        last = "mel"
        for at in range(layers):
            numbers |= {
                f"w{at}": _turned(state[f"lstm.weight_ih_l{at}"], width)[None],
                f"r{at}": _turned(state[f"lstm.weight_hh_l{at}"], width)[None],
                f"b{at}": np.concatenate([_turned(state[f"lstm.bias_{part}_l{at}"], width) for part in ("ih", "hh")])[
                    None
                ],
                f"i{at}": np.array([at], np.int64),
            }
            nodes += [
                helper.make_node("Gather", ["h", f"i{at}"], [f"h{at}"], axis=0),
                helper.make_node("Gather", ["c", f"i{at}"], [f"c{at}"], axis=0),
                helper.make_node("LSTM", [last, f"w{at}", f"r{at}", f"b{at}", "", f"h{at}", f"c{at}"],
                                 [f"y{at}", f"nh{at}", f"nc{at}"], hidden_size=width),
                helper.make_node("Squeeze", [f"y{at}", "one"], [f"s{at}"]),
            ]  # fmt: skip
            last = f"s{at}"
        numbers |= {"one": np.array([1], np.int64), "weight": state["linear.weight"], "bias": state["linear.bias"],
                    "flat": np.array([1, width], np.int64)}  # fmt: skip
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise VoiceSetError(f"{where}: these are not the weights of Resemblyzer: {error}") from error
    names = range(layers)
    nodes += [
        helper.make_node("Concat", [f"nh{at}" for at in names], ["new_h"], axis=0),
        helper.make_node("Concat", [f"nc{at}" for at in names], ["new_c"], axis=0),
        helper.make_node("Reshape", [f"nh{layers - 1}", "flat"], ["top"]),
        helper.make_node("Gemm", ["top", "weight", "bias"], ["sum"], transB=1),
        helper.make_node("Relu", ["sum"], ["embedding"]),
    ]

    def port(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

    graph = helper.make_graph(
        nodes, "resemblyzer",
        [port("mel", _FRAMES, 1, bands), port("h", layers, 1, width), port("c", layers, 1, width)],
        [port("embedding", 1, len(state["linear.bias"])), port("new_h", layers, 1, width),
         port("new_c", layers, 1, width)],
        [numpy_helper.from_array(np.ascontiguousarray(value), key) for key, value in numbers.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _turned(value: Array, width: int) -> Array:
    parts = np.asarray(value, np.float32).reshape(4, width, *value.shape[1:])
    return parts[list(_GATES)].reshape(value.shape)
