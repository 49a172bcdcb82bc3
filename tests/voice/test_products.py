"""A small graph of any length, split and run on the software NPU; the witness is ONNX Runtime with the same noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.onnxgraph import OnnxGraph
from openrknn.voice.errors import PhonemeError, VoiceSetError
from openrknn.voice.kokoro import symbols
from openrknn.voice.make import kokoro
from openrknn.voice.make.products import find_products, split, window_of
from openrknn.voice.products.graph import ProductGraph, product
from openrknn.voice.products.plan import Product, read_plan
from openrknn.voice.sets import VoiceSet
from openrknn.voice.speaker import Speaker

Floats = npt.NDArray[np.float32]


def small_model(*, has_noise: bool = False, ids: str = "input_ids") -> Any:
    """Kokoro in small: a table, rounded durations, a MatMul, a norm over the whole sentence, upsampling."""
    random = np.random.default_rng(3)

    def weight(name: str, *shape: int) -> Any:
        scale = np.float32(1 / np.sqrt(np.prod(shape[1:])))
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) * scale, name)

    node = helper.make_node
    nodes = [
        node("Gather", ["table", ids], ["rows"]),
        node("MatMul", ["rows", "w1"], ["mixed_0"]), node("Add", ["mixed_0", "b1"], ["mixed"]),
        node("ReduceSum", ["mixed", "last"], ["sums"], keepdims=0), node("Round", ["sums"], ["rounded"]),
        node("Unsqueeze", ["rounded", "one"], ["durations"]),
        node("Transpose", ["mixed"], ["columns"], perm=[0, 2, 1]),
        node("Mul", ["columns", "durations"], ["scaled"]),
        node("MatMul", ["style", "w2"], ["styled_0"]), node("Unsqueeze", ["styled_0", "last"], ["styled"]),
        node("Conv", ["scaled", "w3", "b3"], ["conv"], kernel_shape=[3], dilations=[2], pads=[2, 2]),
        node("ReduceMean", ["conv", "last"], ["mean"], keepdims=1), node("Sub", ["conv", "mean"], ["centred"]),
        node("Add", ["centred", "styled"], ["moved"]),
        *([node("RandomNormalLike", ["moved"], ["noise"], scale=0.5), node("Add", ["moved", "noise"], ["noisy"])]
          if has_noise else [node("Identity", ["moved"], ["noisy"])]),
        node("LeakyRelu", ["noisy"], ["active"], alpha=0.1),
        node("ConvTranspose", ["active", "w4", "b4"], ["up"], kernel_shape=[8], strides=[4], pads=[2, 2]),
        node("Conv", ["up", "w5"], ["wave_0"], kernel_shape=[3], strides=[1], pads=[1, 1]),
        node("Mul", ["wave_0", "speed"], ["wave_1"]), node("Squeeze", ["wave_1", "one"], ["waveform"]),
    ]  # fmt: skip
    weights = [
        weight("table", 178, 16), weight("w1", 16, 24), weight("b1", 24), weight("w2", 256, 32),
        weight("w3", 32, 24, 3), weight("b3", 32), weight("w4", 32, 16, 8), weight("b4", 16), weight("w5", 1, 16, 3),
        numpy_helper.from_array(np.array([2]), "last"), numpy_helper.from_array(np.array([1]), "one"),
    ]  # fmt: skip
    entries = [
        helper.make_tensor_value_info(ids, TensorProto.INT64, [1, None]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
    ]
    result = helper.make_tensor_value_info("waveform", TensorProto.FLOAT, [1, None])
    model = helper.make_model(
        helper.make_graph(nodes, "g", entries, [result], weights), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 9
    return model


def feed(count: int) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(count)
    ids = np.array([[0, *random.integers(1, 170, count), 0]])
    return {"input_ids": ids, "style": random.standard_normal((1, 256)).astype(np.float32), "speed": np.ones(1, "f4")}


def decibels(right: npt.NDArray[Any], made: npt.NDArray[Any]) -> float:
    error = right.astype(np.float64) - made
    return float(10 * np.log10((right.astype(np.float64) ** 2).sum() / (error**2).sum()))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductGraph]:
    folder = tmp_path_factory.mktemp("graph")
    split(small_model(has_noise=True), folder, "rk3588", feed(30), float_above=lambda _: set(), least=64)
    with ProductGraph(folder / "plan.json", "software") as made:
        yield made


@pytest.mark.parametrize("count", [3, 70, 150])
def test_any_length_is_what_the_whole_graph_says(graph: ProductGraph, count: int) -> None:
    model = small_model(has_noise=True)
    noise = np.random.default_rng(1).standard_normal((1, 32, count + 2)).astype(np.float32)
    place = next(place for place, node in enumerate(model.graph.node) if node.op_type == "RandomNormalLike")
    del model.graph.node[place]
    model.graph.input.append(helper.make_tensor_value_info("noise", TensorProto.FLOAT, [1, 32, None]))
    given = feed(count)
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {**given, "noise": noise / 2})[0]
    # Rounded durations may differ by fp16: those of float are taken.
    rounded = onnxruntime.InferenceSession(_with_output(small_model(), "rounded")).run(["rounded"], given)[0]
    made = graph.run(given, noise=[noise], forced={"durations": rounded[:, None]})
    assert made["waveform"].shape == right.shape == (1, 4 * (count + 2))
    assert decibels(right, made["waveform"]) > 50
    assert graph.times["npu"] > 0


def _with_output(model: Any, name: str) -> bytes:
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return bytes(model.SerializeToString())


def test_noise_is_of_the_right_shape_and_repeats(graph: ProductGraph) -> None:
    one, two = (graph.run(feed(5), random=np.random.default_rng(7))["waveform"] for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (graph.run(feed(5), random=np.random.default_rng(8))["waveform"] != one).any()
    with pytest.raises(ValueError, match=r"should have the shape \(1, 32, 7\)"):
        graph.run(feed(5), noise=[np.zeros((1, 32, 6), np.float32)])


def test_products_are_found_and_a_bias_joins_its_matmul(graph: ProductGraph) -> None:
    kinds = {one.output: (one.kind, one.window) for one in graph.plan.products}
    assert kinds == {"mixed": ("matmul", 64), "conv": ("conv", 64), "up": ("transposed", 64)}  # style: one column
    found = find_products(OnnxGraph(small_model()), least=1000)
    assert [one.product.output for one in found.values()] == ["styled_0", "conv", "up"]
    assert [window_of(columns) for columns in (1, 192, 193, 6144, 10**6)] == [64, 64, 128, 2048, 2048]


def test_windows_are_the_whole() -> None:
    """Against NumPy in float: no column is lost, doubled or moved at the border of a window."""
    random = np.random.default_rng(0)
    value = random.standard_normal((1, 3, 41)).astype(np.float32)
    for stride, dilation, pads in ((1, 1, (0, 0)), (2, 3, (4, 1))):
        weights = random.standard_normal((5, 3, 4)).astype(np.float32)
        step = Product("n", "conv", "x", "y", 6, 3, 5, 4, stride, dilation, *pads)
        padded = np.pad(value[0], ((0, 0), pads))
        count = (padded.shape[1] - 3 * dilation - 1) // stride + 1
        span = 3 * dilation + 1
        right = np.stack([np.einsum("oik,ik->o", weights, padded[:, n * stride : n * stride + span : dilation])
                          for n in range(count)], 1)  # fmt: skip

        def one(piece: Floats, weights: Floats = weights, step: Product = step) -> Floats:
            assert piece.shape == (3, step.span)
            places = range(0, step.window * step.stride, step.stride)
            reach = 3 * step.dilation + 1
            return np.stack(
                [np.einsum("oik,ik->o", weights, piece[:, n : n + reach : step.dilation]) for n in places], 1
            )

        np.testing.assert_allclose(product(step, value, one)[0], right, atol=1e-4)
    with pytest.raises(VoiceSetError, match="takes 3 rows"):
        product(step, value[:, :2], one)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "no_format": ({"format": 9}, "no plan of format"),
    "outside": ({"net": "../x.rknn"}, "not a path inside"),
    "window": ({"window": 0}, "window should be"),
    "kind": ({"kind": "pool"}, "none of conv"),
    "order": ({"input": "nothing"}, "which nothing before it makes"),
    "missing": ({"net": "products/999.rknn"}, "is missing"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_plan_that_was_changed(graph: ProductGraph, tmp_path: Path, what: str) -> None:
    change, message = CHANGES[what]
    row = json.loads((graph.folder / "plan.json").read_text())
    place = row if "format" in change else next(step for step in row["steps"] if step["step"] == "product")
    place.update(change)
    for folder in ("steps", "products"):
        (tmp_path / folder).symlink_to(graph.folder / folder)
    (tmp_path / "plan.json").write_text(json.dumps(row))
    with pytest.raises(VoiceSetError, match=message):
        ProductGraph(tmp_path / "plan.json", "software").close()


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> VoiceSet:
    import onnx

    folder = tmp_path_factory.mktemp("kokoro")
    (folder / "voices").mkdir()
    random = np.random.default_rng(5)
    for name in ("af_heart", "bm_lewis", "jf_alpha"):
        random.standard_normal((8, 256)).astype(np.float32).tofile(folder / "voices" / f"{name}.bin")
    onnx.save(small_model(), str(folder / "kokoro-small.onnx"))
    return kokoro.make(folder, folder / "set", least=64)


def test_a_voice_of_kokoro_speaks(voice: VoiceSet) -> None:
    assert {one.output for one in read_plan(voice.file("plan")).products} == {"conv", "up"}  # durations are float
    with Speaker(voice, "software") as speak:
        assert (speak.rate, list(speak.speakers)) == (24000, ["af_heart", "bm_lewis", "jf_alpha"])
        text = "<speak>[[həlˈoʊ]]<break time='1s'/><voice name='jf_alpha'>[[wɜɹld]]</voice></speak>"
        first, second = list(speak.stream(text, loudness=-20.0))
        assert len(first.samples) == 4 * (2 + len("həlˈO"))
        assert len(second.samples) == 24000 + 4 * (2 + len("wɜɹld"))
        assert not second.samples[:24000].any()
        with pytest.raises(ValueError, match="draws no noise"):
            speak("[[a]]", noise_w=0.3)
        with pytest.raises(PhonemeError, match="Japanese and Chinese"):
            speak("hello", speaker="jf_alpha")


def test_symbols() -> None:
    assert len(symbols.SYMBOLS) == 114
    assert [symbols.SYMBOLS[mark] for mark in ";” \u0303AOɑəɹʧˈᵻ"] == [
        1,
        15,
        16,
        17,
        24,
        31,
        69,
        83,
        123,
        133,
        156,
        177,
    ]
    assert symbols.in_symbols("dʒˈeɪmz z lˈɜːɾɚ", "a") == "ʤˈAmzz lˈɜɹTəɹ"
    assert symbols.in_symbols("ɡˈəʊ", "b") == "ɡˈQ"
    assert [len(piece) for piece in symbols.pieces("ab, " * 200, 510)] == [507, 291]
    with pytest.raises(PhonemeError, match="knows too few"):
        symbols.ids_of("日本語")


def test_kokoro_refuses(tmp_path: Path, voice: VoiceSet) -> None:
    with pytest.raises(VoiceSetError, match=r"no kokoro\*\.onnx"):
        kokoro.make(tmp_path, tmp_path / "set")
    (tmp_path / "kokoro.part1.bin").write_bytes(b"x")
    with pytest.raises(VoiceSetError, match=r"its parts are \[1\]"):
        kokoro.make(tmp_path, tmp_path / "set")
    (tmp_path / "kokoro.onnx").write_bytes((voice.folder.parent / "kokoro-small.onnx").read_bytes())
    with pytest.raises(VoiceSetError, match="no voices"):
        kokoro.make(tmp_path, tmp_path / "set")
