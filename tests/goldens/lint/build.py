"""Build files that the vendor's converter makes, without a word, although a board cannot compute the network with them.

    PYTHONPATH=. python tests/goldens/lint/build.py [NAME ...]      needs rknn-toolkit2 2.5.0, see ../README.md

Each network is a few layers of our own around one mistake: of the converter, or of the one who calibrates. The tests of
`openrknn lint` say which.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.goldens.networks import Net

HERE = Path(__file__).resolve().parent
SAMPLES = 3
Arrays = list[npt.NDArray[np.float32]]


def _net(name: str, *inputs: Sequence[int]) -> tuple[Net, list[str]]:
    net = Net(name)
    return net, [net.input(f"x{number}", shape) for number, shape in enumerate(inputs)]


def picture_gate() -> onnx.ModelProto:
    """A convolution times the picture itself."""
    net, (x,) = _net("picture_gate", [1, 3, 16, 16])
    net.output(net.op("Mul", net.conv(x, 3, 3, 3), x), "y", [1, 3, 16, 16])
    return net.model()


def lone_softmax() -> onnx.ModelProto:
    """A softmax over channels and nothing else."""
    net, (x,) = _net("lone_softmax", [1, 16, 3, 3])
    net.output(net.op("Softmax", x, axis=1), "y", [1, 16, 3, 3])
    return net.model()


def shared_maximum() -> onnx.ModelProto:
    """max(x, -0.4) twice with one constant, as networks from TensorFlow have it; the second x is larger."""
    net, (x,) = _net("shared_maximum", [1, 16, 8, 8])
    floor = net.constant(np.full((1, 1, 1, 1), -0.4, np.float32))
    small = net.op("Max", net.conv(x, 16, 16, 1), floor)
    large = net.op("Conv", small, net.weight(16, 16, 1, 1, spread=3.0), net.weight(16), kernel_shape=[1, 1])
    net.output(net.op("Max", large, floor), "y", [1, 16, 8, 8])
    return net.model()


def channel_maximum() -> onnx.ModelProto:
    """max(x, c) with one number per channel."""
    net, (x,) = _net("channel_maximum", [1, 16, 8, 8])
    net.output(net.op("Max", x, net.weight(1, 16, 1, 1, spread=1.0)), "y", [1, 16, 8, 8])
    return net.model()


def dead_channels() -> onnx.ModelProto:
    """Channel 3 has a kernel of zeros, channel 5 a bias that its ReLU never overcomes."""
    net, (x,) = _net("dead_channels", [1, 16, 8, 8])
    weight, bias = net.random.normal(0, 0.2, (16, 16, 3, 3)), net.random.normal(0, 0.2, 16)
    weight[3], bias[3], bias[5] = 0, 0, -900
    first = net.op(
        "Conv", x, net.constant(weight.astype(np.float32)), net.constant(bias.astype(np.float32)),
        kernel_shape=[3, 3], pads=[1, 1, 1, 1],
    )  # fmt: skip
    net.output(net.conv(net.op("Relu", first), 16, 8, 3), "y", [1, 8, 8, 8])
    return net.model()


def _head(name: str, *, sigmoid: bool) -> onnx.ModelProto:
    net, (x,) = _net(name, [1, 16, 8, 8])
    bias = net.constant(np.full(8, -9, np.float32))
    scores = net.op("Conv", x, net.weight(8, 16, 3, 3), bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.output(net.op("Sigmoid", scores) if sigmoid else scores, "y", [1, 8, 8, 8])
    return net.model()


def low_scores() -> onnx.ModelProto:
    """A class head that saw no object in calibration, before the sigmoid."""
    return _head("low_scores", sigmoid=False)


def low_sigmoid() -> onnx.ModelProto:
    """The same behind the sigmoid."""
    return _head("low_sigmoid", sigmoid=True)


def cancelling() -> onnx.ModelProto:
    """The sum of two inputs that are almost each other's negative."""
    net, (a, b) = _net("cancelling", [1, 16, 8, 8], [1, 16, 8, 8])
    net.output(net.op("Add", a, b), "y", [1, 16, 8, 8])
    return net.model()


