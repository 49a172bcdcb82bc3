"""Writes containers of one convolution as dnhkng/open-rknpu's compiler does, byte for byte.

`program.txt` has the 126 commands of its convolution in their order, with the values that every model has; the others
are computed here. Whether a container is the one that ran on the board, its SHA-256 says (`ledger.json`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn import isa
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES
from tests.silicon.open_rknpu.container import ATOM, ATOMS, HEADER_BYTES, SEQUENCE

Array = npt.NDArray[Any]

COMMANDS = [line.split() for line in Path(__file__).with_name("program.txt").read_text().splitlines()]
REGISTERS = isa.map_for("rv1103")
ENABLE, INTERRUPTS, SERIAL = 29, 768, 1
PART = 32
"""Input channels that lie together in the weights."""
ROWS_AT_ONCE, BANK = 6144, 2048
"""Atoms of input that one task takes; atoms of a bank."""
_LINE, _PAGE = 64, 4096
ONE = 1 << 14
"""1.0 as the factor of a channel."""


class Range(NamedTuple):
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Convolution:
    """A model: float weights, and how the numbers in front of it and behind it are quantised."""

    weights: Array
    """Kernels, channels, height, width."""
    bias: Array
    size: tuple[int, int]
    scale: float = 1.0
    zero_point: int = 0
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Above, left, below, right."""
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    relu: bool = False
    six: bool = False
    """Clipped to 0 ... 6."""
    out: Range | None = None
    pictures: int = 1

    @property
    def reach(self) -> tuple[int, int]:
        kernel = self.weights.shape[2]
        return (kernel - 1) * self.dilations[0] + 1, (kernel - 1) * self.dilations[1] + 1

    @property
    def out_size(self) -> tuple[int, int]:
        height = (self.size[0] + self.pads[0] + self.pads[2] - self.reach[0]) // self.strides[0] + 1
        width = (self.size[1] + self.pads[1] + self.pads[3] - self.reach[1]) // self.strides[1] + 1
        return height, width


class Quantised(NamedTuple):
    weights: Array
    zero_points: Array
    scales: Array
    biases: Array
    factors: Array
    multiplier: int
    shift: int
    out: Range


class Places(NamedTuple):
    """Addresses of one task."""

    source: int
    target: int
    weights: int
    bias: int


class Sizes(NamedTuple):
    """Of a container: height, width and channels, and where they are."""

    source: tuple[int, int, int]
    target: tuple[int, int, int]
    source_at: int
    target_at: int
    memory: int


class Rows(NamedTuple):
    """The part of a picture that one task computes: rows of the output, of the input, and padding above."""

    out: range
    source: range
    pad: int


