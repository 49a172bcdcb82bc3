"""Compressed weights: the streams that the decompressor between memory and CBUF understands.

The bytes of the weights, in the order of `layout.weights`, are dealt out to lanes: `step` bytes to lane 0, `step` bytes
to lane 1, and so on, then again to lane 0. Each lane is a stream of its own, a header and a payload:

    byte 0      singles: bits of an index into the runs, 3:0 for symbol 0, 7:4 for symbol 8; 0: there are no runs
    byte 1, 2   singles: what every weight of the lane was lowered by, modulo 2^8 or 2^16; byte 3: 0
    byte 0-3    eights: what every byte of the lane was raised by
    byte 4-7    eight symbols of four bits each, low halves first, beginning with the one that has the shortest code
    byte 8-     16 bits each: lengths of runs of zeros, first those of symbol 0, then those of symbol 8
    zeros up to whole units of 16 bytes

The payload is read from the lowest bit of each byte on. A symbol has the code of its place in the header:

    00  10  111  110  011  0101  01001  01000

What follows the symbol s, m being what is read (numbers come lowest bit first):

    singles, no runs     sign, s - 1 bits: m = 2^(s-1) + bits; 0 for s = 0           the value is m, or ~m
    singles, runs        1 to 6: sign, s - 1 bits: m = 2^(s-1) + bits                the value is m, or -m
                         7: sign, seven bits: m = bits, 128 for 0
                         0 and 8: an index, and as many zeros as the run says
    eights               eight signs, then eight numbers of s bits                   the values are m, or ~m

Weights of one byte are the values. Weights of two bytes (fp16) are bytes to eights. To singles they are numbers that
are rotated left by one bit, so that the sign is the lowest; the value is the upper half, and the lower half follows it
as it is. Between runs, where a value cannot be 0, upper halves from 0 on are stored one higher.

Found in pairs of files that the toolkit built with and without compression, on networks with weights made for it: with
these rules every lane of every file decodes to the bytes of its twin. Lanes that are short of a whole turn end in
padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import UnsupportedError

__all__ = ["CODES", "HEADER_BYTES", "SCHEMES", "Header", "Lane", "Scheme", "decompress"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]

CODES = ("00", "10", "111", "110", "011", "0101", "01001", "01000")
"""By place in the header; the first bit of the stream on the left."""
HEADER_BYTES = 8
"""Without the runs."""
_LONGEST_CODE = 5
_MOST_INDEX_BITS = 12
_RUN_SYMBOLS = (0, 8)
_WHOLE = 7
_EIGHT = 8
_CHUNK_BYTES = 1 << 16


class Scheme(NamedTuple):
    """How a chip's weights are dealt out."""

    lanes: int
    step: int
    """Bytes that a lane gets in its turn."""
    eights: bool
    """One symbol for eight weights, instead of one for each weight or run of zeros."""


SCHEMES: Mapping[int, Scheme] = MappingProxyType(
    {scheme.lanes: scheme for scheme in (Scheme(16, 4, False), Scheme(8, 4, False), Scheme(2, 1, True))}
)
"""By number of lanes: RK3588 has 16, RK3566 and RK3568 8, RK3562, RK3576, RV1103, RV1106 and RV1126B 2."""


class Lane(NamedTuple):
    """The bytes of one stream."""

    header: Bytes
    payload: Bytes


class Header(NamedTuple):
    """What the header of a lane says."""

    lowered: int
    symbols: tuple[int, ...]
    index_bits: tuple[int, int]
    """Of symbol 0 and of symbol 8."""
    runs: tuple[int, ...]

    @property
    def has_runs(self) -> bool:
        return any(self.index_bits)

    @classmethod
    def read(cls, data: Bytes, *, eights: bool) -> Header:
        """`UnsupportedError` where it cannot be one."""
        if data.size < HEADER_BYTES:
            raise UnsupportedError(f"a compressed lane whose header has {data.size} bytes")
        raw = data[:HEADER_BYTES].tolist()
        symbols = tuple(nibble for byte in raw[4:] for nibble in (byte & 15, byte >> 4))
        bits = (0, 0) if eights else (raw[0] & 15, raw[0] >> 4)
        lowered = -raw[0] if eights else raw[1] | raw[2] << 8
        has_runs = any(bits)
        known = max(symbols) <= (_RUN_SYMBOLS[1] if has_runs else _WHOLE) and max(bits) <= _MOST_INDEX_BITS
        if not known or not (eights or raw[3] == 0):
            raise UnsupportedError(f"a compressed lane with the header {bytes(raw).hex(' ')}, which is unknown")
        count = (1 << bits[0]) + (1 << bits[1]) if has_runs else 0
        table = data[HEADER_BYTES : HEADER_BYTES + 2 * count]
        if table.size < 2 * count:
            raise UnsupportedError(f"a compressed lane with {count} runs in a header of {data.size} bytes")
        runs = tuple(np.ascontiguousarray(table).view("<u2").tolist())
        return cls(lowered, symbols, bits, runs)


