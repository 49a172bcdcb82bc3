"""Structures of whole exports, small: they build as exported, the CPU only moves numbers, and are as float says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net, feeds

pytestmark = pytest.mark.unchecked

Case = tuple[onnx.ModelProto, tuple[int, ...]]
WANTED = {"fp16": 45.0, "int8": 18.0}


def shaped(net: Net, source: str, *sizes: int) -> str:
    return net.add("Reshape", source, net.constant(sizes, np.int64))


def split(net: Net, source: str, axis: int, *sizes: int) -> list[str]:
    names = [f"{source}_{number}" for number in range(len(sizes))]
    inputs = [source, net.constant(sizes, np.int64)]
    net.nodes.append(onnx.helper.make_node("Split", inputs, names, name=f"Split_{source}", axis=axis))
    return names


def attention_of_pictures() -> Case:
    """C2PSA of YOLO11: query, key and value stacked in each head; the values are a map again for a convolution."""
    net, heads, pixels = Net(), 2, 36
    qkv = shaped(net, net.conv("x", 64, 128), 1, heads, 64, pixels)
    q, k, v = split(net, qkv, 2, 16, 16, 32)
    scores = net.add("MatMul", net.add("Transpose", net.add("Mul", q, net.constant(0.25)), perm=[0, 1, 3, 2]), k)
    weights = net.add("Transpose", net.add("Softmax", scores, axis=-1), perm=[0, 1, 3, 2])
    mixed = shaped(net, net.add("MatMul", v, weights), 1, 64, 6, 6)
    around = net.conv(shaped(net, v, 1, 64, 6, 6), 64, 64, 3, group=64, pads=[1, 1, 1, 1])
    out = net.add("Add", net.conv(net.add("Add", mixed, around), 64, 64), "x")
    return net.model({"x": (1, 64, 6, 6)}, [out]), (1, 64, 6, 6)


def attention_of_areas() -> Case:
    """A2C2f of YOLO12: four areas of the map, each with its own attention."""
    net, heads, areas, pixels = Net(), 2, 4, 16
    qkv = shaped(net, net.conv("x", 64, 192), 1, 192, areas * pixels)
    qkv = shaped(net, net.add("Transpose", qkv, perm=[0, 2, 1]), areas, pixels, heads, 96)
    q, k, v = split(net, net.add("Transpose", qkv, perm=[0, 2, 3, 1]), 2, 32, 32, 32)
    scores = net.add("MatMul", net.add("Transpose", q, perm=[0, 1, 3, 2]), k)
    weights = net.add("Softmax", net.add("Mul", scores, net.constant(0.2)), axis=-1)
    mixed = net.add("MatMul", v, net.add("Transpose", weights, perm=[0, 1, 3, 2]))
    rows = shaped(net, net.add("Transpose", mixed, perm=[0, 3, 1, 2]), 1, 8, 8, 64)
    out = net.conv(net.add("Transpose", rows, perm=[0, 3, 1, 2]), 64, 64)
    return net.model({"x": (1, 64, 8, 8)}, [out]), (1, 64, 8, 8)


def detector_head() -> Case:
    """Ultralytics' head: three maps side by side, boxes from 16 bins each, anchors, scores."""
    net = Net()
    sides, sources = (8, 4, 2), []
    x = "x"
    for number, side in enumerate(sides):
        if number:
            x = net.conv(x, 32, 32, 3, pads=[1, 1, 1, 1], strides=[2, 2])
        sources.append(shaped(net, net.conv(x, 32, 64 + 20), 1, 84, side * side))
    pixels = sum(side * side for side in sides)
    boxes, scores = split(net, net.add("Concat", *sources, axis=2), 1, 64, 20)
    bins = net.add("Transpose", shaped(net, boxes, 1, 4, 16, pixels), perm=[0, 2, 1, 3])
    mean = net.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    far = shaped(net, net.add("Conv", net.add("Softmax", bins, axis=1), mean, kernel_shape=[1, 1]), 1, 4, pixels)
    near, last = split(net, far, 1, 2, 2)
    anchors = net.constant(net.random.uniform(0, 8, (1, 2, pixels)))
    low, high = net.add("Sub", anchors, near), net.add("Add", anchors, last)
    centre = net.add("Div", net.add("Add", low, high), net.constant(2.0))
    box = net.add("Mul", net.add("Concat", centre, net.add("Sub", high, low), axis=1), net.constant(8.0))
    out = net.add("Concat", box, net.add("Sigmoid", scores), axis=1)
    return net.model({"x": (1, 32, 8, 8)}, [out]), (1, 32, 8, 8)


