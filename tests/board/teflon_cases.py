"""TFLite models of one or a few quantised layers, as Mesa's delegate takes them: one scale for each tensor.

The sizes are those of Mesa's own test suite (src/gallium/targets/teflon/test_teflon.cpp), and some that it has not.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tests.board.flatbuffer import Scalar, Table, Vector, written

__all__ = ["Conv", "Model", "models"]

_UINT8, _INT32 = 3, 2
_CONV, _DEPTHWISE, _ADD = 3, 4, 0
_OPTIONS = {_CONV: 1, _DEPTHWISE: 2, _ADD: 11}
_CODES = (_CONV, _DEPTHWISE, _ADD)
NONE, RELU, RELU6 = 0, 1, 3
_SAME, _VALID = 0, 1
_INPUT_SCALE = 0.0235


@dataclass(frozen=True)
class Conv:
    """A convolution."""

    outputs: int
    """Channels; 0: depth-wise, as many as there are."""
    window: int | tuple[int, int] = 3
    stride: int | tuple[int, int] = 1
    is_same: bool = True
    activation: int = NONE


class _Made(NamedTuple):
    """A tensor that a layer writes, without its batch."""

    tensor: int
    shape: tuple[int, ...]
    scale: float


@dataclass
class Model:
    """A file and what it is called."""

    name: str
    height: int
    width: int
    channels: int
    layers: Sequence[Conv]
    adds: bool = False
    """The last two layers have the same input, and their outputs are added."""
    activation: int = NONE
    """Of the addition."""
    zero_points: tuple[int, int, int] = (128, 128, 128)
    """Of the input, the weights and the outputs."""
    _tensors: list[Table] = field(default_factory=list)
    _buffers: list[Table] = field(default_factory=list)
    _operators: list[Table] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """The model as a file."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        self._tensors, self._buffers, self._operators = [], [Table({})], []
        shape: tuple[int, ...] = (self.height, self.width, self.channels)
        first = self._tensor("x", shape, _UINT8, (_INPUT_SCALE, self.zero_points[0]))
        current, parts = _Made(first, shape, _INPUT_SCALE), []
        for number, layer in enumerate(self.layers):
            made = self._layer(rng, f"l{number}", layer, current)
            if self.adds and number >= len(self.layers) - 2:
                parts.append(made)
            else:
                current = made
        if self.adds:
            shape, scale = parts[1].shape, parts[1].scale * 1.5
            current = _Made(self._tensor("sum", shape, _UINT8, (scale, self.zero_points[2])), shape, scale)
            # Mesa 26.2 adds in the layer of the first operand, so that the second one's must have run before.
            operands = [parts[1].tensor, parts[0].tensor]
            self._operator(_ADD, operands, current.tensor, Table({0: Scalar("b", self.activation)}))
        graph = Table({
            0: self._tensors, 1: Vector("i", [first]), 2: Vector("i", [current.tensor]), 3: self._operators, 4: "main",
        })  # fmt: skip
        codes = [Table({0: Scalar("b", code), 2: Scalar("i", 1), 3: Scalar("i", code)}) for code in _CODES]
        root = Table({0: Scalar("I", 3), 1: codes, 2: [graph], 3: self.name, 4: self._buffers})
        return written(root, b"TFL3")

    def input(self) -> npt.NDArray[np.uint8]:
        """Bytes for it."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()) ^ 1)
        return rng.integers(0, 256, (1, self.height, self.width, self.channels)).astype(np.uint8)

    def _layer(self, rng: np.random.Generator, name: str, layer: Conv, source: _Made) -> _Made:
        shape, scale = source.shape, source.scale
        channels = shape[2]
        window, stride = _pair(layer.window), _pair(layer.stride)
        is_depthwise = layer.outputs == 0
        outputs = channels if is_depthwise else layer.outputs
        weights_shape = (1, *window, channels) if is_depthwise else (outputs, *window, channels)
        weights = rng.integers(0, 256, weights_shape).astype(np.uint8)
        bias = rng.integers(-2000, 2000, outputs).astype(np.int32)
        count = window[0] * window[1] * (1 if is_depthwise else channels)
        weight_scale = 0.0117
        # Sums of random products grow with the root of their number: this scale uses most of the output's range.
        made_scale = float(np.float32(scale * weight_scale * 74.0 * 74.0 * np.sqrt(count) / 50.0))
        made_shape = (*(_extent(*each, layer.is_same) for each in zip(shape[:2], window, stride, strict=True)), outputs)
        inputs = [
            source.tensor,
            self._tensor(f"{name}/w", weights_shape, _UINT8, (weight_scale, self.zero_points[1]), weights.tobytes()),
            self._tensor(f"{name}/b", (outputs,), _INT32, (scale * weight_scale, 0), bias.tobytes()),
        ]
        made = self._tensor(f"{name}/y", made_shape, _UINT8, (made_scale, self.zero_points[2]))
        padding = Scalar("b", _SAME if layer.is_same else _VALID)
        options = {0: padding, 1: Scalar("i", stride[1]), 2: Scalar("i", stride[0])}
        if is_depthwise:
            options |= {3: Scalar("i", 1), 4: Scalar("b", layer.activation), 5: Scalar("i", 1), 6: Scalar("i", 1)}
        else:
            options |= {3: Scalar("b", layer.activation), 4: Scalar("i", 1), 5: Scalar("i", 1)}
        self._operator(_DEPTHWISE if is_depthwise else _CONV, inputs, made, Table(options))
        return _Made(made, made_shape, made_scale)

    def _tensor(
        self, name: str, shape: Sequence[int], kind: int, scale: tuple[float, int], data: bytes = b""
    ) -> int:
        place = 0
        if data:
            self._buffers.append(Table({0: Vector("B", data)}))
            place = len(self._buffers) - 1
        whole = shape if data else (1, *shape)
        self._tensors.append(
            Table({
                0: Vector("i", whole), 1: Scalar("b", kind), 2: Scalar("I", place), 3: name,
                4: Table({2: Vector("f", [scale[0]]), 3: Vector("q", [scale[1]])}),
            })
        )  # fmt: skip
        return len(self._tensors) - 1

    def _operator(self, code: int, inputs: Sequence[int], output: int, options: Table) -> None:
        self._operators.append(
            Table({
                0: Scalar("I", _CODES.index(code)), 1: Vector("i", inputs), 2: Vector("i", [output]),
                3: Scalar("B", _OPTIONS[code]), 4: options,
            })
        )  # fmt: skip


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _extent(size: int, window: int, stride: int, is_same: bool) -> int:
    return -(-size // stride) if is_same else (size - window) // stride + 1


def models() -> Iterator[Model]:
    """All of them."""
    yield from _convolutions()
    yield from _depthwise()
    yield from _additions()
    yield from _chains()


def _convolutions() -> Iterator[Model]:
    for size, window, stride, is_same in itertools.product((3, 5, 8), (1, 3, 5), (1, 2), (True, False)):
        if window > size:
            continue
        for channels, outputs in ((1, 1), (1, 32), (32, 1), (32, 32), (120, 128), (128, 160)):
            yield _model("conv", size, size, channels, [Conv(outputs, window, stride, is_same)])
    for size, channels, outputs, window in ((80, 32, 32, 1), (80, 1, 32, 3), (80, 32, 32, 3), (112, 3, 16, 3)):
        for stride, is_same in ((1, True), (2, True), (2, False)):
            yield _model("conv", size, size, channels, [Conv(outputs, window, stride, is_same)])
    for activation, zero_points in itertools.product((RELU, RELU6), ((128, 128, 128), (0, 121, 0), (255, 3, 12))):
        for channels, outputs, window in ((16, 16, 1), (16, 24, 3), (3, 40, 3)):
            conv = Conv(outputs, window, activation=activation)
            yield _model("conv", 10, 10, channels, [conv], zero_points=zero_points)
    for height, width, window in ((7, 19, 3), (19, 7, 3), (12, 20, 1), (1, 64, 1)):
        yield _model("conv", height, width, 16, [Conv(32, window)])


def _depthwise() -> Iterator[Model]:
    for size, window, stride, is_same in itertools.product((5, 8, 33), (3, 5), (1, 2), (True, False)):
        for channels in (32, 120):
            yield _model("depthwise", size, size, channels, [Conv(0, window, stride, is_same)])
    for activation in (RELU, RELU6):
        yield _model("depthwise", 16, 16, 64, [Conv(0, activation=activation)], zero_points=(0, 140, 0))


def _additions() -> Iterator[Model]:
    # No 48 channels: Mesa 26.2 reserves less of the NPU's buffer for them than a row needs, and such a job never ends.
    for size, channels, window, activation in itertools.product((5, 8), (16, 32, 64), (1, 3), (NONE, RELU)):
        layers = [Conv(channels, window), Conv(channels, window)]
        yield _model("add", size, size, channels, layers, adds=True, activation=activation)


def _chains() -> Iterator[Model]:
    block = [Conv(0, 3, activation=RELU6), Conv(32, 1, activation=RELU6)]
    yield _model("chain", 24, 24, 32, block)
    yield _model("chain", 24, 24, 3, [Conv(16, 3, 2, activation=RELU6), Conv(0, 3), Conv(32, 1), Conv(10, 1)])
    yield _model("chain", 32, 32, 3, [Conv(32, 3, 2, activation=RELU6), *block, *block, Conv(64, 3, 2), Conv(32, 1)])
    yield _model("chain", 16, 16, 16, [Conv(32, 3, activation=RELU), Conv(32, 3), Conv(32, 1)], adds=True)


def _model(kind: str, height: int, width: int, channels: int, layers: Sequence[Conv], **options: object) -> Model:
    words = [
        f"{layer.outputs or 'd'}k{'x'.join(map(str, _pair(layer.window)))}s{_pair(layer.stride)[0]}"
        f"{'s' if layer.is_same else 'v'}{layer.activation}"
        for layer in layers
    ]
    extra = [str(value).replace(" ", "") for key, value in options.items() if key != "adds"]
    name = "-".join([kind, f"{height}x{width}x{channels}", *words, *extra])
    return Model(name, height, width, channels, layers, **options)  # type: ignore[arg-type]
