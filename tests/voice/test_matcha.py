"""Matcha in small, with a vocoder, split and spoken; the witness is ONNX Runtime with the same noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make import matcha
from openrknn.voice.make.fetch import family_of
from openrknn.voice.matcha.speaking import MatchaVoice, read_tokens
from openrknn.voice.speaker import Speaker
from openrknn.voice.talkers import Scales

_RANDOM = np.random.default_rng(11)


def _weight(name: str, *shape: int) -> Any:
    scale = np.float32(1 / np.sqrt(np.prod(shape[1:])))
    return numpy_helper.from_array(_RANDOM.standard_normal(shape).astype(np.float32) * scale, name)


def _model(nodes: list[Any], entries: list[Any], result: str, weights: list[Any]) -> Any:
    graph = helper.make_graph(nodes, "g", entries, [helper.make_tensor_value_info(result, 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model


def acoustic_model() -> Any:
    """Tokens -> two frames each, with noise -> mel."""
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Gather", ["table", "x"], ["rows"]), node("Transpose", ["rows"], ["columns"], perm=[0, 2, 1]),
        node("Conv", ["columns", "w1", "b1"], ["mixed"], kernel_shape=[3], pads=[1, 1]),
        node("Resize", ["mixed", "", "twice"], ["frames"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("RandomNormalLike", ["frames"], ["noise"]), node("Mul", ["noise", "noise_scale"], ["scaled"]),
        node("Add", ["frames", "scaled"], ["noisy"]), node("Conv", ["noisy", "w2"], ["mel_0"], kernel_shape=[1]),
        node("Mul", ["mel_0", "length_scale"], ["mel_1"]), node("Cast", ["x_length"], ["length"], to=1),
        node("Div", ["length", "length"], ["one"]), node("Mul", ["mel_1", "one"], ["mel"]),
    ]  # fmt: skip
    entries = [
        info("x", TensorProto.INT64, [1, None]), info("x_length", TensorProto.INT64, [1]),
        info("noise_scale", TensorProto.FLOAT, [1]), info("length_scale", TensorProto.FLOAT, [1]),
    ]  # fmt: skip
    weights = [_weight("table", 40, 16), _weight("w1", 16, 16, 3), _weight("b1", 16), _weight("w2", 8, 16, 1),
               numpy_helper.from_array(np.array([1, 1, 2], np.float32), "twice")]  # fmt: skip
    model = _model(nodes, entries, "mel", weights)
    for key, value in (("sample_rate", "16000"), ("voice", "en-us")):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return model


def vocoder_model() -> Any:
    nodes = [helper.make_node("ConvTranspose", ["mel", "w"], ["up"], kernel_shape=[8], strides=[4], pads=[2, 2]),
             helper.make_node("Tanh", ["up"], ["audio"])]  # fmt: skip
    entry = helper.make_tensor_value_info("mel", TensorProto.FLOAT, [1, 8, None])
    return _model(nodes, [entry], "audio", [_weight("w", 8, 1, 8)])


def _folder(folder: Path) -> Path:
    onnx.save(acoustic_model(), str(folder / "model-steps-3.onnx"))
    onnx.save(vocoder_model(), str(folder / "hifigan_v2.onnx"))
    letters = ["_", "^", "$", " ", *"abcdefghijklmnopqrstuvwxyzəɪʊˈˌː"]
    (folder / "tokens.txt").write_text("".join(f"{letter} {n}\n" for n, letter in enumerate(letters)), encoding="utf-8")
    return folder


def test_a_folder_of_sherpa_onnx_speaks(tmp_path: Path) -> None:
    source = _folder(tmp_path)
    assert family_of(source) == "matcha"
    voice = matcha.make(source, tmp_path / "set", least=32)
    ids = [1, 0, 5, 0, 9, 0, 2]
    noise = np.random.default_rng(2).standard_normal((1, 16, 14)).astype(np.float32)
    talker = MatchaVoice(voice, "software")
    made = np.concatenate(list(talker.speak(ids, Scales(0.5, 1.0, 0.0), 0, np.random.default_rng(0), [noise])))
    talker.close()
    whole = onnx.load(str(source / "model-steps-3.onnx"))
    place = next(place for place, node in enumerate(whole.graph.node) if node.op_type == "RandomNormalLike")
    del whole.graph.node[place]
    whole.graph.input.append(helper.make_tensor_value_info("noise", TensorProto.FLOAT, [1, 16, None]))
    feed = {"x": np.array([ids]), "x_length": np.array([7]), "noise_scale": np.array([0.5], "f4"),
            "length_scale": np.ones(1, "f4"), "noise": noise}  # fmt: skip
    mel = onnxruntime.InferenceSession(whole.SerializeToString()).run(None, feed)[0]
    right = onnxruntime.InferenceSession(str(source / "hifigan_v2.onnx")).run(None, {"mel": mel})[0].reshape(-1)
    assert made.shape == right.shape == (56,)
    assert 10 * np.log10((right**2).sum() / ((right - made) ** 2).sum()) > 45
    with Speaker(voice, "software") as speak:
        assert speak.rate == 16000
        one, two = (speak("[[abc def]]", seed=4).samples for _ in range(2))
        np.testing.assert_array_equal(one, two)
        assert (speak("[[abc def]]", seed=5).samples != one).any()


def test_matcha_refuses(tmp_path: Path) -> None:
    source = _folder(tmp_path)
    tokens = source / "tokens.txt"
    assert read_tokens(tokens)[" "] == (3,)
    tokens.write_text("_ 0\n^ 1\nx y\n", encoding="utf-8")
    with pytest.raises(VoiceSetError, match=r"line 3: a symbol and its number"):
        matcha.make(source, tmp_path / "set")
    tokens.write_text("_ 0\n^ 1\n", encoding="utf-8")
    with pytest.raises(VoiceSetError, match=r"has no '\$'"):
        matcha.make(source, tmp_path / "set")