def class_token() -> Case:
    """A vision transformer: a learned token before the others, positions, a projection of that token."""
    net = Net()
    tokens = net.add("Transpose", shaped(net, net.conv("x", 16, 48), 1, 48, 25), perm=[0, 2, 1])
    tokens = net.add("Concat", net.constant(net.random.normal(0, 1, (1, 1, 48))), tokens, axis=1)
    tokens = net.add("Add", tokens, net.constant(net.random.normal(0, 0.2, (1, 26, 48))))
    tokens = net.add("MatMul", tokens, net.weights(48, 48))
    first = net.add("Slice", tokens, *(net.constant([value], np.int64) for value in (0, 1, 1)))
    out = net.add("MatMul", shaped(net, first, 1, 48), net.weights(48, 16))
    return net.model({"x": (1, 16, 5, 5)}, [out]), (1, 16, 5, 5)


def windows() -> Case:
    """A block of Swin: the map is rolled, cut into windows with attention of their own, and put together again."""
    net, side, cut, heads = Net(), 8, 4, 2
    parts = side // cut
    x = net.add("Transpose", net.conv("x", 32, 32), perm=[0, 2, 3, 1])
    for axis in (1, 2):
        ends = [net.add("Slice", x, *(net.constant([v], np.int64) for v in bounds))
                for bounds in ((2, side, axis), (0, 2, axis))]  # fmt: skip
        x = net.add("Concat", *ends, axis=axis)
    x = net.add("Transpose", shaped(net, x, 1, parts, cut, parts, cut, 32), perm=[0, 1, 3, 2, 4, 5])
    x = net.add("MatMul", shaped(net, x, parts**2, cut**2, 32), net.weights(32, 96))
    x = net.add("Transpose", shaped(net, x, parts**2, cut**2, 3, heads, 16), perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Squeeze", part, net.constant([0], np.int64)) for part in split(net, x, 0, 1, 1, 1))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.add("Add", scores, net.constant(net.random.normal(0, 0.3, (1, heads, cut**2, cut**2))))
    x = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = net.add("MatMul", shaped(net, x, parts**2, cut**2, 32), net.weights(32, 32))
    x = net.add("Transpose", shaped(net, x, 1, parts, parts, cut, cut, 32), perm=[0, 1, 3, 2, 4, 5])
    out = net.add("Transpose", shaped(net, x, 1, side, side, 32), perm=[0, 3, 1, 2])
    return net.model({"x": (1, 32, side, side)}, [net.conv(out, 32, 16)]), (1, 32, side, side)


def far_dilation() -> Case:
    """Segmenters: dilations wider than a border can be, and as wide as the map."""
    net = Net()
    wide = net.conv("x", 16, 16, 3, dilations=[18, 18], pads=[18, 18, 18, 18])
    wider = net.conv("x", 16, 16, 3, dilations=[36, 36], pads=[36, 36, 36, 36])
    return net.model({"x": (1, 16, 24, 24)}, [net.add("Add", wide, wider)]), (1, 16, 24, 24)


def large_resize() -> Case:
    """A map eight times as large: rows, then columns."""
    net = Net()
    scales = net.constant([1, 1, 8, 8])
    half = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    out = net.add("Resize", net.conv("x", 16, 21), "", scales, **half)
    return net.model({"x": (1, 16, 6, 6)}, [out]), (1, 16, 6, 6)


CASES: dict[str, tuple[Callable[[], Case], set[str]]] = {
    "attention of pictures": (attention_of_pictures, set()),
    "attention of areas": (attention_of_areas, set()),
    "detector head": (detector_head, set()),
    "class token": (class_token, set()),
    "windows": (windows, {"Transpose"}),
    "far dilation": (far_dilation, set()),
    "large resize": (large_resize, set()),
}
"""With what the CPU does, besides arranging outputs."""


@pytest.mark.parametrize("form", ["fp16", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_builds_as_exported(name: str, form: str) -> None:
    make, moved = CASES[name]
    model, shape = make()
    made = compile_model(model, calibration=feeds(shape, 3) if form == "int8" else None, cores=1)
    on_cpu = {step.type for step in made.lowering.program.steps if step.is_cpu}
    assert on_cpu <= moved | {"Reshape"}
    verdicts = verify(made, [{"x": value} for value in feeds(shape, 1)])
    assert min(verdict.decibels for verdict in verdicts) > WANTED[form]


def test_stacked_projection_is_sliced() -> None:
    """Query, key and value of each head cost no task of their own."""
    steps = compile_model(attention_of_pictures()[0], cores=1).lowering.program.steps
    assert sum(step.type.startswith("Conv") for step in steps) == 3
    assert not [step.type for step in steps if step.type in {"Slice", "Concat"}]


@pytest.mark.parametrize(
    ("name", "form"), [("detector head", "int8"), ("attention of pictures", "int8"), ("detector head", "fp16")]
)
def test_other_chips(name: str, form: str) -> None:
    """RK3566 reads two operands only if their surfaces are alike; parts of a longer map are not."""
    model, shape = CASES[name][0]()
    made = compile_model(model, target="rk3566", calibration=feeds(shape, 3) if form == "int8" else None)
    verdicts = verify(made, [{"x": value} for value in feeds(shape, 1)])
    assert min(verdict.decibels for verdict in verdicts) > WANTED[form] - 5
