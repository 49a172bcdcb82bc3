"""EW and the output converter as one table from numbers to bytes, made with the NumPy code.

The numbers are divided into pieces of 2^shift. In each piece the byte changes at most once, so that an entry needs the
byte before, the byte after and the place of the change: one word.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.npu.blocks.dpu import ew, out_cvt
from openrknn.npu.blocks.formats import Numbers
from openrknn.task import ew as task_ew
from openrknn.task import out_cvt as task_out_cvt

_LONGEST = 2**16
_LARGEST_SHIFT = 15
_TABLE_VALUES = 2**16
_PARTS = 8
"""Into which a search divides what is left."""
_INT32 = 2**31
_INT64 = 2**62
_NO_CHANGE = 0xFFFF
_MOST_BYTES = 2**16
_FARTHEST_BYTE = 2**22
_LONGEST_CURVE = 2**18
"""Numbers that are tried one by one; of more, those where straight lines meet."""
_CURVES = 8
"""That are known at a time."""
_TURNS = 32
"""More of them are noise."""

Int64s: TypeAlias = npt.NDArray[np.int64]
Int8s: TypeAlias = npt.NDArray[np.int8]


class TooLongError(Exception):
    """The table would be too long, or its ends are not simple."""


class Table(NamedTuple):
    """Entries for the numbers from `low` to `high`; beyond them nothing changes."""

    entries: npt.NDArray[np.uint32]
    low: int
    high: int
    shift: int


class Bytes(NamedTuple):
    """The byte of each number from `low` on; beyond both ends nothing changes."""

    values: npt.NDArray[np.uint8]
    low: int


class Curve(NamedTuple):
    """What EW makes of numbers: `results[i]` of those from `starts[i]` to before `starts[i + 1]`, which is another."""

    starts: Int64s
    results: Int64s
    turns: Int64s
    """Places in `results` from which on they fall and no longer rise, or the other way round."""

    @classmethod
    def of(cls, config: task_ew.Config, first: int, last: int) -> Curve:
        """With the NumPy code, number by number."""
        results = ew.apply(np.arange(first, last + 1), config, _no_operand)
        edges = np.concatenate([[0], np.flatnonzero(results[1:] != results[:-1]) + 1])
        results = results[edges]
        rises = results[1:] > results[:-1]
        return cls(first + edges, results, np.flatnonzero(rises[1:] != rises[:-1]) + 1)

    def at(self, numbers: Int64s) -> Int64s:
        """Results of numbers that it has."""
        return self.results[np.searchsorted(self.starts, numbers, side="right") - 1]

    def crossings(self, limits: Int64s) -> Int64s:
        """The numbers whose results are on the other side of one of the limits (x >= limit) than the result before."""
        found = []
        for first, last in itertools.pairwise((0, *self.turns.tolist(), len(self.results) - 1)):
            part = self.results[first : last + 1]
            rises = part[-1] >= part[0]
            places = np.searchsorted(part, limits) if rises else np.searchsorted(-part, -limits, side="right")
            found.append(first + places[(places > 0) & (places < len(part))])
        crossed = np.sort(np.concatenate(found))
        changes: Int64s = crossed[np.diff(crossed, prepend=-1) > 0]
        return self.starts[changes]


class Cache(dict[object, Table]):
    """Tables by what they were made from: all tasks of an operator share one."""

    def __init__(self, *, has_singles: bool = True) -> None:
        super().__init__()
        self.has_singles = has_singles
        """Whether kernels compute chains in single precision, with a byte for each number where there is a table."""
        self._bytes: dict[object, Bytes | None] = {}
        self._curves: dict[object, Curve] = {}

    def curve(self, config: task_ew.Config, first: int, last: int) -> Curve:
        """What EW makes of the numbers from `first` to `last`: layers with one lookup table differ in what follows."""
        key = _values(config)
        found = self._curves.get(key)
        if found is None:
            if len(self._curves) == _CURVES:
                self._curves.clear()
            found = self._curves[key] = Curve.of(config, first, last)
        return found

    def bytes_of(self, table: Table, norm: tuple[int, int, int] | None) -> Bytes | None:
        """As the function, once for each table that this cache has."""
        key = id(table.entries), norm
        if key not in self._bytes:
            self._bytes[key] = bytes_of(table, norm)
        return self._bytes[key]


def build(
    config: task_ew.Config, out: task_out_cvt.Config, low: int, high: int, cache: Cache
) -> Table:
    """The table for numbers from `low` to `high`."""
    key = (low, high, _values(config), _values(out))
    if key not in cache:
        cache[key] = _KEPT.get(key) or _KEPT.keep(key, _build(config, out, low, high, cache))
    return cache[key]


def _values(config: object) -> object:
    """Everything that a configuration says, whatever fields it has: equal ones make equal tables."""
    if isinstance(config, np.ndarray):
        return config.tobytes()
    kind: Any = type(config)
    names = _names_of(kind)
    if not names:
        return config
    return kind, *[_values(getattr(config, name)) for name in names]


@functools.cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


class _Kept:
    """The tables made last, for the next session on the same model or one that resembles it."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._tables: OrderedDict[object, Table] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> Table | None:
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
            return self._tables.get(key)

    def keep(self, key: object, table: Table) -> Table:
        table.entries.flags.writeable = False
        with self._lock:
            if key not in self._tables:
                self._tables[key] = table
                self._size += table.entries.nbytes + _KEY_BYTES
            while self._size > self._limit:
                _, oldest = self._tables.popitem(last=False)
                self._size -= oldest.entries.nbytes + _KEY_BYTES
        return table


