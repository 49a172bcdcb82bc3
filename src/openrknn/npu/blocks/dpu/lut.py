"""The two lookup tables of the EW stage, with linear interpolation.

    x < lo_start: table LE, else LO;  p = x - start;  i = p div 2^s;  f = p mod 2^s
    y = T[i] + floor((T[i + 1] - T[i]) * f / 2^s)
    x < le_start: y = LE[0]   + floor((x - le_start) * scale / 2^shift)   the slope below
    x > lo_end:   y = LO[512] + floor((x - lo_end)   * scale / 2^shift)   the slope above

Boards with RV1103 (a probe of 768 numbers) and RK3588 (16 scores of PP-OCR's detector) floor between the entries;
beyond the ends it is taken to be the same circuit.

RK3576 and RV1103B/06B divide what is beyond into up to four pieces, each with the place where it starts, the value
there, and a slope of its own. On RK3576 all four are alike.

Floating point data take the same path with a fraction that is not an integer, and are not rounded to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.chip.rk3588 import dpu_lut
from openrknn.errors import UnknownModeError, UnwrittenTableError
from openrknn.npu.blocks.formats import Numbers
from openrknn.task.lut import ENTRIES, Config, Slope

__all__ = ["Tables", "TablesState", "apply"]


class TablesState(NamedTuple):
    """The contents of both tables, and where the next entry goes: table, address, whether it is written."""

    entries: bytes
    written: bytes
    """One byte per entry: whether a task has written it."""
    table: int
    address: int
    writing: bool


class Tables:
    """The contents of both tables; they outlive tasks and jobs."""

    def __init__(self) -> None:
        self.entries: npt.NDArray[np.int64] = np.zeros((2, 1024), np.int64)
        self._written: npt.NDArray[np.bool_] = np.zeros((2, 1024), np.bool_)
        self._table = 0
        self._address = 0
        self._writing = False
        self._copy: npt.NDArray[np.int64] | None = None
        """The last snapshot, if no entry was written since."""

    def select(self, access: dpu_lut.LutAccessCfg) -> None:
        """A write to LUT_ACCESS_CFG."""
        self._table, self._address, self._writing = int(access.lut_table_id), access.lut_addr, access.lut_access_type

    def store(self, value: int) -> None:
        """A write to LUT_ACCESS_DATA: one entry, then on to the next."""
        if self._writing:
            self._copy = None
            self.entries[self._table, self._address % 1024] = ((value & 0xFFFF) ^ 0x8000) - 0x8000
            self._written[self._table, self._address % 1024] = True
            self._address += 1

    def store_all(self, values: npt.NDArray[np.int64]) -> None:
        """As many writes to LUT_ACCESS_DATA; of those that come around to the same place, the last counts."""
        if self._writing:
            self._copy = None
            last = values[-len(self.entries[0]) :]
            first = self._address + len(values) - len(last)
            places = (first + np.arange(len(last))) % len(self.entries[0])
            self.entries[self._table, places] = ((last & 0xFFFF) ^ 0x8000) - 0x8000
            self._written[self._table, places] = True
            self._address += len(values)

    def snapshot(self) -> npt.NDArray[np.int64]:
        """A copy of the entries as they are now; `UnwrittenTableError` if no task has written some of them."""
        if self._copy is None:
            self._copy = self._written_entries()
            self._copy.flags.writeable = False
        return self._copy

    def _written_entries(self) -> npt.NDArray[np.int64]:
        missing = ENTRIES - np.count_nonzero(self._written[:, :ENTRIES], axis=1)
        if missing.any():
            counts = zip(("LE", "LO"), missing, strict=True)
            text = " and ".join(f"{count} of {ENTRIES} entries of {table}" for table, count in counts if count)
            raise UnwrittenTableError(
                f"this task uses a lookup table that no task has loaded ({text}), so its result would not depend on "
                "its input as it should. The file or the program lacks a task that loads the table",
                register="LUT_ACCESS_DATA",
            )
        return self.entries[:, :ENTRIES].copy()

    def save(self) -> TablesState:
        """Everything, as a value."""
        return TablesState(self.entries.tobytes(), self._written.tobytes(), self._table, self._address, self._writing)

    def restore(self, state: TablesState) -> None:
        """Become what `save` saw."""
        self._copy = None
        self.entries = np.frombuffer(state.entries, np.int64).reshape(self.entries.shape).copy()
        self._written = np.frombuffer(state.written, np.bool_).reshape(self.entries.shape).copy()
        self._table, self._address, self._writing = state.table, state.address, state.writing


def apply(values: Numbers, config: Config | None) -> Numbers:
    """The formula on top."""
    if config is None:
        return values
    if values.dtype.kind == "f":
        return _floats(values, config)
    low = _between(values, config.entries[0], config.le_start, config.le_select)
    high = _between(values, config.entries[1], config.lo_start, config.lo_select)
    result = np.where(values < config.lo_start, low, high)
    below = _beyond(values - config.le_start, int(config.entries[0, 0]), config.below)
    above = _beyond(values - config.lo_end, int(config.entries[1, -1]), config.above)
    result = np.where(values < config.le_start, below, result)
    result = np.where(values > config.lo_end, above, result)
    for piece in config.further_below:
        result = np.where(values < piece.start, _beyond(values - piece.start, piece.value, piece.slope), result)
    for piece in config.further_above:
        result = np.where(values > piece.start, _beyond(values - piece.start, piece.value, piece.slope), result)
    return result


def _between(values: Numbers, table: npt.NDArray[np.int64], start: int, select: int) -> Numbers:
    distance = np.clip(values - start, 0, ((ENTRIES - 1) << select) - 1)
    index, fraction = distance >> select, distance & ((1 << select) - 1)
    # The end of the table is its last entry itself.
    at_end = values - start >= (ENTRIES - 1) << select
    exact = (table[index] << select) + (table[index + 1] - table[index]) * fraction
    return np.where(at_end, table[-1], numerics.shift_floor(exact, select))


def _beyond(distance: Numbers, end: int, slope: Slope) -> Numbers:
    return end + numerics.shift_floor(distance * slope.scale, slope.shift)


def _floats(values: Numbers, config: Config) -> Numbers:
    if config.further_below or config.further_above:
        raise UnknownModeError("floats beyond the tables, in pieces, are not implemented", register="LUT_CFG")
    exact = values.astype(np.float64)
    entries = config.entries.astype(np.float64)

    def between(table: npt.NDArray[np.float64], start: int, select: int) -> npt.NDArray[np.float64]:
        place = np.clip(np.nan_to_num((exact - start) / 2.0**select, nan=0.0), 0, ENTRIES - 1)
        index = np.minimum(np.floor(place), ENTRIES - 2).astype(np.int64)
        return table[index] + (table[index + 1] - table[index]) * (place - index)

    low = between(entries[0], config.le_start, config.le_select)
    high = between(entries[1], config.lo_start, config.lo_select)
    result = np.where(exact < config.lo_start, low, high)
    below = entries[0, 0] + (exact - config.le_start) * (config.below.scale / 2.0**config.below.shift)
    above = entries[1, -1] + (exact - config.lo_end) * (config.above.scale / 2.0**config.above.shift)
    result = np.where(exact < config.le_start, below, result)
    return np.where(exact > config.lo_end, above, result).astype(np.float32)
