"""Containers of dnhkng/open-rknpu with two 1 x 1 convolutions and an operator on both: sums, products, maxima."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.silicon.open_rknpu.arithmetic import convolved
from tests.silicon.open_rknpu.container import ATOM
from tests.silicon.open_rknpu.suites import QUANTISATIONS
from tests.silicon.open_rknpu.writer import (
    COMMANDS,
    ENABLE,
    Convolution,
    Places,
    Quantised,
    Range,
    Rows,
    Sizes,
    put,
    put_constants,
    quantise,
    task_values,
    up,
    whole,
    words,
)

Array = npt.NDArray[Any]

DPU_COMMANDS = [entry for entry in COMMANDS if entry[0].startswith(("DPU", "DDMA"))]
FLYING = 24
PROGRAM, TASK = 0xB40, 0x440
"""Bytes of three tasks; from one to the next."""


class Pair(NamedTuple):
    kind: str
    first: Convolution
    second: Convolution
    inputs: Array
    """Both, one below the other: cases, height, width, channels."""


def operands(pair: Pair) -> tuple[list[Quantised], Range, int, int]:
    """Both convolutions with a zero point of 0, what comes out, and the factor and shift of a product."""
    scales = []
    for model in (pair.first, pair.second):
        out = quantise(model).out
        reach = max(128 + out.zero_point, 127 - out.zero_point)
        scales.append(float(np.float32(out.scale * reach / 127)))
    if pair.kind != "Mul":
        scales = [max(scales)] * 2
    quantised = [
        quantise(replace(model, out=Range(scale, 0)))
        for model, scale in zip((pair.first, pair.second), scales, strict=True)
    ]
    if pair.kind != "Mul":
        return quantised, Range(float(np.float32(2 * scales[0])), 0), 0, 0
    product = scales[0] * scales[1]
    result = Range(float(np.float32(128 * product)), 0)
    factor = product / result.scale
    shift = min(31, math.floor(math.log2(32767 / factor)))
    return quantised, result, round(factor * 2**shift), shift


def write_pair(pair: Pair) -> bytes:
    """The container."""
    quantised, result, factor, shift = operands(pair)
    (height, width), (kernels, channels) = pair.first.size, pair.first.weights.shape[:2]
    surface = up(height * width * ATOM)
    weight_bytes, bias_bytes = up(kernels * up(channels, ATOM)), up(-(-kernels // 4) * 32)
    payload = up(PROGRAM + 2 * (weight_bytes + bias_bytes))
    source_at = up(payload, 4096)
    middle = up(source_at + up(height * width * ATOM * 2))
    out_at = middle + 2 * surface
    data = bytearray(payload)
    for number, (model, q) in enumerate(zip((pair.first, pair.second), quantised, strict=True)):
        weights_at = PROGRAM + number * (weight_bytes + bias_bytes)
        places = Places(
            source_at + number * height * width * ATOM, middle + number * surface, weights_at, weights_at + weight_bytes
        )  # fmt: skip
        values = task_values(model, q, Rows(range(height), range(height), 0), places)
        put(data, number * TASK, words(COMMANDS, values, ENABLE))
        put_constants(data, model, q, places.weights, places.bias)
    values = _values(pair.kind, (height, width, kernels), middle, out_at)
    if pair.kind == "Mul":
        values |= {"DPU.OUT_CVT_SCALE": 1 << 16 | factor, "DPU.OUT_CVT_SHIFT": shift}
    put(data, 2 * TASK, words(DPU_COMMANDS, values, FLYING))
    tasks = [(0, len(COMMANDS), ENABLE), (TASK, len(COMMANDS), ENABLE), (2 * TASK, len(DPU_COMMANDS), FLYING)]
    sizes = Sizes(
        (2 * height, width, channels), (height, width, kernels), source_at, out_at, up(out_at + surface, 4096)
    )  # fmt: skip
    return whole(data, sizes, tasks, Range(pair.first.scale, pair.first.zero_point), result, joined=2)


def _values(kind: str, shape: tuple[int, int, int], middle: int, out_at: int) -> dict[str, int]:
    height, width, kernels = shape
    surface = up(height * width * ATOM)
    values = {
        "DPU.FEATURE_MODE_CFG": 0x1E5,
        "DPU.DST_BASE_ADDR": out_at,
        "DPU.DST_SURF_STRIDE": surface,
        "DPU.DATA_CUBE_WIDTH": width - 1,
        "DPU.DATA_CUBE_HEIGHT": height - 1,
        "DPU.DATA_CUBE_CHANNEL": (kernels - 1) << 16 | 15,
        "DPU.BS_CFG": 0x100012,
        "DPU.BS_MUL_CFG": 0x4000_0000,
        "DPU.BS_OW_CFG": 0x3000_0000,
        "DPU.BS_OW_OP": 0,
        "DPU.WDMA_SIZE_1": (height - 1) << 16 | (width - 1),
        "DPU.EW_CFG": 0x8002_C0C0,
        "DPU.EW_CVT_SCALE_VALUE": 0x4000,
        "DPU.OUT_CVT_OFFSET": 0,
        "DPU.OUT_CVT_SCALE": 0x14000,
        "DPU.OUT_CVT_SHIFT": 29,
        "DPU.SURFACE_ADD": surface,
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": width - 1,
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": height - 1,
        "DPU_RDMA.RDMA_SRC_BASE_ADDR": middle,
        "DPU_RDMA.RDMA_BRDMA_CFG": 0,
        "DPU_RDMA.RDMA_BS_BASE_ADDR": 0,
        "DPU_RDMA.RDMA_ERDMA_CFG": 0x4000_0004,
        "DPU_RDMA.RDMA_EW_BASE_ADDR": middle + surface,
        "DPU_RDMA.RDMA_EW_SURF_STRIDE": surface,
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG": 0x907809,
    }
    if kind == "Sub":
        values["DPU.EW_CVT_SCALE_VALUE"] = 0xC000
    elif kind == "Max":
        values["DPU.EW_CFG"] = 0x8000_C0C0
    elif kind == "Mul":
        values |= {
            "DPU.BS_MUL_CFG": 0, "DPU.BS_OW_CFG": 0x3000_0002, "DPU.EW_CFG": 0x8100_4094, "DPU.EW_CVT_SCALE_VALUE": 1,
        }  # fmt: skip
    return values


def expected(pair: Pair, case: Array) -> Array:
    """What the board gave: halves to even."""
    quantised, *_ = operands(pair)
    models = (pair.first, pair.second)
    first, second = (
        convolved(model, q, part).astype(np.int64)
        for model, q, part in zip(models, quantised, np.split(case, 2), strict=True)
    )
    values = {
        "Add": lambda: (first + second) / 2,
        "Sub": lambda: (first - second) / 2,
        "Max": lambda: np.maximum(first, second) / 2,
        "Mul": lambda: first * second / 128,
    }[pair.kind]()
    return np.clip(np.rint(values), -128, 127).astype(np.int8)


def native_elementwise() -> Iterator[Pair]:
    """Sums, products, differences and maxima of two inputs."""
    random = np.random.default_rng(110326)
    sizes = ((1, 1), (5, 5), (9, 9), (32, 32))
    cases = [(kind, size, c) for kind in ("Add", "Mul", "Sub", "Max") for size in sizes for c in (1, 2, 8, 16)]
    for number, (kind, size, channels) in enumerate(cases):
        kernels = (1, 4, 9, 16)[number % 4]
        scale, zero_point = QUANTISATIONS[number % 3]
        models = []
        for _ in range(2):
            weights = random.uniform(-0.3, 0.3, (kernels, channels, 1, 1)).astype(np.float32)
            bias = random.uniform(-1, 1, kernels).astype(np.float32)
            models.append(Convolution(weights, bias, size, scale, zero_point))
        first, second = (random.integers(0, 256, (8, *size, channels), dtype=np.uint8) for _ in range(2))
        first[0], second[0], first[1], second[1] = 0, 255, 255, 0
        yield Pair(kind, models[0], models[1], np.concatenate([first, second], axis=1))
