"""Layers that OpenCV does not read from these files. The witness is NumPy, written after the frameworks' sources."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler import read_model
from tests.compiler.formats.caffe_nets import Caffe
from tests.compiler.formats.witness import opencv, ran
from tests.compiler.nets import Array

FEED = np.random.default_rng(5).normal(0, 2, (1, 4, 6, 8)).astype(np.float32)
Wanted = Callable[[Array], Array]


def darknet(text: str, feed: Array = FEED, numbers: Array | None = None, version: tuple[int, int] = (0, 2)) -> Array:
    sizes = f"[net]\nchannels={feed.shape[1]}\nheight={feed.shape[2]}\nwidth={feed.shape[3]}\n"
    header = struct.pack("<3i", *version, 0) + (bytes(8) if version[1] < 1000 else bytes(4))
    weights = header + (b"" if numbers is None else numbers.astype("<f4").tobytes())
    model = read_model(((sizes + text).encode(), weights))
    (made,) = ran(model, {"data": feed}).values()
    return made


def windows(x: Array, size: int, pad: int) -> list[list[Array]]:
    """What lies inside the picture of each window, with stride 1 and the smaller half of the padding before."""
    before = pad // 2
    rows, columns = (
        [slice(max(0, at - before), at - before + size) for at in range(length + pad - size + 1)]
        for length in x.shape[2:]
    )
    return [[x[:, :, down, across] for across in columns] for down in rows]


def test_darknets_functions() -> None:
    x = FEED.astype(np.float64)
    wanted = {
        "hard_mish": np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0)),
        "loggy": 2 / (1 + np.exp(-x)) - 1,
        "ramp": x * (x > 0) + 0.1 * x,
        "relie": np.where(x > 0, x, 0.01 * x),
        "hardtan": np.clip(x, -1, 1),
        "relu6": np.clip(x, 0, 6),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "selu": 1.0507 * np.where(x > 0, x, 1.6732 * np.expm1(x)),
        "gelu": 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3)),
    }
    for name, value in wanted.items():
        got = darknet(f"[activation]\nactivation={name}\n")
        np.testing.assert_allclose(got, value, atol=1e-4, err_msg=name)


def test_darknets_means_of_windows_count_pixels_that_are_there() -> None:
    got = darknet("[local_avgpool]\nsize=3\nstride=1\n")
    wanted = [[part.mean((2, 3)) for part in row] for row in windows(FEED, 3, 2)]
    np.testing.assert_allclose(got, np.array(wanted).transpose(2, 3, 0, 1), atol=1e-5)


def test_darknets_blocks_in_the_plain_order() -> None:
    got = darknet("[reorg3d]\nstride=2\n")
    parts = [FEED[:, :, y::2, x::2] for y in (0, 1) for x in (0, 1)]
    np.testing.assert_array_equal(got, np.concatenate(parts, 1))


def test_darknets_maximum_over_channels() -> None:
    got = darknet("[maxpool]\nmaxpool_depth=1\nout_channels=2\n")
    np.testing.assert_array_equal(got, np.stack([FEED[:, [0, 2]].max(1), FEED[:, [1, 3]].max(1)], 1))


def test_darknets_crop_takes_the_middle() -> None:
    got = darknet("[crop]\ncrop_height=4\ncrop_width=5\n")
    np.testing.assert_allclose(got, FEED[:, :, 1:5, 1:6] * 2 - 1, atol=1e-6)
    got = darknet("[crop]\ncrop_height=4\ncrop_width=5\nnoadjust=1\n")
    np.testing.assert_array_equal(got, FEED[:, :, 1:5, 1:6])


def test_darknets_softmax_with_groups_and_temperature() -> None:
    got = darknet("[softmax]\ngroups=2\ntemperature=3\n").reshape(2, -1)
    raised = np.exp(FEED.reshape(2, -1).astype(np.float64) / 3)
    np.testing.assert_allclose(got, raised / raised.sum(1, keepdims=True), atol=1e-6)
    got = darknet("[softmax]\nspatial=1\n")
    raised = np.exp(FEED)
    np.testing.assert_allclose(got, raised / raised.sum(1, keepdims=True), atol=1e-6)


def test_the_output_is_named_after_the_last_layer_that_computes() -> None:
    text = "[net]\nchannels=4\nheight=6\nwidth=8\n[avgpool]\n[softmax]\n[dropout]\n[cost]\n"
    model = read_model((text.encode(), struct.pack("<3iq", 0, 2, 0, 0)))
    assert [entry.name for entry in model.graph.output] == ["softmax_1"]


def test_darknets_shortcuts_of_several_layers_and_sizes() -> None:
    same = "[activation]\nactivation=relu\n[activation]\nactivation=tanh\n[shortcut]\nfrom=-2,-1\n"
    relu = np.maximum(FEED, 0)
    np.testing.assert_allclose(darknet(same), np.tanh(relu) + relu + np.tanh(relu), atol=1e-6)
    larger = "[dropout]\n[maxpool]\nsize=2\nstride=2\npadding=0\n[shortcut]\nfrom=0\n"
    pooled = FEED.reshape(1, 4, 3, 2, 4, 2).max((3, 5))
    np.testing.assert_allclose(darknet(larger), pooled + FEED[:, :, ::2, ::2], atol=1e-6)


@pytest.mark.parametrize("version", [(0, 2), (0, 1002)])
def test_darknets_connected_layers_normalised_and_turned(version: tuple[int, int]) -> None:
    random, count = np.random.default_rng(0), FEED.size
    bias, scale, mean = random.normal(0, 1, (3, 5))
    variance, weights = random.uniform(0.5, 2, 5), random.normal(0, 0.1, (5, count))
    stored = weights.T if version[1] > 1000 else weights
    numbers = np.concatenate([bias, stored.reshape(-1), scale, mean, variance])
    got = darknet("[connected]\noutput=5\nbatch_normalize=1\nactivation=linear\n", FEED, numbers, version)
    wanted = (weights @ FEED.reshape(-1) - mean) / np.sqrt(variance) * scale + bias
    np.testing.assert_allclose(got[0], wanted, rtol=1e-4, atol=1e-4)


def caffe(kind: str, text: str = "", arrays: tuple[Array, ...] = (), feed: Array = FEED, tops: str = "out") -> Array:
    net = Caffe(*feed.shape)
    net.add(kind, "data", tops, text, arrays)
    made = ran(read_model(("\n".join(net.text).encode(), net.binary())), {"data": feed})
    return made["out"]


def top3(x: Array) -> Array:
    return np.sort(x.reshape(1, -1))[:, ::-1][:, :3]


VECTOR = np.array([0.5, -1.0, 2.0, 3.0])
CAFFE: list[tuple[str, str, tuple[Array, ...], Wanted]] = [
    ("Log", "log_param { base: 10 scale: 0.01 shift: 9 }", (), lambda x: np.log10(9 + 0.01 * x)),
    ("Log", "log_param { shift: 20 }", (), lambda x: np.log(20 + x)),
    ("Threshold", "threshold_param { threshold: 0.5 }", (), lambda x: (x > 0.5).astype(np.float32)),
    ("Clip", "clip_param { min: -1 max: 0.5 }", (), lambda x: np.clip(x, -1, 0.5)),
    ("Swish", "swish_param { beta: 2 }", (), lambda x: x / (1 + np.exp(-2 * x))),
    ("Bias", "", (VECTOR,), lambda x: x + VECTOR[:, None, None]),
    ("Bias", "bias_param { axis: 2 }", (VECTOR.repeat(2)[:6],), lambda x: x + VECTOR.repeat(2)[:6, None]),
    ("Scale", "scale_param { axis: 1 num_axes: 2 }", (np.outer(VECTOR, np.arange(6.0)),),
     lambda x: x * np.outer(VECTOR, np.arange(6.0))[..., None]),
    ("Tile", "tile_param { axis: 2 tiles: 3 }", (), lambda x: np.tile(x, (1, 1, 3, 1))),
    ("Upsample", "upsample_param { scale: 2 }", (), lambda x: x.repeat(2, 2).repeat(2, 3)),
    ("Reduction", "reduction_param { axis: 1 }", (), lambda x: x.sum((1, 2, 3))),
    ("Reduction", "reduction_param { operation: MEAN axis: 2 coeff: 3 }", (), lambda x: 3 * x.mean((2, 3))),
    ("Reduction", "reduction_param { operation: ASUM axis: 3 }", (), lambda x: np.abs(x).sum(3)),
    ("Reduction", "reduction_param { operation: SUMSQ axis: 1 }", (), lambda x: (x * x).sum((1, 2, 3))),
    ("ArgMax", "argmax_param { axis: 1 }", (), lambda x: x.argmax(1)[:, None]),
    ("ArgMax", "", (), lambda x: x.reshape(1, -1).argmax(1).reshape(1, 1, 1)),
    ("ArgMax", "argmax_param { top_k: 3 }", (), lambda x: np.argsort(-x.reshape(1, -1))[:, None, :3]),
    ("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", (),
     lambda x: np.stack([np.argsort(-x.reshape(1, -1))[:, :3], top3(x)], 1)),
    ("Normalize", "", (np.array([3.0]),), lambda x: 3 * x / np.sqrt((x * x).sum())),
    ("InnerProduct", "inner_product_param { num_output: 3 transpose: true axis: -1 bias_term: false }",
     (np.arange(24.0).reshape(8, 3),), lambda x: x @ np.arange(24.0).reshape(8, 3)),
    ("Pooling", "pooling_param { kernel_size: 3 stride: 2 round_mode: FLOOR }", (),
     lambda x: np.stack([x[:, :, y : y + 3, c : c + 3].max((2, 3)) for y in (0, 2) for c in (0, 2, 4)], -1)
     .reshape(1, 4, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "arrays", "wanted"), CAFFE, ids=[f"{row[0]} {row[1]}" for row in CAFFE])
def test_caffes_layers(kind: str, text: str, arrays: tuple[Array, ...], wanted: Wanted) -> None:
    got, should = caffe(kind, text, arrays), wanted(FEED)
    assert got.shape == should.shape
    np.testing.assert_allclose(got, should, rtol=1e-4, atol=1e-4)


def test_caffes_embedding_takes_whole_numbers() -> None:
    rows, bias = np.random.default_rng(0).normal(0, 1, (7, 3)), VECTOR[:3]
    ids = np.array([[3, 0, 6, 3]], np.float32)
    got = caffe("Embed", "embed_param { num_output: 3 input_dim: 7 }", (rows, bias), ids)
    np.testing.assert_allclose(got, rows[ids.astype(int)] + bias, rtol=1e-6)


def test_caffes_axpy() -> None:
    net = Caffe(1, 4, 6, 8)
    gate = net.pool("data", "pool: AVE global_pooling: true")
    net.add("Axpy", f"{gate} data data", "out")
    (got,) = ran(read_model(("\n".join(net.text).encode(), net.binary())), {"data": FEED}).values()
    np.testing.assert_allclose(got, FEED.mean((2, 3), keepdims=True) * FEED + FEED, rtol=1e-4, atol=1e-5)


def test_the_older_form_is_the_newer_one(tmp_path: Path) -> None:
    """layers { type: CONVOLUTION }, weights of four dimensions, and input_dim."""
    net = Caffe(1, 3, 9, 9, is_old=True)
    net.text[1] = 'input: "data" input_dim: 1 input_dim: 3 input_dim: 9 input_dim: 9'
    x = net.relu(net.conv("data", 3, 4, 3))
    x = net.pool(x, "pool: MAX kernel_size: 2 stride: 2")
    arrays = [net.weights(5, 4 * 4 * 4), net.random.normal(0, 1, 5)]
    x = net.add("INNER_PRODUCT", x, "ip", "inner_product_param { num_output: 5 }", arrays)
    net.add("SOFTMAX", x, "prob")
    path = net.save(tmp_path)
    feed = np.random.default_rng(1).normal(0, 1, (1, 3, 9, 9)).astype(np.float32)
    got = ran(read_model(path.with_suffix(".caffemodel")), {"data": feed})
    reader = opencv().dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    reader.setInput(feed)
    np.testing.assert_allclose(got["prob"], reader.forward(), rtol=1e-4, atol=1e-6)


def test_training_layers_are_left_out_and_labels_are_no_outputs() -> None:
    text = """
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } }
    layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 8 } } }
    layer { name: "lab" type: "Input" top: "label" input_param { shape { dim: 1 } } }
    layer { name: "r" type: "ReLU" bottom: "data" top: "out" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" exclude { phase: TEST } }
    layer { name: "quiet" type: "Silence" bottom: "label" }
    """
    model = read_model((text.encode(), Caffe(1, 1).binary() + b"\xa2\x06\x00"))
    assert [entry.name for entry in model.graph.output] == ["out"]
    assert [entry.name for entry in model.graph.input] == ["data", "label"]


def test_the_last_layer_of_ssd_is_left_to_the_program(caplog: pytest.LogCaptureFixture) -> None:
    net = Caffe(1, 4, 6, 8)
    place, score = net.conv("data", 4, 8), net.conv("data", 4, 6)
    prior = net.add("PriorBox", "data data", "prior", "prior_box_param { min_size: 3 }")
    net.add("DetectionOutput", f"{place} {score} {prior}", "found", "detection_output_param { num_classes: 3 }")
    model = read_model(("\n".join(net.text).encode(), net.binary()))
    assert [entry.name for entry in model.graph.output] == [place, score]
    assert "the layer is left out" in caplog.text
