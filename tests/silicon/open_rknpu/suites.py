"""The models and inputs of dnhkng/open-rknpu's board tests, made again from their seeds and lists of shapes.

Weights, biases and inputs come from one generator in this order, so that what a model gets depends on those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.silicon.open_rknpu.writer import Convolution, Range

Array = npt.NDArray[Any]
Generator = np.random.Generator

QUANTISATIONS = ((1.0, 0), (0.25, 128), (0.5, 255))
"""Scale and zero point of the input, in turn."""
STRIPES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16)
SIZES = ((1, 1), (1, 8), (8, 1), (2, 3), (3, 4), (4, 4), (9, 9), (14, 14), (16, 17), (28, 28), (32, 32))
"""Height and width."""


class Model(NamedTuple):
    convolution: Convolution
    inputs: Array
    """One after the other: height, width, channels (and pictures before them, if there are several)."""


class Shape(NamedTuple):
    kernel: int
    channels: int
    kernels: int
    size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    relu: bool = False
    empty: bool = False
    """All weights are 0."""


def _filled(random: Generator, count: int, shape: tuple[int, ...], first: Sequence[int]) -> Array:
    values = random.integers(0, 256, (count, *shape), dtype=np.uint8)
    for number, value in enumerate(first):
        values[number] = value
    return values


def _grid(shapes: Iterable[Shape]) -> Iterator[Model]:
    random = np.random.default_rng(110321)
    for number, shape in enumerate(shapes):
        size = shape.kernels, shape.channels, shape.kernel, shape.kernel
        weights = random.uniform(-0.3, 0.3, size).astype(np.float32)
        bias = random.uniform(-1, 1, shape.kernels).astype(np.float32)
        scale, zero_point = QUANTISATIONS[number % 3]
        model = Convolution(
            weights * 0 if shape.empty else weights, bias, shape.size, scale, zero_point,
            pads=(shape.kernel // 2,) * 4, strides=shape.strides, relu=shape.relu,
        )  # fmt: skip
        yield Model(model, _filled(random, 16, (*shape.size, shape.channels), (0, 255, zero_point)))


def _small(number: int) -> tuple[int, int]:
    return 5 + number % 4, 5 + number // 4 % 4


def native_input() -> Iterator[Model]:
    pairs = [(kernel, channels) for kernel in (1, 3, 5) for channels in (2, 4, 5, 8, 9, 16)]
    return _grid(Shape(k, c, (2, 3, 4, 5, 8, 16)[i % 6], _small(i)) for i, (k, c) in enumerate(pairs))


def _strided(strides: Sequence[tuple[int, int]]) -> Iterator[Model]:
    pairs = [(kernel, channels) for kernel in (1, 3, 5) for channels in range(2, 17) if channels != 3]
    return _grid(
        Shape(k, c, STRIPES[i % 10], _small(i), strides[i % 4], relu=bool(i % 2), empty=i % 7 == 0)
        for i, (k, c) in enumerate(pairs)
    )


def native_combined() -> Iterator[Model]:
    return _strided(((1, 1), (1, 2), (2, 1), (2, 2)))


def native_stride34() -> Iterator[Model]:
    return _strided(((3, 3), (4, 4), (1, 4), (3, 2)))


def _large(strides: Sequence[tuple[int, int]], *, empty: bool) -> Iterator[Model]:
    pairs = [(kernel, size) for kernel in (1, 3, 5, 7) for size in SIZES]
    return _grid(
        Shape(
            kernel, (1, 2, 3, 5, 8, 16)[i % 6], STRIPES[i % 10], size, strides[i % len(strides)], relu=bool(i % 2),
            empty=empty and i % 7 == 0,
        )
        for i, (kernel, size) in enumerate(pairs)
    )


def native_large() -> Iterator[Model]:
    return _large(((1, 1),), empty=True)


def native_large_combined() -> Iterator[Model]:
    return _large(((1, 1), (1, 2), (2, 3), (4, 4)), empty=False)


def native_output_blocks() -> Iterator[Model]:
    pairs = [(kernel, kernels) for kernel in (1, 3, 5, 7) for kernels in (17, 31, 32, 33, 48, 64)]
    return _grid(Shape(k, (1, 2, 3, 5, 8, 16)[i % 6], kernels, _small(i)) for i, (k, kernels) in enumerate(pairs))


def native_input_blocks() -> Iterator[Model]:
    pairs = [(kernel, channels) for kernel in (1, 3, 5, 7) for channels in (17, 18, 23, 24, 31, 32)]
    return _grid(Shape(k, c, (1, 3, 8, 17, 32, 64)[i % 6], _small(i)) for i, (k, c) in enumerate(pairs))


def _planes(seed: int, channels: Sequence[int], *more: tuple[int, int, int, int]) -> Iterator[Model]:
    """Several surfaces of input: kernels, size of the kernel, height, width."""
    random = np.random.default_rng(seed)
    for count in channels:
        for kernels, kernel, height, width in ((1, 1, 6, 5), (8, 3, 6, 5), (16, 3, 8, 8), (3, 1, 8, 8), *more):
            weights = random.uniform(-0.7, 0.8, (kernels, count, kernel, kernel)).astype(np.float32)
            bias = random.uniform(-2, 2, (kernels,)).astype(np.float32)
            model = Convolution(weights, bias, (height, width), pads=(kernel // 2,) * 4)
            yield Model(model, _filled(random, 16, (height, width, count), (0, 255, 128)))


def native_c48() -> Iterator[Model]:
    return _planes(110350, (33, 40, 48))


def native_c64() -> Iterator[Model]:
    return _planes(110360, (49, 56, 64))


def native_c65() -> Iterator[Model]:
    return _planes(110650, (65, 80, 96, 128), (17, 3, 6, 5))


def native_spatial_tiling() -> Iterator[Model]:
    """Pictures that take several tasks."""
    random = np.random.default_rng(1103306144)
    cases = (
        ((128, 128), 1, 1, 1, (1, 1), (0, 0, 0, 0)),
        ((127, 96), 1, 3, 3, (1, 1), (1, 2, 1, 0)),
        ((96, 96), 3, 1, 7, (2, 2), (3, 3, 3, 3)),
        ((64, 64), 17, 1, 3, (1, 2), (1, 1, 1, 1)),
        ((48, 96), 32, 1, 5, (2, 3), (2, 2, 2, 2)),
        ((128, 64), 1, 17, 3, (4, 1), (0, 1, 2, 1)),
    )
    for number, (size, channels, kernels, kernel, strides, pads) in enumerate(cases):
        weights = random.uniform(-0.18, 0.18, (kernels, channels, kernel, kernel)).astype(np.float32)
        bias = random.uniform(-0.8, 0.8, kernels).astype(np.float32)
        scale, zero_point = QUANTISATIONS[number % 3]
        model = Convolution(weights, bias, size, scale, zero_point, pads, strides, relu=bool(number % 2))
        yield Model(model, _filled(random, 2, (*size, channels), (zero_point,)))


def native_batch() -> Iterator[Model]:
    """Several pictures at once."""
    random = np.random.default_rng(110316)
    cases = (
        (2, (5, 6), 3, 17, 3, (1, 1)),
        (3, (8, 7), 32, 65, 1, (1, 2)),
        (4, (33, 48), 1, 3, 5, (2, 3)),
        (2, (128, 128), 1, 1, 3, (2, 2)),
        (16, (1, 1), 1, 1, 1, (1, 1)),
    )
    for number, (pictures, size, channels, kernels, kernel, strides) in enumerate(cases):
        weights = random.uniform(-0.15, 0.15, (kernels, channels, kernel, kernel)).astype(np.float32)
        bias = random.uniform(-0.5, 0.5, kernels).astype(np.float32)
        scale, zero_point = QUANTISATIONS[number % 3]
        model = Convolution(
            weights, bias, size, scale, zero_point, (kernel // 2,) * 4, strides, pictures=pictures
        )  # fmt: skip
        yield Model(model, _filled(random, 2, (pictures, *size, channels), (zero_point,)))


def conv_clip() -> Iterator[Model]:
    """Clipped to 0 ... 6."""
    random = np.random.default_rng(110361)
    cases = (
        (3, 3, (8, 8), 1, (1, 1), 0, Range(0.1, 0)),
        (3, 5, (7, 8), 3, (1, 1), 1, Range(0.1, 0)),
        (17, 8, (5, 6), 3, (2, 1), 1, Range(0.05, -100)),
        (32, 16, (6, 5), 1, (2, 2), 0, Range(0.025, -128)),
    )
    for channels, kernels, size, kernel, strides, pad, out in cases:
        weights = random.uniform(-0.3, 0.3, (kernels, channels, kernel, kernel)).astype(np.float32)
        bias = random.uniform(-0.5, 0.5, kernels).astype(np.float32)
        model = Convolution(weights, bias, size, 1.0, 128, (pad,) * 4, strides, six=True, out=out)
        yield Model(model, _filled(random, 4, (*size, channels), ()))


def accumulator_boundary() -> Iterator[Model]:
    """Sums of up to 2.07e9."""
    cases = ((1, 3e5, 0, -64), (1, -3e5, 255, 63), (-1, 3e5, 0, -31), (-1, -3e5, 255, 29))
    for sign, bias, zero_point, out in cases:
        weights = np.full((1, 32, 31, 31), sign, np.float32)
        range_ = Range(50000.0, out)
        model = Convolution(weights, np.array([bias], np.float32), (31, 31), 1.0, zero_point, out=range_)
        chessboard = np.indices((31, 31, 32)).sum(axis=0) % 2 * 255
        flat = [np.full((31, 31, 32), value) for value in (0, 255, zero_point)]
        yield Model(model, np.array([*flat, chessboard], np.uint8))


SUITES: dict[str, Callable[[], Iterator[Model]]] = {
    "accumulator_boundary": accumulator_boundary,
    "conv_clip": conv_clip,
    "native_batch": native_batch,
    "native_c48": native_c48,
    "native_c64": native_c64,
    "native_c65": native_c65,
    "native_combined": native_combined,
    "native_input": native_input,
    "native_input_blocks": native_input_blocks,
    "native_large": native_large,
    "native_large_combined": native_large_combined,
    "native_output_blocks": native_output_blocks,
    "native_spatial_tiling": native_spatial_tiling,
    "native_stride34": native_stride34,
}
