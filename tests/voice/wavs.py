"""WAV files of every kind, written by hand: what the reader must read, and pieces to break."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")


def encoded(values: npt.NDArray[np.float64], kind: str, order: str = "<") -> bytes:
    """Numbers of -1 to 1 as `u8`, `s16`, `s24`, `s32`, `f32` or `f64`."""
    if kind[0] == "f":
        return values.astype(f"{order}f{int(kind[1:]) // 8}").tobytes()
    bits = int(kind[1:])
    whole = np.clip(np.rint(values * 2.0 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype(np.int64)
    if kind == "u8":
        return (whole + 128).astype(np.uint8).tobytes()
    if bits == 24:
        wide = (whole << 8).astype(f"{order}i4").view(np.uint8).reshape(-1, 4)
        return wide[:, slice(0, 3) if order == ">" else slice(1, 4)].tobytes()
    return whole.astype(f"{order}i{bits // 8}").tobytes()


def wav(
    values: npt.NDArray[Any],
    kind: str = "s16",
    *,
    rate: int = 16_000,
    magic: bytes = b"RIFF",
    extensible: bool = False,
    data_size: int | None = None,
    extra: bytes = b"",
    after: bytes = b"",
) -> bytes:
    """`values` is [frames] or [frames, channels]."""
    order = ">" if magic == b"RIFX" else "<"
    channels = 1 if values.ndim == 1 else values.shape[1]
    width = int(kind[1:]) // 8
    code = 3 if kind[0] == "f" else 1
    body = encoded(np.asarray(values, np.float64).reshape(-1), kind, order)
    head = struct.pack(
        order + "HHIIHH",
        0xFFFE if extensible else code,
        channels,
        rate,
        rate * channels * width,
        channels * width,
        8 * width,
    )
    if extensible:
        head += struct.pack(order + "HHIH", 22, 8 * width, 0, code) + GUID_TAIL
    size = len(body) if data_size is None else data_size
    chunks = b"fmt " + struct.pack(order + "I", len(head)) + head + extra
    if magic in (b"RF64", b"BW64"):
        chunks = b"ds64" + struct.pack("<IQQQI", 28, 0, len(body), 0, 0) + chunks
        size = 0xFFFFFFFF
    chunks += b"data" + struct.pack(order + "I", size) + body + after
    whole = 4 + len(chunks) if data_size is None else data_size
    return magic + struct.pack(order + "I", whole) + b"WAVE" + chunks