_KEY_BYTES = 10_000
"""A key holds the whole lookup table."""
_KEPT = _Kept(16 << 20)


def _build(config: task_ew.Config, out: task_out_cvt.Config, low: int, high: int, cache: Cache) -> Table:
    _check_ends(config, out, max(abs(low), abs(high)))

    def byte_of(results: Int64s) -> Int8s:
        return numerics.saturate(out_cvt.apply(results, out), np.int8)

    def value(numbers: Int64s) -> Int8s:
        return byte_of(ew.apply(numbers, config, _no_operand))

    first, last = 0, 0
    if config.table is not None:
        first, last = config.table.le_start - 1, config.table.lo_end + 1
        # The last piece is a straight line: whatever comes before it may jump.
        first = min([first, *(piece.start - 1 for piece in config.table.further_below)])
        last = max([last, *(piece.start + 1 for piece in config.table.further_above)])
    whole = first, last
    first, last = min(max(first, low), high), max(min(last, high), low)
    if last - first > 1 << 20:
        raise TooLongError
    curve = None
    if whole[1] - whole[0] < _LONGEST_CURVE and whole[0] <= first <= last <= whole[1]:
        curve = cache.curve(config, *whole)
        limits = _limits(out)
        if limits is None or len(curve.turns) > _TURNS:
            made = byte_of(curve.results)
            changes = curve.starts[1:][made[1:] != made[:-1]]
        else:
            changes = curve.crossings(limits)
        begin, end = np.searchsorted(changes, (first, last), side="right").tolist()
        changes = changes[begin:end]
        ends = None if _is_settled(config, curve, limits) else value(np.array([low, first, last, high]))
        if ends is not None and (ends[0] != ends[1] or ends[2] != ends[3]):  # straight lines
            below, above = _changes(value, np.array([low, first])), _changes(value, np.array([last, high]))
            changes = np.concatenate([below, changes, above])
    else:
        changes = _changes(value, np.concatenate([[low], _corners(config, first, last), [high]]))
    if not len(changes):
        changes = np.array([first])
    start, end = int(changes[0]) - 1, int(changes[-1])
    start = max(start, low)
    changes = changes[changes > start]
    numbers = np.concatenate([[start], changes])
    is_inside = curve is not None and first <= start and end <= last
    after = byte_of(curve.at(numbers)) if curve is not None and is_inside else value(numbers)

    def known(numbers: Int64s) -> Int8s:
        """`value` of numbers from `start` on: the stages are the most expensive part of a first run."""
        return after[np.searchsorted(changes, numbers, side="right")]

    return _pieces(known, changes, start, end)


def _is_settled(config: task_ew.Config, curve: Curve, limits: Int64s | None) -> bool:
    """Whether the straight lines on both sides of a plain table change no byte: flat, or from a saturated byte on.

    One that rises to the right has nothing but larger results there, and smaller ones to the left.
    """
    table = config.table
    if limits is None or table is None or config.operation is not None or config.clamp is not None:
        return False
    if config.factor is not None or table.further_below or table.further_above or table.le_start > table.lo_end:
        return False
    lowest, highest = int(curve.results[0]), int(curve.results[-1])
    is_low = not table.below.scale or (table.below.scale > 0 and lowest < int(limits[0]))
    return is_low and (not table.above.scale or (table.above.scale > 0 and highest >= int(limits[-1])))