def up(value: int, step: int = _LINE) -> int:
    return -(-value // step) * step


def quantise(model: Convolution) -> Quantised:
    kernels = len(model.weights)
    weights = model.weights.reshape(kernels, -1)
    lowest, highest = np.minimum(weights.min(axis=1), 0), np.maximum(weights.max(axis=1), 0)
    scales = (highest - lowest) / np.float32(255)
    largest = float(scales.max()) or 1 / 32768
    scales = np.where(scales == 0, np.float32(largest), scales)
    zero_points = np.clip(np.rint(-128 - lowest / scales), -128, 127).astype(np.int64)
    codes = np.clip(np.rint(weights / scales[:, None]) + zero_points[:, None], -128, 127).astype(np.int64)
    signed_zero = model.zero_point - 128
    biases = np.rint(model.bias / (scales * np.float32(model.scale))).astype(np.int64)
    biases -= signed_zero * (codes - zero_points[:, None]).sum(axis=1)
    out = model.out or (Range(6 / 255, -128) if model.six else _range(model, weights, signed_zero))
    factor = largest * model.scale / out.scale
    shift = min(31, math.floor(math.log2(32767 / factor)))
    factors = np.rint(scales / np.float32(largest) * ONE).astype(np.int64)
    return Quantised(codes, zero_points, scales, biases, factors, round(factor * 2**shift), shift, out)


def _range(model: Convolution, weights: Array, zero: int) -> Range:
    """Everything that can come out."""
    lowest, highest = (-128 - zero) * model.scale, (127 - zero) * model.scale
    low = min(0, float((np.minimum(weights * lowest, weights * highest).sum(axis=1) + model.bias).min()))
    high = max(0, float((np.maximum(weights * lowest, weights * highest).sum(axis=1) + model.bias).max()))
    scale = float(np.float32((high - low) / 255)) or 1.0
    return Range(scale, int(np.clip(np.rint(-128 - low / scale), -128, 127)))


def tiles(model: Convolution) -> list[Rows]:
    """Rows of the output whose input fits; every tile begins at a whole group of atoms."""
    (height, width), (out_height, out_width) = model.size, model.out_size
    surfaces = up(model.weights.shape[1], ATOM) // ATOM
    reach, step, above = model.reach[0], model.strides[0], model.pads[0]
    if height * width * surfaces <= ROWS_AT_ONCE:
        return [Rows(range(out_height), range(height), above)]
    most = ROWS_AT_ONCE // (width * surfaces)
    found: list[Rows] = []
    begin = 0
    while begin < out_height:
        for end in range(out_height, begin, -1):
            first, last = begin * step - above, (end - 1) * step - above + reach
            source = range(max(0, first), min(height, last))
            after = max(0, end * step - above) * width, end * out_width
            aligned = [source.start * width, begin * out_width, *(after if end < out_height else ())]
            if len(source) <= most and not any(place % ATOMS for place in aligned):
                found.append(Rows(range(begin, end), source, max(0, -first)))
                begin = end
                break
        else:
            raise ValueError("no part of the picture fits that begins at a whole group of atoms")
    return found


def write(model: Convolution) -> bytes:
    """The container."""
    q = quantise(model)
    kernels, channels, kernel, _ = model.weights.shape
    (height, width), (out_height, out_width) = model.size, model.out_size
    lanes = up(channels, ATOM)
    surfaces = lanes // ATOM
    program = up((len(COMMANDS) + TAIL_WORDS) * WORD_BYTES)
    jobs = [(picture, rows) for picture in range(model.pictures) for rows in tiles(model)]
    weights_at = program * len(jobs)
    bias_at = weights_at + up(kernels * lanes * kernel * kernel)
    payload = up(bias_at + -(-kernels // 4) * 32)
    source_at = up(payload, _PAGE)
    source_bytes = up(height * width * ATOM) * surfaces
    surface = up(out_height * out_width * ATOM)
    out_bytes = surface * -(-kernels // ATOM)
    out_at = source_at + source_bytes * model.pictures
    memory = up(out_at + out_bytes * model.pictures, _PAGE)
    data = bytearray(payload)
    for number, (picture, rows) in enumerate(jobs):
        source = source_at + picture * source_bytes + rows.source.start * width * ATOM
        target = out_at + picture * out_bytes + rows.out.start * out_width * ATOM
        values = task_values(model, q, rows, Places(source, target, weights_at, bias_at))
        put(data, number * program, words(COMMANDS, values, ENABLE))
    put_constants(data, model, q, weights_at, bias_at)
    sizes = Sizes((height, width, channels), (out_height, out_width, kernels), source_at, out_at, memory)
    tasks = [(number * program, len(COMMANDS), ENABLE) for number in range(len(jobs))]
    return whole(data, sizes, tasks, Range(model.scale, model.zero_point), q.out, pictures=model.pictures)


def task_values(model: Convolution, q: Quantised, rows: Rows, places: Places) -> dict[str, int]:
    """Registers of one task of a convolution that are not the same in all models."""
    (_, width), (_, out_width), kernel = model.size, model.out_size, model.weights.shape[2]
    surfaces, in_rows, out_rows = up(model.weights.shape[1], ATOM) // ATOM, len(rows.source), len(rows.out)
    entries = (width * surfaces + 1) // 2
    grains = max(min(16 >> (surfaces.bit_length() - 1), -(-64 // entries)), (kernel + 1) // 2 + 1)
    fits = in_rows * width * surfaces <= BANK
    return _common(model, q) | {
        "CNA.CONV_CON2": grains << 4 | ((4 if kernel == 1 else 8) if fits else 0),
        "CNA.DATA_SIZE0": width << 16 | in_rows,
        "CNA.DATA_SIZE3": out_rows * out_width,
        "CNA.CBUF_ENTRIES": entries << 16,
        "CNA.CBUF_CON1": width << 16 | entries,
        "CNA.CBUF_BANKS": -(-in_rows * width * surfaces // BANK) << 26,
        "CNA.PAD_CON0": model.pads[1] << 8 | rows.pad,
        "CNA.FEATURE_DATA_ADDR": places.source,
        "CNA.DMA_CON1": width * min(4, -(-in_rows // 4) * 2),
        "CNA.FC_DATA_SIZE0": width << 16 | in_rows,
        "CNA.DCOMP_ADDR0": places.weights,
        "CORE.DATAOUT_SIZE_0": (out_rows - 1) << 16 | (out_width - 1),
        "DPU.DST_BASE_ADDR": places.target,
        "DPU.DATA_CUBE_HEIGHT": out_rows - 1,
        "DPU.WDMA_SIZE_1": (out_rows - 1) << 16 | (out_width - 1),
        "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT": out_rows - 1,
        "DPU_RDMA.RDMA_BS_BASE_ADDR": places.bias,
    }


def put_constants(data: bytearray, model: Convolution, q: Quantised, weights_at: int, bias_at: int) -> None:
    """Weights; bias, zero point and factor of each kernel."""
    weights = _weights(q, model.weights.shape)
    data[weights_at : weights_at + len(weights)] = weights
    for channel in range(len(q.biases)):
        block, lane = bias_at + channel // 4 * 32, channel % 4
        struct.pack_into("<i", data, block + lane * 4, q.biases[channel])
        struct.pack_into("<h", data, block + 16 + lane * 2, -q.zero_points[channel])
        struct.pack_into("<H", data, block + 24 + lane * 2, q.factors[channel])


def put(data: bytearray, place: int, commands: Iterable[int]) -> None:
    """Write command words."""
    for number, word in enumerate(commands):
        struct.pack_into("<Q", data, place + number * WORD_BYTES, word)


def whole(
    payload: bytes | bytearray, sizes: Sizes, tasks: Sequence[tuple[int, int, int]], given: Range, out: Range, *,
    pictures: int = 1, joined: int = 1,
) -> bytes:  # fmt: skip
    """The file: header, list of tasks (offset, commands, enable mask), payload."""
    header = struct.pack(
        "<8s14IfIfiI3I", SEQUENCE, 3, HEADER_BYTES, *sizes.source, *sizes.target, sizes.source[1], len(payload),
        sizes.memory, sizes.source_at, sizes.target_at, len(tasks), given.scale, given.zero_point, out.scale,
        out.zero_point, 0, SERIAL | (joined - 1) << 1, 1, pictures - 1,
    )  # fmt: skip
    table = b"".join(struct.pack("<4I", *task, INTERRUPTS) for task in tasks)
    data = bytearray(header + table + payload)
    struct.pack_into("<I", data, 80, _checksum(data))
    return bytes(data)


def _common(model: Convolution, q: Quantised) -> dict[str, int]:
    """Registers that are the same in all tasks of a model."""
    kernels, channels, kernel, _ = model.weights.shape
    (height, width), (out_height, out_width) = model.size, model.out_size
    surface = up(out_height * out_width * ATOM)
    lanes, wide, (dy, dx), (sy, sx) = up(channels, ATOM), up(kernels, ATOM), model.dilations, model.strides
    lowest = 0 if model.relu or model.six else 1 << 31
    values = {
        "CNA.CONV_CON3": (dy - 1) << 21 | (dx - 1) << 16 | sy << 3 | sx,
        "CNA.DATA_SIZE1": (channels - 1) << 16 | lanes,
        "CNA.DATA_SIZE2": out_width,
        "CNA.WEIGHT_SIZE0": kernels * lanes * kernel * kernel,
        "CNA.WEIGHT_SIZE1": lanes * kernel * kernel,
        "CNA.WEIGHT_SIZE2": kernel << 24 | kernel << 16 | kernels,
        "CNA.DMA_CON2": up(height * width, ATOMS),
        "CNA.FC_DATA_SIZE1": lanes,
        "CNA.PAD_CON1": (model.zero_point - 128) & 0xFFFF,
        "CNA.WEIGHT_STRIDE": 8 * kernel * kernel * (lanes // ATOM),
        "CNA.READ_SIZE": (width - 1) << 16 | (width - 1),
        "CORE.DATAOUT_SIZE_1": wide - 1,
        "DPU.DST_SURF_STRIDE": surface,
        "DPU.DATA_CUBE_WIDTH": out_width - 1,
        "DPU.DATA_CUBE_CHANNEL": (kernels - 1) << 16 | (wide - 1),
        "DPU.WDMA_SIZE_0": (kernels - 1) // ATOM << 16 | 3,
        "DPU.BN_CFG": 0x12 if model.relu or model.six else 0x13,
        "DPU.BN_LIMIT_MINIMUM": lowest,
        "DPU.BN_CLAMP_MINIMUM": lowest,
        "DPU.OUT_CVT_OFFSET": q.out.zero_point & 0xFFFF_FFFF,
        "DPU.OUT_CVT_SCALE": q.multiplier,
        "DPU.OUT_CVT_SHIFT": q.shift,
        "DPU.SURFACE_ADD": surface,
        "DPU_RDMA.RDMA_DATA_CUBE_WIDTH": out_width - 1,
        "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL": wide - 1,
    }
    if model.six:
        limit = round(6 / (float(np.max(q.scales)) * model.scale))
        values |= {"DPU.BN_LIMIT_MAXIMUM": limit, "DPU.BN_CLAMP_MAXIMUM": limit}
    return values


def words(commands: Iterable[Sequence[str]], values: dict[str, int], enable: int) -> Iterator[int]:
    """The words of a task."""
    for name, usual in commands:
        block = REGISTERS.block(name.partition(".")[0])
        register = REGISTERS.find(name)
        yield isa.Command(int(block.target or 0), register.offset, values.get(name, int(usual, 16))).word
    yield from (isa.Command(0x101, 0x10, 0).word, isa.Command(0x101, 0x14, 0x28).word)
    yield from (isa.Command(0x41, 0, 0).word, isa.Command(0x81, 8, enable).word)


def _weights(q: Quantised, shape: tuple[int, ...]) -> bytes:
    """Blocks of 16 kernels; in them parts of 32 channels, all positions of the kernel in each."""
    kernels, channels, kernel, _ = shape
    lanes, taps = up(channels, ATOM), kernel * kernel
    codes = np.empty((kernels, lanes, taps), np.int8)
    codes[:] = q.zero_points[:, None, None]
    codes[:, :channels] = q.weights.reshape(kernels, channels, taps)
    return b"".join(
        codes[first : first + ATOM, part : part + PART].transpose(2, 0, 1).tobytes()
        for first in range(0, kernels, ATOM)
        for part in range(0, lanes, PART)
    )


def _checksum(data: bytes | bytearray) -> int:
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFF_FFFF
    return value
