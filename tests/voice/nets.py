"""Small nets of the same shape as the published ones, with random weights, and sets of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.make.nets import compile_net
from openrknn.voice.sets import VoiceSet, write_set

Array = npt.NDArray[Any]


def recurrent(taken: int, given: int, *, hidden: int = 16, seed: int = 0, gain: float = 1.0) -> Any:
    """x [1, 1, taken] and a state [1, 2, hidden, 1] (h, c of one LSTM) -> sigmoid [1, 1, given] and the new state."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> Array:
        made: Array = rng.standard_normal(shape) * gain / np.sqrt(shape[-1])
        return made.astype(np.float32)

    numbers = {
        "w": weights(1, 4 * hidden, taken), "r": weights(1, 4 * hidden, hidden), "b": weights(1, 8 * hidden),
        "out": weights(hidden, given), "axis": np.array([1], np.int64), "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64), "two": np.array([2], np.int64),
        "cell": np.array([1, 1, hidden], np.int64), "back": np.array([1, 1, hidden, 1], np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("Slice", ["state", "zero", "one", "axis"], ["h4"]),
        helper.make_node("Slice", ["state", "one", "two", "axis"], ["c4"]),
        helper.make_node("Reshape", ["h4", "cell"], ["h"]),
        helper.make_node("Reshape", ["c4", "cell"], ["c"]),
        helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "h1", "c1"], hidden_size=hidden),
        helper.make_node("Reshape", ["h1", "back"], ["h5"]),
        helper.make_node("Reshape", ["c1", "back"], ["c5"]),
        helper.make_node("Concat", ["h5", "c5"], ["state_out"], axis=1),
        helper.make_node("MatMul", ["h1", "out"], ["flat"]),
        helper.make_node("Sigmoid", ["flat"], ["answer"]),
    ]
    graph = helper.make_graph(
        nodes, "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, taken]),
         helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, 2, hidden, 1])],
        [helper.make_tensor_value_info("answer", TensorProto.FLOAT, [1, 1, given]),
         helper.make_tensor_value_info("state_out", TensorProto.FLOAT, [1, 2, hidden, 1])],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


STATES = {"state_out": "state"}


def activity_set(folder: Path) -> VoiceSet:
    """A net for voice activity."""
    compile_net(recurrent(576, 1, gain=4.0), folder / "vad.rknn", "rk3588")
    made = VoiceSet(
        folder, "fake-vad", "silero", "activity", 16_000, files={"net": "vad.rknn"}, options={"states": {"net": STATES}}
    )
    write_set(made)
    return made