def _limits(out: task_out_cvt.Config) -> Int64s | None:
    """The smallest number that becomes at least c, for the bytes c but the lowest; None: not found with a formula."""
    is_plain = out.rounding is numerics.Rounding.EVEN and not out.add_first and not out_cvt.writes_float(out)
    if not is_plain or out.scale <= 0 or (abs(out.offset) + 128) << out.shift >= _INT64:
        return None
    bytes_ = np.arange(-127, 128)
    exact = bytes_ - out.offset << out.shift
    if out.shift:  # a tie rises to an even byte
        exact = exact - (1 << out.shift - 1) + (bytes_ & 1)
    return -(-exact // out.scale)


def _corners(config: task_ew.Config, first: int, last: int) -> Int64s:
    """Numbers from `first` to `last` between which the byte only rises or only falls: where straight lines meet."""
    table = config.table
    if table is None or (config.clamp is not None and config.clamp.below is not None):
        return np.arange(first, last + 1)
    entries = np.arange(table.entries.shape[1])
    points: list[npt.ArrayLike] = [
        [first, last, table.lo_start, table.lo_end + 1],
        [piece.start for piece in table.further_below],
        [piece.start + 1 for piece in table.further_above],
        table.le_start + (entries << table.le_select),
        table.lo_start + (entries << table.lo_select),
    ]
    begins = np.concatenate([np.asarray(some, np.int64) for some in points])
    return np.sort(np.clip(np.concatenate([begins - 1, begins]), first, last))


def _changes(value: Callable[[Int64s], Int8s], corners: Int64s) -> Int64s:
    """Where the byte changes, if it only rises or only falls from corner to corner: the first numbers after.

    Corners rise; some may be the same.
    """
    ends = value(corners).astype(np.int64)
    counts = np.abs(np.diff(ends))
    place = np.repeat(np.arange(len(counts)), counts)
    sign = np.sign(np.diff(ends))[place]
    # Of the bytes from the one corner to the other, each is met somewhere between them or jumped over.
    number = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    wanted = ends[place] + sign * (number + 1)
    near, far = corners[place], corners[place + 1]
    while np.any(far - near > 1):
        parts = near + (far - near) * np.arange(1, _PARTS)[:, None] // _PARTS
        is_before = (value(parts) - wanted) * sign < 0
        # Those before come before the others; a part may be empty.
        passed = np.count_nonzero(is_before, axis=0)
        edges = np.concatenate([near[None], parts, far[None]])
        each = np.arange(len(wanted))
        near, far = edges[passed, each], edges[passed + 1, each]
    far = np.sort(far)
    return far[np.diff(far, prepend=far[:1] - 1) > 0]


def _pieces(value: Callable[[Int64s], Int8s], changes: Int64s, low: int, high: int) -> Table:
    distances = changes - low
    shift = _LARGEST_SHIFT
    if len(distances) > 1:  # neighbours are in different pieces if they differ above the bits of a piece
        shift = min(shift, int((distances[1:] ^ distances[:-1]).min()).bit_length() - 1)
    count = ((high - low) >> shift) + 1
    if count > _LONGEST:
        raise TooLongError
    starts = low + (np.arange(count) << shift)
    before = value(starts).astype(np.uint8).astype(np.uint32)
    after = before.copy()
    threshold = np.full(count, _NO_CHANGE, np.uint32)
    piece = distances >> shift
    after[piece] = value(changes).astype(np.uint8)
    threshold[piece] = distances & ((1 << shift) - 1)
    entries = (before | after << 8 | threshold << 16).astype(np.uint32)
    return Table(entries, low, high, shift)


def _check_ends(config: task_ew.Config, out: task_out_cvt.Config, limit: int) -> None:
    """Nothing may overflow 64 bits between the table and its far ends."""
    largest = limit
    if config.table is not None:
        largest += _TABLE_VALUES
        pieces = (*config.table.further_below, *config.table.further_above)
        for slope in (config.table.below, config.table.above, *(piece.slope for piece in pieces)):
            product = 2 * limit * abs(slope.scale) + (_TABLE_VALUES << slope.shift)
            if product >= _INT64:
                raise TooLongError
            largest = max(largest, (product >> slope.shift) + 1)
    if config.operation is not None:
        largest += _INT32
    if (largest + abs(out.offset)) * abs(out.scale) + (abs(out.offset) << out.shift) >= _INT64:
        raise TooLongError


def _no_operand() -> Numbers:
    raise TooLongError


def bytes_of(table: Table, norm: tuple[int, int, int] | None) -> Bytes | None:
    """The table for numbers before the stage `norm`; None where it would be too long."""
    places = table.entries >> 16
    pieces = np.flatnonzero(places != _NO_CHANGE)
    changes = table.low + (pieces << table.shift) + places[pieces].astype(np.int64)
    if norm is not None:
        factor, addend, shift = norm
        if factor <= 0 or addend:
            return None
        # round(x * factor / 2^shift) is at least c from here on; a tie rises where c is even.
        exact = changes << shift if not shift else (changes << shift) - (1 << shift - 1) + (changes & 1)
        changes = -(-exact // factor)
    if not len(changes) or changes[-1] - changes[0] + 2 > _MOST_BYTES or np.abs(changes).max() >= _FARTHEST_BYTE:
        return None
    counts = np.concatenate([[1], np.diff(changes), [1]])
    values = np.concatenate([table.entries[:1], table.entries[pieces] >> 8]).astype(np.uint8)
    return Bytes(np.repeat(values, counts), int(changes[0]) - 1)