def decompress(lanes: Sequence[Lane], size: int, scheme: Scheme, element_bytes: int = 1) -> Bytes:
    """The first `size` bytes of the weights, which have 1 or 2 bytes each."""
    element_bytes = 1 if scheme.eights else element_bytes
    if len(lanes) != scheme.lanes or element_bytes not in {1, 2} or size % element_bytes:
        raise UnsupportedError(f"{size} bytes of compressed weights in {len(lanes)} lanes, {element_bytes} bytes each")
    step = scheme.step
    turns = -(-size // (scheme.lanes * step))
    dealt = np.zeros((scheme.lanes, turns * step), np.uint8)
    for number, lane in enumerate(lanes):
        # What the last turn has for this lane; its stream may hold padding behind that, or end.
        last = size - ((turns - 1) * scheme.lanes + number) * step
        count = (turns - 1) * step + min(max(last, 0), step)
        try:
            dealt[number, :count] = _lane(lane, count // element_bytes, scheme, element_bytes)
        except UnsupportedError as error:
            raise UnsupportedError(f"lane {number}: {error}") from None
    return dealt.reshape(scheme.lanes, turns, step).transpose(1, 0, 2).reshape(-1)[:size]


def _lane(lane: Lane, count: int, scheme: Scheme, element_bytes: int) -> Bytes:
    """`count` weights as bytes."""
    header = Header.read(lane.header, eights=scheme.eights)
    if scheme.eights:
        values = _eights(header, lane.payload, count)
    else:
        values = _singles(header, lane.payload, count, 8 * (element_bytes - 1))
    values += header.lowered
    if element_bytes == 1:
        return values.astype(np.uint8)
    values &= 0xFFFF
    return (values >> 1 | (values & 1) << 15).astype("<u2").view(np.uint8)


# -------------------------------------------------------------------------------------------------- symbols


class _Code(NamedTuple):
    """For the next five bits of a payload: the symbol, the length of its code, and bits until the next symbol."""

    symbol: Integers
    length: Integers
    total: Integers

    @classmethod
    def of(cls, header: Header, *, eights: bool, low_bits: int) -> _Code:
        table = cls(*(np.zeros(1 << _LONGEST_CODE, np.int64) for _ in range(3)))
        for code, symbol in zip(CODES, header.symbols, strict=True):
            places = np.arange(int(code[::-1], 2), 1 << _LONGEST_CODE, 1 << len(code))
            table.symbol[places], table.length[places] = symbol, len(code)
            table.total[places] = len(code) + _following(header, symbol, eights=eights, low_bits=low_bits)
        return table


def _following(header: Header, symbol: int, *, eights: bool, low_bits: int) -> int:
    """Bits after the code of a symbol."""
    if eights:
        return _EIGHT * (1 + symbol)
    if header.has_runs and symbol in _RUN_SYMBOLS:
        return header.index_bits[_RUN_SYMBOLS.index(symbol)]
    if header.has_runs and symbol == _WHOLE:
        return 1 + _WHOLE + low_bits
    return max(symbol, 1) + low_bits


def _starts(payload: Bytes, code: _Code, most: int) -> Integers:
    """Where each symbol begins, in bits, up to the end of the payload or `most` symbols.

    How far it is to the next symbol is worked out for every bit, a chunk at a time; then it is a walk.
    """
    padded = np.concatenate([payload, np.zeros(1, np.uint8)])
    starts: list[int] = []
    at = 0
    for first in range(0, payload.size, _CHUNK_BYTES):
        chunk = padded[first : first + _CHUNK_BYTES + 1].astype(np.uint16)
        words = chunk[:-1] | chunk[1:] << 8
        windows = words[:, None] >> np.arange(8, dtype=np.uint16) & ((1 << _LONGEST_CODE) - 1)
        steps = code.total.astype(np.uint8)[windows.reshape(-1)].tobytes()
        base, end = 8 * first, 8 * first + len(steps)
        while at < end:
            starts.append(at)
            at += steps[at - base]
        if len(starts) >= most:
            break
    return np.array(starts[:most], np.int64)


def _peek(payload: Bytes, places: Integers) -> Integers:
    """At least 24 bits from each place on; zeros follow the payload."""
    padded = np.concatenate([payload, np.zeros(_EIGHT + 4, np.uint8)]).astype(np.int64)
    first = np.minimum(places >> 3, payload.size + _EIGHT)
    words = padded[first] | padded[first + 1] << 8 | padded[first + 2] << 16 | padded[first + 3] << 24
    shifted: Integers = words >> (places & 7)
    return shifted


def _complete(used: int, payload: Bytes, have: int, count: int) -> None:
    if have < count or used > 8 * payload.size:
        raise UnsupportedError(f"the compressed weights end after {min(have, count)} of {count} weights")


def _singles(header: Header, payload: Bytes, count: int, low_bits: int) -> Integers:
    code = _Code.of(header, eights=False, low_bits=low_bits)
    starts = _starts(payload, code, count)
    bits = _peek(payload, starts)
    prefix = bits & ((1 << _LONGEST_CODE) - 1)
    symbols, bits = code.symbol[prefix], bits >> code.length[prefix]
    ends = np.cumsum(_lengths(header, symbols, bits))
    kept = min(int(np.searchsorted(ends, count)) + 1, ends.size)
    used = int(starts[kept - 1] + code.total[prefix[kept - 1]]) if kept else 0
    _complete(used, payload, int(ends[-1]) if kept else 0, count)
    result = np.zeros(count, np.int64)
    is_value = np.ones(kept, np.bool_)
    if header.has_runs:
        is_value = (symbols[:kept] != _RUN_SYMBOLS[0]) & (symbols[:kept] != _RUN_SYMBOLS[1])
    chosen = np.flatnonzero(is_value)
    result[ends[chosen] - 1] = _values(symbols[chosen], bits[chosen], low_bits, has_runs=header.has_runs)
    return result


def _lengths(header: Header, symbols: Integers, bits: Integers) -> Integers:
    """How many weights each symbol stands for."""
    lengths = np.ones(symbols.size, np.int64)
    if not header.has_runs:
        return lengths
    runs = np.array(header.runs, np.int64)
    for symbol, width, first in zip(_RUN_SYMBOLS, header.index_bits, (0, 1 << header.index_bits[0]), strict=True):
        places = np.flatnonzero(symbols == symbol)
        lengths[places] = runs[first + (bits[places] & ((1 << width) - 1))]
    return lengths


def _values(symbols: Integers, bits: Integers, low_bits: int, *, has_runs: bool) -> Integers:
    """The weight of each symbol that stands for one, still lowered and rotated."""
    negative, bits = bits & 1, bits >> 1
    width = np.maximum(symbols - 1, 0)
    if has_runs:
        width[symbols == _WHOLE] = _WHOLE
    read = bits & ((1 << width) - 1)
    size = np.where(symbols > 0, read | 1 << width, 0)
    if has_runs:
        size = np.where(symbols == _WHOLE, np.where(read == 0, 1 << _WHOLE, read), size)
    upper = np.where(negative, -size if has_runs else ~size, size)
    if not low_bits:
        return upper
    if has_runs:
        upper -= upper > 0
    return upper << low_bits | bits >> width & ((1 << low_bits) - 1)


def _eights(header: Header, payload: Bytes, count: int) -> Integers:
    code = _Code.of(header, eights=True, low_bits=0)
    groups = -(-count // _EIGHT)
    starts = _starts(payload, code, groups)
    prefix = _peek(payload, starts) & ((1 << _LONGEST_CODE) - 1)
    used = int(starts[-1] + code.total[prefix[-1]]) if starts.size else 0
    _complete(used, payload, _EIGHT * starts.size, count)
    width, places = code.symbol[prefix], starts + code.length[prefix]
    signs = _peek(payload, places)
    result = np.empty((groups, _EIGHT), np.int64)
    for number in range(_EIGHT):
        size = _peek(payload, places + _EIGHT + number * width) & ((1 << width) - 1)
        result[:, number] = np.where(signs >> number & 1, ~size, size)
    return result.reshape(-1)[:count]
