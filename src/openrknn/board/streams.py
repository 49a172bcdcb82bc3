"""Small tasks for the RK3588 that test drivers, and their right answers: a matrix product and an average pool."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROWS, INNER, COLUMNS = 16, 32, 16
PC, CNA, CORE, DPU, PPU, PPU_RDMA = 0x0101, 0x0201, 0x0801, 0x1001, 0x4001, 0x8001
Words = list[int]


def _word(block: int, offset: int, value: int) -> int:
    return block << 48 | value << 16 | offset


def tail(mask: int, following: int = 0, amount: int = 0) -> Words:
    """The four words that end a task; `following` is the address of the next one's commands."""
    link = _word(PC, 0x0010, following) if following else 0
    return [link, _word(PC, 0x0014, amount), 0x0041 << 48, _word(0x0081, 0x0008, mask)]


def product_body(a: int, b: int, c: int) -> Words:
    """C = A x B in fp16 as a 1x1 convolution; the same registers as in examples/raw_matmul.h."""
    pairs: list[tuple[int, int, int]] = [
        (DPU, 0x4004, 0x0E),
        (CNA, 0x100C, 2 << 7 | 2 << 4),
        (CNA, 0x1010, (ROWS + 1) << 4),
        (CNA, 0x1014, 1 << 3 | 1),
        (CNA, 0x1020, 1 << 16 | ROWS),
        (CNA, 0x1024, (INNER - 1) << 16 | INNER),
        (CNA, 0x1028, 1),
        (CNA, 0x102C, ROWS),
        (CNA, 0x1030, INNER * COLUMNS * 2),
        (CNA, 0x1034, INNER * 2),
        (CNA, 0x1038, 1 << 24 | 1 << 16 | COLUMNS),
        (CNA, 0x1040, 11 << 4 | 1),
        (CNA, 0x1044, INNER * 2 // 64),
        (CNA, 0x104C, 0x0B),
        (CNA, 0x1070, a),
        (CNA, 0x1078, 0x000F000F),
        (CNA, 0x107C, 4),
        (CNA, 0x1080, ROWS - 4),
        (CNA, 0x1084, 1 << 16 | ROWS),
        (CNA, 0x1088, INNER),
        (CNA, 0x1110, b),
        (CORE, 0x3010, 2 << 8),
        (CORE, 0x3014, (ROWS - 1) << 16),
        (CORE, 0x3018, COLUMNS - 1),
        (DPU, 0x400C, 0x1E4),
        (DPU, 0x4010, 2 << 29 | 2 << 26 | 2),
        (DPU, 0x4020, c),
        (DPU, 0x4024, ROWS << 4),
        (DPU, 0x4030, 0),
        (DPU, 0x4034, ROWS - 1),
        (DPU, 0x403C, (COLUMNS - 1) << 16 | (COLUMNS - 1)),
        (DPU, 0x4040, 0x53),
        (DPU, 0x4050, 0x126),
        (DPU, 0x4058, COLUMNS - 1),
        (DPU, 0x405C, (ROWS - 1) << 16),
        (DPU, 0x4060, 0x53),
        (DPU, 0x4070, 0x383),
        (DPU, 0x4078, 1),
        (DPU, 0x4084, 1 << 16 | 1),
        (DPU, 0x40C0, 2 * ROWS << 4),
    ]
    return [_word(*pair) for pair in pairs]


PRODUCT_MASK = 0x0D
POOL_MASK = 0x60


def pool_body(source: int, target: int) -> Words:
    """Average pool 2x2 of 8x8 pixels with 16 channels of int8."""
    sizes = [(PPU, 0x600C, 7), (PPU, 0x6010, 7), (PPU, 0x6014, 15), (PPU, 0x6018, 3), (PPU, 0x601C, 3)]
    pairs = [
        (PPU, 0x6004, 0x0E), (PPU_RDMA, 0x7004, 0x0E), *sizes, (PPU, 0x6020, 15), (PPU, 0x6024, 0x10),
        (PPU, 0x6034, 0x00110101), (PPU, 0x6038, 0x8000), (PPU, 0x603C, 0x8000), (PPU, 0x6070, target),
        (PPU, 0x607C, 16 << 4), (PPU, 0x6084, 16 << 4), (PPU, 0x60DC, 3),
        (PPU_RDMA, 0x700C, 7), (PPU_RDMA, 0x7010, 7), (PPU_RDMA, 0x7014, 15), (PPU_RDMA, 0x701C, source),
        (PPU_RDMA, 0x7024, 8 << 4), (PPU_RDMA, 0x7028, 64 << 4), (PPU_RDMA, 0x7030, 1),
    ]  # fmt: skip
    return [_word(*pair) for pair in pairs]


def to_bytes(stream: Words) -> bytes:
    """As it lies in memory."""
    return np.array(stream, np.uint64).tobytes()


def operands(seed: int = 0) -> tuple[bytes, bytes, bytes]:
    """A, B and the right C, each as the NPU keeps it; small whole numbers, so that fp16 is exact."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-5, 6, (ROWS, INNER)).astype(np.float16)
    b = rng.integers(-5, 6, (INNER, COLUMNS)).astype(np.float16)
    c = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    return _surfaces(a), b.T.tobytes(), _surfaces(c)


def _surfaces(matrix: npt.NDArray[np.float16]) -> bytes:
    rows, columns = matrix.shape
    return np.ascontiguousarray(matrix.reshape(rows, columns // 8, 8).transpose(1, 0, 2)).tobytes()
