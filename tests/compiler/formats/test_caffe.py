"""Caffe's files. The witness is OpenCV's own reader; where it has no such layer, NumPy after Caffe's documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from openrknn.compiler import read_model
from tests.compiler.formats.caffe_nets import Caffe, resnet18, squeezenet
from tests.compiler.formats.witness import opencv, ran
from tests.compiler.nets import Array


def ours(path: Any, feed: dict[str, Array]) -> dict[str, Array]:
    model = read_model(path)
    onnx.checker.check_model(model, full_check=True)
    return ran(model, feed)


def picture(net: Caffe, seed: int = 3) -> Array:
    return np.random.default_rng(seed).normal(0, 1, net.shape).astype(np.float32)


def compare(net: Caffe, folder: Path) -> dict[str, Array]:
    """All outputs, ours and OpenCV's."""
    path, feed = net.save(folder), picture(net)
    reader = opencv().dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    reader.setInput(feed)
    wanted = np.asarray(reader.forward())
    got = ours(path, {"data": feed})
    last = list(got.values())[-1]
    assert last.size == wanted.size
    np.testing.assert_allclose(last.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)
    return got


Make = Callable[[Caffe], object]


def layer(kind: str, text: str = "", *arrays: Array) -> Make:
    def make(net: Caffe) -> None:
        net.add(kind, "data", "out", text, arrays)

    make.__name__ = f"{kind} {text}"
    return make


def numbers(*shape: int, low: float = -1, high: float = 1) -> Array:
    return np.random.default_rng(7).uniform(low, high, shape)


def pool(text: str) -> Make:
    return layer("Pooling", f"pooling_param {{ {text} }}")


