"""Caffe networks with random weights, written as a `.prototxt` and a `.caffemodel` (protobuf, by hand)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.compiler.nets import Array


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def blob(array: Array, *, is_old: bool = False) -> bytes:
    numbers = field(5, array.astype("<f4").tobytes())
    if is_old:
        sizes = [1] * (4 - array.ndim) + list(array.shape)
        return b"".join(varint(at << 3) + varint(size) for at, size in enumerate(sizes, 1)) + numbers
    return field(7, field(1, b"".join(varint(size) for size in array.shape))) + numbers


class Caffe:
    """Grows both files layer by layer; `text` of a layer is what stands in its braces beside name, type and blobs."""

    def __init__(self, *shape: int, seed: int = 0, is_old: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.shape = shape
        self.is_old = is_old
        dims = " ".join(f"dim: {size}" for size in shape)
        self.text = ['name: "net"', f'input: "data" input_shape {{ {dims} }}']
        self.layers: list[bytes] = []

    def add(
        self, kind: str, bottoms: str, top: str = "", text: str = "", arrays: Sequence[Array] = (), *, name: str = ""
    ) -> str:
        """A layer; bottoms and tops with spaces between them; the first top."""
        name = name or f"{kind.lower()}{len(self.text)}"
        top = top or name
        ends = " ".join([*(f'bottom: "{one}"' for one in bottoms.split()), *(f'top: "{one}"' for one in top.split())])
        word, quoted = ("layers", kind) if self.is_old else ("layer", f'"{kind}"')
        self.text.append(f'{word} {{ name: "{name}" type: {quoted} {ends} {text} }}')
        name_at, blobs_at, number = (4, 6, 2) if self.is_old else (1, 7, 100)
        inner = field(name_at, name.encode()) + b"".join(
            field(blobs_at, blob(array, is_old=self.is_old)) for array in arrays
        )
        self.layers.append(field(number, inner))
        return top.split()[0]

    def weights(self, *shape: int) -> Array:
        return self.random.normal(0, (2 / max(1, int(np.prod(shape[1:])))) ** 0.5, shape)

    def conv(
        self, bottom: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, pad: int = 0, group: int = 1,
        has_bias: bool = True, text: str = "",
    ) -> str:  # fmt: skip
        arrays = [self.weights(outputs, inputs // group, kernel, kernel)]
        if has_bias:
            arrays.append(self.random.normal(0, 0.1, outputs))
        fields = (
            f"num_output: {outputs} kernel_size: {kernel} stride: {stride} pad: {pad} group: {group} "
            f"bias_term: {str(has_bias).lower()} {text}"
        )
        kind = "CONVOLUTION" if self.is_old else "Convolution"
        return self.add(kind, bottom, "", f"convolution_param {{ {fields} }}", arrays)

    def normalised(self, bottom: str, channels: int) -> str:
        """BatchNorm and Scale in place, as trained networks have them."""
        statistics = [
            self.random.normal(0, 0.3, channels) * 2, self.random.uniform(0.5, 2, channels) * 2, np.array([2.0]),
        ]  # fmt: skip
        self.add("BatchNorm", bottom, bottom, "batch_norm_param { use_global_stats: true }", statistics)
        factors = [self.random.uniform(0.5, 1.5, channels), self.random.normal(0, 0.2, channels)]
        return self.add("Scale", bottom, bottom, "scale_param { bias_term: true }", factors)

    def relu(self, bottom: str) -> str:
        return self.add("RELU" if self.is_old else "ReLU", bottom, bottom)

    def pool(self, bottom: str, text: str) -> str:
        return self.add("POOLING" if self.is_old else "Pooling", bottom, "", f"pooling_param {{ {text} }}")

    def binary(self) -> bytes:
        return field(1, b"net") + b"".join(self.layers)

    def save(self, folder: Path, name: str = "net") -> Path:
        (folder / f"{name}.caffemodel").write_bytes(self.binary())
        path = folder / f"{name}.prototxt"
        path.write_text("\n".join(self.text))
        return path


def resnet18(side: int = 64, width: int = 8, classes: int = 10) -> Caffe:
    """Every layer of ResNet-18, with `width` instead of 64 channels in its first stage."""
    net = Caffe(1, 3, side, side)

    def block(bottom: str, inputs: int, outputs: int, kernel: int, stride: int) -> str:
        made = net.conv(bottom, inputs, outputs, kernel, stride, pad=kernel // 2, has_bias=False)
        return net.normalised(made, outputs)

    x = net.relu(block("data", 3, width, 7, 2))
    x = net.pool(x, "pool: MAX kernel_size: 3 stride: 2")
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        for number in range(2):
            stride = 2 if stage and not number else 1
            short = x if inputs == outputs and stride == 1 else block(x, inputs, outputs, 1, stride)
            y = net.relu(block(x, inputs, outputs, 3, stride))
            y = block(y, outputs, outputs, 3, 1)
            x = net.relu(net.add("Eltwise", f"{short} {y}", "", "eltwise_param { operation: SUM }"))
            inputs = outputs
    x = net.pool(x, "pool: AVE global_pooling: true")
    arrays = [net.weights(classes, inputs), net.random.normal(0, 0.1, classes)]
    x = net.add("InnerProduct", x, "fc", f"inner_product_param {{ num_output: {classes} }}", arrays)
    net.add("Softmax", x, "prob")
    return net


def squeezenet(side: int = 67, width: int = 4, classes: int = 10) -> Caffe:
    """Every layer of SqueezeNet 1.1, with a sixteenth of its channels for `width` 4."""
    net = Caffe(1, 3, side, side)

    def fire(bottom: str, inputs: int, squeeze: int, expand: int) -> str:
        small = net.relu(net.conv(bottom, inputs, squeeze, 1))
        one = net.relu(net.conv(small, squeeze, expand, 1))
        three = net.relu(net.conv(small, squeeze, expand, 3, pad=1))
        return net.add("Concat", f"{one} {three}")

    x = net.relu(net.conv("data", 3, 4 * width, 3, 2))
    inputs = 4 * width
    for part in (((1, 4), (1, 4)), ((2, 8), (2, 8)), ((3, 12), (3, 12), (4, 16), (4, 16))):
        x = net.pool(x, "pool: MAX kernel_size: 3 stride: 2")
        for squeeze, expand in part:
            x = fire(x, inputs, squeeze * width, expand * width)
            inputs = 2 * expand * width
    x = net.add("Dropout", x, x, "dropout_param { dropout_ratio: 0.5 }")
    x = net.relu(net.conv(x, inputs, classes, 1))
    net.add("Softmax", net.pool(x, "pool: AVE global_pooling: true"), "prob")
    return net


def packed_doubles(array: Array) -> bytes:
    """A blob of doubles, as some training programs write it."""
    shape = field(7, field(1, b"".join(varint(size) for size in array.shape)))
    return shape + field(8, struct.pack(f"<{array.size}d", *array.reshape(-1)))