def infinite() -> onnx.ModelProto:
    """A constant that fp16 cannot hold."""
    net, (x,) = _net("infinite", [1, 16, 8, 8])
    large = net.constant(np.full((1, 16, 1, 1), 300000, np.float32))
    net.output(net.op("Add", net.conv(x, 16, 16, 1), large), "y", [1, 16, 8, 8])
    return net.model()


def scaled_pixels() -> onnx.ModelProto:
    """A plain network; its calibration data are pixels that were divided by 255 already."""
    net, (x,) = _net("scaled_pixels", [1, 3, 16, 16])
    net.output(net.conv(x, 3, 8, 3), "y", [1, 8, 16, 16])
    return net.model()


def boxes_and_scores() -> onnx.ModelProto:
    """Boxes of 0..600 and scores of 0..1 in one output, as plain YOLO exports have them."""
    net, (x,) = _net("boxes_and_scores", [1, 16, 20, 20])
    bias = net.constant(np.full(4, 300, np.float32))
    boxes = net.op("Conv", x, net.weight(4, 16, 1, 1, spread=20.0), bias, kernel_shape=[1, 1])
    scores = net.op("Sigmoid", net.conv(x, 16, 20, 1))
    flat = net.constant(np.array([1, 24, 400], np.int64))
    net.output(net.op("Reshape", net.op("Concat", boxes, scores, axis=1), flat), "y", [1, 24, 400])
    return net.model()


def wide_input() -> onnx.ModelProto:
    """A feature map of 512 KiB as input."""
    net, (x,) = _net("wide_input", [1, 32, 128, 128])
    net.output(net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), "y", [1, 32, 64, 64])
    return net.model()


@dataclass(frozen=True)
class Row:
    """One file."""

    network: Callable[[], onnx.ModelProto]
    chip: str = "rk3588"
    dtype: str = "i8"
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.network.__name__}_{self.chip}_{self.dtype}"


ROWS = {
    row.name: row
    for row in (
        Row(picture_gate, "rk3562", "fp"),
        Row(picture_gate, "rk3588", "fp"),
        Row(lone_softmax, "rv1106"),
        Row(shared_maximum),
        Row(channel_maximum, "rk3566"),
        Row(channel_maximum, "rk3588"),
        Row(dead_channels),
        Row(low_scores),
        Row(low_sigmoid),
        Row(cancelling),
        Row(infinite, dtype="fp"),
        Row(scaled_pixels, config={"mean_values": [[0, 0, 0]], "std_values": [[255, 255, 255]]}),
        Row(boxes_and_scores),
        Row(wide_input),
    )
}


def _sample(row: Row, shapes: Sequence[Sequence[int]], seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    if row.network is scaled_pixels:
        return [random.uniform(0, 1, shapes[0]).astype(np.float32)]
    if row.network is cancelling:
        large = random.normal(0, 1000, shapes[0])
        return [large.astype(np.float32), (random.normal(0, 1, shapes[0]) - large).astype(np.float32)]
    return [random.normal(0, 1, shape).astype(np.float32) for shape in shapes]


def build(row: Row, folder: Path) -> None:
    """Convert one network."""
    from rknn.api import RKNN

    model = row.network()
    onnx.save(model, folder / "network.onnx")
    shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]
    lines = []
    for number in range(SAMPLES):
        paths = [folder / f"{number}_{index}.npy" for index in range(len(shapes))]
        for path, array in zip(paths, _sample(row, shapes, 100 + number), strict=True):
            np.save(path, array)
        lines.append(" ".join(map(str, paths)))
    (folder / "data.txt").write_text("\n".join(lines) + "\n")
    rknn = RKNN(verbose=False)
    rknn.config(target_platform=row.chip, **row.config)
    steps = (
        lambda: rknn.load_onnx(model=str(folder / "network.onnx")),
        lambda: rknn.build(do_quantization=row.dtype == "i8", dataset=str(folder / "data.txt")),
        lambda: rknn.export_rknn(str(HERE / f"{row.name}.rknn")),
    )
    for step in steps:
        if step() != 0:  # type: ignore[no-untyped-call,unused-ignore]
            raise RuntimeError(f"{row.name}: the converter refused")
    rknn.release()


def main() -> None:
    """Each file in a process of its own: the converter keeps state."""
    names = sys.argv[1:]
    if len(names) == 1:
        with tempfile.TemporaryDirectory() as folder:
            build(ROWS[names[0]], Path(folder))
        return
    for name in names or ROWS:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