def conv(kernel: int, outputs: int = 6, group: int = 1, text: str = "", kind: str = "Convolution") -> Make:
    shape = (outputs, 4 // group, kernel, kernel) if kind == "Convolution" else (4, outputs // group, kernel, kernel)
    fields = f"convolution_param {{ num_output: {outputs} kernel_size: {kernel} group: {group} {text} }}"
    return layer(kind, fields, numbers(*shape), numbers(outputs))


def sums(text: str, count: int = 2) -> Make:
    def make(net: Caffe) -> None:
        others = [net.conv("data", 4, 4) for _ in range(count - 1)]
        net.add("Eltwise", " ".join(["data", *others]), "out", f"eltwise_param {{ {text} }}")

    make.__name__ = f"Eltwise {text}"
    return make


def slices(net: Caffe) -> None:
    net.add("Slice", "data", "a b c", "slice_param { axis: 1 slice_point: 1 slice_point: 2 }")
    net.add("Concat", "c a b", "out", "concat_param { axis: 1 }")


def halves(net: Caffe) -> None:
    net.add("Slice", "data", "a b", "slice_param { slice_dim: 1 }")
    net.add("Eltwise", "a b", "out", "eltwise_param { operation: PROD }")


def copies(net: Caffe) -> None:
    net.add("Split", "data", "a b")
    x = net.relu(net.conv("a", 4, 4))
    net.add("Concat", f"b {x}", "out")


def crops(net: Caffe) -> None:
    x = net.conv("data", 4, 4, 3)
    net.add("Crop", f"data {x}", "out", "crop_param { axis: 2 offset: 1 offset: 2 }")


def products(net: Caffe) -> None:
    net.add("InnerProduct", "data", "a", "inner_product_param { num_output: 7 }",
            [numbers(7, 4 * 9 * 7), numbers(7)])  # fmt: skip
    net.add("InnerProduct", "a", "out", "inner_product_param { num_output: 3 bias_term: false }", [numbers(3, 7)])


def in_place(net: Caffe) -> None:
    x = net.relu(net.normalised(net.conv("data", 4, 6, 3, has_bias=False), 6))
    net.add("TanH", x, x)


def gates(net: Caffe) -> None:
    x = net.pool("data", "pool: AVE global_pooling: true")
    x = net.add("Sigmoid", net.conv(x, 4, 4))
    x = net.add("Reshape", x, "", "reshape_param { shape { dim: 1 dim: 4 } }")
    net.add("Scale", f"data {x}", "out", "scale_param { axis: 0 }")


def priors(net: Caffe) -> None:
    x = net.pool("data", "pool: MAX kernel_size: 2 stride: 2")
    net.add("PriorBox", f"{x} data", "out", "prior_box_param { min_size: 3 max_size: 5 aspect_ratio: 2 flip: true "
            "clip: true variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }")  # fmt: skip


LAYERS: list[Make] = [
    conv(3), conv(3, 8, 4), conv(3, text="pad: 1 stride: 2"), conv(3, text="dilation: 2 pad: 2"),
    conv(2, text="stride: 2", kind="Deconvolution"), conv(4, 4, 4, "stride: 2 pad: 1", "Deconvolution"),
    layer("Convolution", "convolution_param { num_output: 5 kernel_h: 1 kernel_w: 3 pad_h: 0 pad_w: 1 }",
          numbers(5, 4, 1, 3), numbers(5)),
    pool("pool: MAX kernel_size: 2 stride: 2"), pool("pool: MAX kernel_size: 3 stride: 2"),
    pool("pool: MAX kernel_size: 3 stride: 2 pad: 1"), pool("pool: AVE kernel_size: 2 stride: 2"),
    pool("pool: AVE kernel_size: 3 stride: 1 pad: 1"), pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    pool("pool: AVE global_pooling: true"), pool("pool: MAX global_pooling: true"),
    pool("pool: MAX kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2"),
    layer("ReLU"), layer("ReLU", "relu_param { negative_slope: 0.2 }"), layer("ReLU6"), layer("Sigmoid"),
    layer("TanH"), layer("AbsVal"), layer("BNLL"), layer("ELU"), layer("Swish"), layer("Mish"),
    layer("PReLU", "", numbers(4)), layer("PReLU", "prelu_param { channel_shared: true }", numbers(1)),
    layer("Power", "power_param { power: 2 scale: 0.5 shift: 1.5 }"), layer("Power", "power_param { scale: 0.5 }"),
    layer("Exp"), layer("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"),
    layer("BatchNorm", "", numbers(4), numbers(4, low=0.5, high=2), np.array([1.0])),
    layer("Scale", "", numbers(4)), layer("Scale", "scale_param { bias_term: true }", numbers(4), numbers(4)),
    sums("operation: SUM"), sums("operation: SUM coeff: 1 coeff: -1"), sums("operation: PROD"), sums("operation: MAX"),
    sums("operation: SUM coeff: 0.5 coeff: 2 coeff: -1", 3), slices, halves, copies, crops, products, in_place, gates,
    layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }"),
    layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }"),
    layer("Softmax"), layer("Softmax", "softmax_param { axis: 2 }"),
    layer("Flatten"), layer("Flatten", "flatten_param { axis: 2 end_axis: 3 }"),
    layer("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 7 } }"),
    layer("Reshape", "reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }"),
    layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
    layer("Normalize", "norm_param { across_spatial: false channel_shared: false }", numbers(4, low=1, high=9)),
    layer("MVN", "mvn_param { eps: 1e-9 }"), layer("MVN", "mvn_param { across_channels: true }"),
    layer("MVN", "mvn_param { normalize_variance: false }"),
    layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
    layer("Interp", "interp_param { height: 17 width: 13 }"), layer("Interp", "interp_param { zoom_factor: 2 }"),
    layer("Dropout"), priors,
]  # fmt: skip


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: make.__name__)
def test_layers_are_opencvs(make: Make, tmp_path: Path) -> None:
    net = Caffe(1, 4, 9, 7)
    make(net)
    compare(net, tmp_path)


@pytest.mark.parametrize("make", [resnet18, squeezenet])
def test_whole_networks_are_opencvs(make: Callable[[], Caffe], tmp_path: Path) -> None:
    got = compare(make(), tmp_path)
    assert list(got) == ["prob"]
    assert 0.11 < got["prob"].max() < 1
