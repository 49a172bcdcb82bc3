"""The per-channel operands of the DPU: bias, weight zero point and multiplier of each output channel.

The RDMA reads them as one stream, in blocks of `group` channels (8 on RK3588 and RK3576, 4 on the others). In each
block the enabled kinds follow each other:

    group x int32   bias, added to the accumulator
    group x int16   the weight's zero point, negated: the effective weight is w + this
    group x int16   multiplier: the channel's scale as a fraction, 16384 = 1

Needs no NumPy: `inspect` reads it too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import Flag
from typing import NamedTuple

from openrknn.errors import UnsupportedError

__all__ = [
    "Operands",
    "Use",
    "pack_byte_operands",
    "pack_operands",
    "unpack_byte_operands",
    "unpack_operands",
    "zero_point_of_byte",
]


class Use(Flag):
    """Which kinds the stream holds."""

    BIAS = 1
    ZERO_POINT = 2
    MULTIPLIER = 4
    ALL = 7


class Operands(NamedTuple):
    """One entry per channel; None for a kind that the stream does not hold."""

    bias: tuple[int, ...] | None
    zero_point: tuple[int, ...] | None
    """Of the weights, with its natural sign: the value that stands for 0."""
    multiplier: tuple[int, ...] | None


def block_bytes(group: int, use: Use) -> int:
    """Bytes of one block of `group` channels."""
    return struct.calcsize(_codes(group, use))


def unpack_operands(stream: bytes | memoryview, channels: int, group: int, use: Use = Use.ALL) -> Operands:
    """The operands of the first `channels` channels."""
    blocks = -(-channels // group)
    needed = blocks * block_bytes(group, use)
    if len(stream) < needed:
        raise UnsupportedError(f"{len(stream)} bytes of operands are fewer than the {needed} of {channels} channels")
    kinds = _kinds(use)
    columns: dict[Use, list[int]] = {kind: [] for kind in kinds}
    if kinds:
        for values in struct.iter_unpack(_codes(group, use), memoryview(stream)[:needed]):
            for number, kind in enumerate(kinds):
                columns[kind] += values[number * group : (number + 1) * group]

    def column(kind: Use) -> tuple[int, ...] | None:
        return tuple(columns[kind][:channels]) if kind in columns else None

    negated = column(Use.ZERO_POINT)
    return Operands(
        bias=column(Use.BIAS),
        zero_point=None if negated is None else tuple(-value for value in negated),
        multiplier=column(Use.MULTIPLIER),
    )


def pack_operands(operands: Operands, group: int, *, channels: int = 0) -> bytes:
    """The stream of these operands; `channels` rounds it up, with zeros."""
    kinds = [
        (kind, values)
        for kind, values in (
            (Use.BIAS, operands.bias),
            (Use.ZERO_POINT, None if operands.zero_point is None else [-value for value in operands.zero_point]),
            (Use.MULTIPLIER, operands.multiplier),
        )
        if values is not None
    ]
    sizes = {len(values) for _, values in kinds}
    if len(sizes) != 1:
        raise ValueError(f"operands for {sorted(sizes)} channels")
    blocks = -(-max(channels, *sizes) // group)
    codes = "<" + "".join(f"{group}{_CODES[kind]}" for kind, _ in kinds)
    return b"".join(
        struct.pack(codes, *(number for _, values in kinds for number in _slice(values, block * group, group)))
        for block in range(blocks)
    )


def unpack_byte_operands(stream: bytes | memoryview, channels: int) -> Operands:
    """All three kinds as RV1103B and RV1106B read them.

    Blocks of 4 channels hold bias and multiplier; the zero points of two blocks are 8 bytes between them:

        4 x int32 bias, 4 x int16 multiplier, 8 x int8 negated zero point, 4 x int32 bias, 4 x int16 multiplier
    """
    blocks = -(-channels // 8)
    # A last half pair ends behind its zero points.
    needed = blocks * _BYTE_FORM.size - (0 if (channels - 1) % 8 >= 4 else _BYTE_FORM_SECOND_BYTES)
    if len(stream) < needed:
        raise UnsupportedError(f"{len(stream)} bytes of operands are fewer than the {needed} of {channels} channels")
    whole = bytes(stream[:needed]).ljust(blocks * _BYTE_FORM.size, b"\0")
    bias: list[int] = []
    multiplier: list[int] = []
    negated: list[int] = []
    for values in _BYTE_FORM.iter_unpack(whole):
        bias += values[0:4] + values[16:20]
        multiplier += values[4:8] + values[20:24]
        negated += values[8:16]
    zero_point = tuple(zero_point_of_byte(value) for value in negated[:channels])
    return Operands(tuple(bias[:channels]), zero_point, tuple(multiplier[:channels]))


def zero_point_of_byte(negated: int) -> int:
    """The zero point whose negative is stored in a signed byte: 128 does not fit, and -128 stands for it."""
    return -negated if negated > -128 else -128


def pack_byte_operands(operands: Operands) -> bytes:
    """The inverse of `unpack_byte_operands`, rounded up to 8 channels with zeros."""
    bias, zero_point, multiplier = operands
    if bias is None or zero_point is None or multiplier is None or not len(bias) == len(zero_point) == len(multiplier):
        raise ValueError("bias, zero point and multiplier are needed, one of each per channel")
    negated = [(-value + 128) % 256 - 128 for value in zero_point]
    blocks = []
    for at in range(0, len(bias), 8):
        numbers = [*_slice(bias, at, 4), *_slice(multiplier, at, 4), *_slice(negated, at, 8)]
        blocks.append(_BYTE_FORM.pack(*numbers, *_slice(bias, at + 4, 4), *_slice(multiplier, at + 4, 4)))
    return b"".join(blocks)


_BYTE_FORM = struct.Struct("<4i4h8b4i4h")
_BYTE_FORM_SECOND_BYTES = 24
_CODES = {Use.BIAS: "i", Use.ZERO_POINT: "h", Use.MULTIPLIER: "h"}


def _kinds(use: Use) -> list[Use]:
    return [kind for kind in _CODES if kind in use]


def _codes(group: int, use: Use) -> str:
    return "<" + "".join(f"{group}{_CODES[kind]}" for kind in _kinds(use))


def _slice(values: Sequence[int], start: int, count: int) -> Iterator[int]:
    part = values[start : start + count]
    yield from part
    yield from [0] * (count - len(part))
