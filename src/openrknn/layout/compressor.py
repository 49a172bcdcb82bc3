"""The other direction of `layout.compression`: streams that the NPU's decompressor turns back into these weights.

The converter chooses its runs and what it lowers weights by in a way of its own; any choice gives a valid stream. Here
each lane is tried with a few, and the shortest is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from openrknn.layout.compression import CODES, HEADER_BYTES, Bytes, Integers, Lane, Scheme

__all__ = ["compress"]

_UNIT = 16
_EIGHT = 8
_WHOLE = 7
_INDEX_BITS = (1, 1)
_LONGEST_RUN = 0xFFFF


def compress(weights: npt.NDArray[np.uint8], scheme: Scheme, element_bytes: int = 1) -> list[Lane]:
    """The lanes of weights that have 1 or 2 bytes each; headers and payloads are whole units of 16 bytes."""
    turn = scheme.lanes * scheme.step
    padded = np.concatenate([weights.reshape(-1), np.zeros(-weights.size % turn, np.uint8)])
    dealt = padded.reshape(-1, scheme.lanes, scheme.step)
    lanes = (np.ascontiguousarray(dealt[:, number]).reshape(-1) for number in range(scheme.lanes))
    if scheme.eights:
        return [_shortest(_eights(lane, raised) for raised in _candidates(lane)) for lane in lanes]
    return [_shortest(_tries(_numbers(lane, element_bytes), element_bytes)) for lane in lanes]


def _shortest(tries: Iterable[Lane]) -> Lane:
    return min(tries, key=lambda lane: lane.header.size + lane.payload.size)


def _numbers(lane: Bytes, element_bytes: int) -> Integers:
    """Weights of two bytes are rotated, so that the sign is the lowest bit."""
    if element_bytes == 1:
        return lane.astype(np.int64)
    words = lane.view("<u2").astype(np.int64)
    return (words << 1 | words >> 15) & 0xFFFF


def _candidates(numbers: npt.NDArray[np.integer]) -> list[int]:
    """What weights could be lowered by: nothing, or the most frequent weight."""
    values, counts = np.unique(numbers, return_counts=True)
    return sorted({0, int(values[counts.argmax()])}) if values.size else [0]


def _tries(numbers: Integers, element_bytes: int) -> Iterable[Lane]:
    for lowered in _candidates(numbers):
        yield _singles(numbers, lowered, element_bytes, with_runs=False)
        yield _singles(numbers, lowered, element_bytes, with_runs=True)


def _signed(numbers: Integers, element_bytes: int) -> Integers:
    half = 1 << 8 * element_bytes - 1
    return (numbers + half & 2 * half - 1) - half


# -------------------------------------------------------------------------------------------------- bits


class _Fields:
    """Numbers with widths, put into a stream side by side."""

    def __init__(self) -> None:
        self.values: list[Integers] = []
        self.widths: list[Integers] = []

    def add(self, values: npt.ArrayLike, widths: npt.ArrayLike) -> None:
        """One more field of every symbol; a width of 0 is no field."""
        self.values.append(np.asarray(values, np.int64))
        self.widths.append(np.broadcast_to(np.asarray(widths, np.int64), self.values[-1].shape))

    def payload(self) -> Bytes:
        """All fields of the first symbol, then all of the second, ...; lowest bits first."""
        values, widths = np.stack(self.values, axis=1).reshape(-1), np.stack(self.widths, axis=1).reshape(-1)
        starts = np.cumsum(widths) - widths
        bits = np.zeros(-(-int(widths.sum()) // (8 * _UNIT)) * 8 * _UNIT, np.uint8)
        for bit in range(int(widths.max(initial=0))):
            chosen = np.flatnonzero(widths > bit)
            bits[starts[chosen] + bit] = values[chosen] >> bit & 1
        return np.packbits(bits, bitorder="little")


def _header(first: int, symbols: list[int], runs: tuple[int, ...] = ()) -> Bytes:
    order = [*symbols, *(symbol for symbol in range(_EIGHT) if symbol not in symbols)][: len(CODES)]
    places = sum(symbol << 4 * place for place, symbol in enumerate(order))
    raw = (first & 0xFFFFFFFF).to_bytes(4, "little") + places.to_bytes(4, "little")
    raw += b"".join(run.to_bytes(2, "little") for run in runs)
    return np.frombuffer(raw.ljust(-(-max(len(raw), HEADER_BYTES) // _UNIT) * _UNIT, b"\0"), np.uint8)


def _codes(symbols: Integers) -> tuple[list[int], Integers, Integers]:
    """Symbols by frequency, and the code and its length for each symbol of the stream."""
    counts = np.bincount(symbols, minlength=_EIGHT + 1)
    order = [int(symbol) for symbol in np.argsort(-counts, kind="stable") if counts[symbol]]
    code, length = np.zeros(_EIGHT + 1, np.int64), np.zeros(_EIGHT + 1, np.int64)
    for symbol, text in zip(order, CODES, strict=False):
        code[symbol], length[symbol] = int(text[::-1], 2), len(text)
    return order, code[symbols], length[symbols]


def _widths(sizes: Integers) -> Integers:
    """Bits of each number."""
    return np.frexp(sizes.astype(np.float64))[1].astype(np.int64)


# -------------------------------------------------------------------------------------------------- the two codings


def _eights(lane: Bytes, lowered: int) -> Lane:
    values = _signed(lane.astype(np.int64) - lowered, 1)
    groups = np.concatenate([values, np.zeros(-values.size % _EIGHT, np.int64)]).reshape(-1, _EIGHT)
    sizes = np.where(groups < 0, ~groups, groups)
    symbols = _widths(sizes.max(axis=1, initial=0))
    order, code, length = _codes(symbols)
    fields = _Fields()
    fields.add(code, length)
    fields.add((groups < 0) @ (1 << np.arange(_EIGHT)), _EIGHT)
    for number in range(_EIGHT):
        fields.add(sizes[:, number], symbols)
    return Lane(_header(-lowered, order), fields.payload())


def _singles(numbers: Integers, lowered: int, element_bytes: int, *, with_runs: bool) -> Lane:
    values = _signed(numbers - lowered, element_bytes)
    low_bits = 8 * (element_bytes - 1)
    runs = _run_table(values) if with_runs else ()
    places, indices = _with_runs(values, runs) if with_runs else (np.arange(values.size), np.full(values.size, -1))
    is_run = indices >= 0
    chosen = values[np.minimum(places, max(values.size - 1, 0))]
    upper = chosen >> low_bits
    if with_runs:
        upper = np.where((upper >= 0) & (low_bits > 0), upper + 1, upper)
        sizes = np.abs(upper)
        symbols = np.where(is_run, np.where(indices >> _INDEX_BITS[0], _EIGHT, 0), np.minimum(_widths(sizes), _WHOLE))
    else:
        sizes = np.where(upper < 0, ~upper, upper)
        symbols = _widths(sizes)
    order, code, length = _codes(symbols)
    if len(order) > len(CODES):  # all nine: without the second kind of run
        return _singles(numbers, lowered, element_bytes, with_runs=False)
    width = np.maximum(symbols - 1, 0)
    if with_runs:
        width = np.where(symbols == _WHOLE, _WHOLE, width)
    fields = _Fields()
    fields.add(code, length)
    fields.add(indices & (1 << _INDEX_BITS[0]) - 1, np.where(is_run, _INDEX_BITS[0], 0))
    fields.add(upper < 0, np.where(is_run, 0, 1))
    fields.add(sizes & (1 << width) - 1, np.where(is_run, 0, width))
    fields.add(chosen & (1 << low_bits) - 1, np.where(is_run, 0, low_bits))
    bits = _INDEX_BITS[0] | _INDEX_BITS[1] << 4 if with_runs else 0
    return Lane(_header(bits | (lowered & 0xFFFF) << 8, order, runs), fields.payload())


def _run_lengths(values: Integers) -> tuple[Integers, Integers]:
    """Where runs of zeros begin, and how long they are."""
    edges = np.diff(np.concatenate([[0], (values == 0).astype(np.int64), [0]]))
    starts = np.flatnonzero(edges > 0)
    return starts, np.flatnonzero(edges < 0) - starts


def _run_table(values: Integers) -> tuple[int, ...]:
    """Four lengths: the two most frequent for the first kind, then 1 and the longest."""
    lengths, counts = np.unique(_run_lengths(values)[1], return_counts=True)
    frequent = [int(length) for length in lengths[np.argsort(-counts, kind="stable")][:2]]
    longest = int(lengths.max(initial=1))
    table = [*frequent, *([1] * (2 - len(frequent))), 1, longest]
    return tuple(min(length, _LONGEST_RUN) for length in table)


def _with_runs(values: Integers, runs: tuple[int, ...]) -> tuple[Integers, Integers]:
    """For each symbol the place of its weight, and the index of its run in the table, or -1."""
    first = {length: place for place, length in reversed(list(enumerate(runs)))}
    by_size = sorted(first, reverse=True)
    places, indices = [np.flatnonzero(values)], [np.full(np.count_nonzero(values), -1, np.int64)]
    for start, length in zip(*(part.tolist() for part in _run_lengths(values)), strict=True):
        left, parts = length, []
        for size in by_size:
            parts += [first[size]] * (left // size)
            left %= size
        places.append(np.full(len(parts), start, np.int64))
        indices.append(np.array(parts, np.int64))
    together = np.concatenate(places)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(indices)[order]
