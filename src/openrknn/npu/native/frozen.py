"""Native programs as values: structures with the places of their pointers, and what those lead to.

    frozen = freeze(accelerated, buffers)       # None where a step has no kernel, or memory overlaps
    frozen.sections()                           # arrays, to be stored
    program = thaw(sections, buffers, library, kernels)
    program.run()

A pointer becomes the number of a region and an offset in it. Regions are the buffers of the job, arrays that the
builders of steps made (packed weights, tables), packed weights in the file of another program, and room that kernels
fill themselves. `thaw` puts the pointers back
and checks that each is in its region; that the walks from there do is what `places` proved when the program was made,
for buffers of the same sizes: callers that store sections must restore them unchanged.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compute.native import Kernels
from openrknn.nativelib import structures
from openrknn.nativelib.structures import StepStructure
from openrknn.npu.memory import Buffer
from openrknn.npu.native.packs import Home
from openrknn.records import dataclass

_BUFFER, _STORED, _ROOM, _OTHER = 0, 1, 2, 3
_POINTER = np.dtype([("place", "<u4"), ("region", "<u4"), ("offset", "<i8")])
_REGION = np.dtype([("kind", "<u4"), ("number", "<u4"), ("start", "<i8"), ("size", "<i8")])
_STEP = np.dtype([("start", "<u4"), ("call", "<u4")])
_LINE, _POINTER_BYTES = 64, 8
_KINDS: tuple[type[StepStructure], ...] = (
    structures.Convolution, structures.Flying, structures.Map, structures.Move, structures.Reduction,
    structures.Pooling,
)  # fmt: skip


class FrozenError(ValueError):
    """Sections that are no program for these buffers."""


@dataclass(frozen=True)
class Frozen:
    """A program without addresses."""

    structures: npt.NDArray[np.uint8]
    steps: npt.NDArray[Any]
    pointers: npt.NDArray[Any]
    regions: npt.NDArray[Any]
    data: list[npt.NDArray[np.uint8]]
    """In pieces: packed weights are not copied."""
    others: list[str]
    """Keys of the files whose data regions are in, too."""
    packs: dict[str, tuple[int, int]]
    """Packed weights that other programs may use: start and size in `data`."""

    def sections(self) -> dict[str, Any]:
        """What `thaw` takes."""
        return {name: getattr(self, name) for name in ("structures", "steps", "pointers", "regions", "data")}


class Thawed:
    """Structures with pointers, in the calls in which they run."""

    def __init__(
        self, library: ctypes.CDLL, calls: list[Any], data: npt.NDArray[np.uint8], kept: tuple[object, ...]
    ) -> None:
        self._library, self._calls, self._kept = library, calls, kept
        self.data = data
        """What is stored of it."""

    def run(self) -> None:
        """Execute every step."""
        for pointers in self._calls:
            if self._library.openrknn_run(pointers, len(pointers)):
                raise MemoryError("no memory for intermediate results of the native kernels")


class _Regions:
    """Where pointers may lead to, by address in this process."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = [(int(buffer.data.ctypes.data), buffer.data.nbytes, number, None)
                         for number, buffer in enumerate(buffers)]  # fmt: skip
        self._known: list[tuple[int, int, int, npt.NDArray[Any] | None]] = sorted(
            self._buffers, key=lambda entry: entry[0]
        )
        self.numbers: dict[int, int] = {}
        """Start of a region that something leads to -> its number."""
        self.rooms: set[int] = set()
        """Starts of those whose contents do not matter."""

    def add(self, arrays: Sequence[object]) -> bool:
        """Arrays that steps keep; whether each is whole and apart from the others."""
        found: dict[int, tuple[int, int, int, npt.NDArray[Any] | None]] = {}
        for array in arrays:
            if isinstance(array, np.ndarray) and array.nbytes and self.find(start := int(array.ctypes.data)) is None:
                if not array.flags.c_contiguous:
                    return False
                before = found.get(start)
                if before is None or array.nbytes > before[1]:
                    found[start] = (start, array.nbytes, -1, array)
        self._known = sorted((*self._known, *found.values()), key=lambda entry: entry[0])
        return all(one[0] + one[1] <= other[0] for one, other in zip(self._known, self._known[1:], strict=False))

    def find(self, pointer: int) -> tuple[int, int, int, npt.NDArray[Any] | None] | None:
        place = bisect.bisect_right(self._known, pointer, key=lambda entry: entry[0]) - 1
        if place < 0 or pointer >= self._known[place][0] + self._known[place][1]:
            return None
        return self._known[place]


def freeze(
    calls: Sequence[tuple[Sequence[StepStructure], Sequence[object]]],
    buffers: Sequence[Buffer],
    packs: Mapping[int, tuple[str, Home | None]] = MappingProxyType({}),
) -> Frozen | None:
    """The steps of each call with what they keep alive. None: a pointer leads to what is not known.

    `packs`: names of packed weights by address, with the file that has them.
    """
    if ctypes.sizeof(ctypes.c_void_p) != _POINTER_BYTES:
        return None
    regions = _Regions(buffers)
    if not regions.add([array for _, kept in calls for array in _flat(kept)]):
        return None
    blob, steps, pointers = bytearray(), [], []
    for number, (found, _) in enumerate(calls):
        for structure in found:
            start = len(blob)
            steps.append((start, number))
            copied = type(structure).from_buffer_copy(structure)
            if isinstance(copied, structures.Convolution) and copied.fresh_weights:
                _make_room(copied, regions)
            for offset, may_be_lost in _pointers(type(structure)):
                place = ctypes.c_void_p.from_buffer(copied, offset)
                if place.value:
                    region = regions.find(place.value)
                    if region is not None:
                        at = regions.numbers.setdefault(region[0], len(regions.numbers))
                        pointers.append((start + offset, at, place.value - region[0]))
                    elif not may_be_lost:
                        return None
                    place.value = None
            blob += bytes(copied)
            blob += bytes(-len(blob) % _LINE)
    stored = np.frombuffer(bytes(blob), np.uint8)
    return Frozen(stored, np.array(steps, _STEP), np.array(pointers, _POINTER), *_contents(regions, packs))


def _make_room(step: structures.Convolution, regions: _Regions) -> None:
    """Weights that are packed each time need room and no contents."""
    if step.packed and (region := regions.find(step.packed)) is not None:
        regions.rooms.add(region[0])


def _contents(
    regions: _Regions, packs: Mapping[int, tuple[str, Home | None]]
) -> tuple[npt.NDArray[Any], list[npt.NDArray[np.uint8]], list[str], dict[str, tuple[int, int]]]:
    """The table of regions, what is stored of them, the other files, and packed weights among what is stored."""
    table, parts, end = [], [], 0
    others: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for start in regions.numbers:
        region = regions.find(start)
        assert region is not None
        _, size, number, array = region
        name, home = packs.get(start, ("", None))
        if array is None:
            table.append((_BUFFER, number, 0, size))
        elif start in regions.rooms:
            table.append((_ROOM, 0, 0, size))
        elif home is not None:
            table.append((_OTHER, others.setdefault(home.key, len(others)), home.start, size))
        else:
            table.append((_STORED, 0, end, size))
            if name:
                places[name] = end, size
            parts += [array.reshape(-1).view(np.uint8), np.zeros(-size % _LINE, np.uint8)]
            end += -(-size // _LINE) * _LINE
    return np.array(table, _REGION), parts, list(others), places


def thaw(
    sections: Mapping[str, memoryview],
    buffers: Sequence[Buffer],
    library: ctypes.CDLL,
    kernels: Kernels,
    others: Sequence[npt.NDArray[np.uint8]] = (),
) -> Thawed:
    """The program for these buffers. FrozenError: not one for them, for these kernels, or no program at all.

    `others`: the data of the files that it names.
    """
    try:
        arrays = {name: np.frombuffer(sections[name], kind) for name, kind in _SECTIONS.items()}
    except (KeyError, ValueError) as error:
        raise FrozenError(str(error)) from None
    steps, pointers, data = arrays["steps"], arrays["pointers"], arrays["data"]
    size = arrays["structures"].nbytes
    room = np.empty(size + _LINE, np.uint8)
    base = int(room.ctypes.data)
    skip = -base % _LINE
    room[skip : skip + size] = arrays["structures"]
    base += skip
    starts, sizes, kept = _placed(arrays["regions"], buffers, data, others)
    region, offset = pointers["region"], pointers["offset"]
    _check(bool(np.all(region < len(starts))) and bool(np.all(pointers["place"] % 8 == 0)), "pointers")
    _check(bool(np.all((offset >= 0) & (offset < sizes[region]))), "offsets")
    _check(bool(np.all(pointers["place"].astype(np.int64) + 8 <= size)), "places of pointers")
    _check_steps(room[skip : skip + size], steps, kernels)
    room[skip : skip + size].view(np.uint64)[pointers["place"] // 8] = (starts[region] + offset).astype(np.uint64)
    places = steps["start"].astype(np.int64) + base
    ends = np.flatnonzero(np.diff(steps["call"])) + 1
    calls = [(ctypes.c_void_p * len(part))(*part.tolist()) for part in np.split(places, ends) if len(part)]
    return Thawed(library, calls, data, (room, *kept))


def _placed(
    regions: npt.NDArray[Any],
    buffers: Sequence[Buffer],
    data: npt.NDArray[np.uint8],
    others: Sequence[npt.NDArray[np.uint8]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[object]]:
    kept: list[object] = [data, *others, *(buffer.data for buffer in buffers)]
    bases, contents = [int(buffer.data.ctypes.data) for buffer in buffers], int(data.ctypes.data)
    starts = []
    for kind, number, start, size in regions.tolist():
        if kind == _BUFFER:
            _check(number < len(buffers) and buffers[number].data.nbytes == size, "buffers")
            starts.append(bases[number])
        elif kind == _STORED:
            _check(0 <= start <= data.nbytes - size and size >= 0, "contents")
            starts.append(contents + start)
        elif kind == _OTHER:
            _check(number < len(others) and 0 <= start <= others[number].nbytes - size and size >= 0, "other files")
            starts.append(int(others[number].ctypes.data) + start)
        else:
            _check(kind == _ROOM and 0 <= size < 1 << 40, "room")
            room = np.zeros(size + _LINE, np.uint8)
            kept.append(room)
            starts.append(-(-int(room.ctypes.data) // _LINE) * _LINE)
    return np.array(starts, np.int64), regions["size"].astype(np.int64), kept


def _check_steps(blob: npt.NDArray[np.uint8], steps: npt.NDArray[Any], kernels: Kernels) -> None:
    """Each has a known kind, for these kernels, and ends before the next."""
    lengths = np.zeros(max(kind.KIND for kind in _KINDS) + 1, np.int64)
    for kind in _KINDS:
        lengths[kind.KIND] = ctypes.sizeof(kind)
    starts = steps["start"].astype(np.int64)
    _check(bool(np.all(starts % _LINE == 0)) and bool(np.all(starts + 8 <= len(blob))), "steps")
    words = blob[: len(blob) // 4 * 4].view(np.int32)
    found = words[starts // 4]
    _check(bool(np.all((found > 0) & (found < len(lengths)))), "kinds")
    ends = np.append(starts[1:], len(blob))
    _check(bool(np.all(starts + lengths[found] <= ends)), "sizes")
    _check(bool(np.all(words[starts // 4 + 1] == int(kernels))), "kernels")


def _check(is_so: bool, what: str) -> None:
    if not is_so:
        raise FrozenError(f"{what} of a stored program do not fit")


@functools.cache
def _pointers(kind: type[ctypes.Structure]) -> tuple[tuple[int, bool], ...]:
    """Where a structure has pointers; those of odd surfaces may lead nowhere, where there is one surface."""
    found: list[tuple[int, bool]] = []
    fields: Sequence[tuple[str, Any]] = [(name, field) for name, field, *_ in kind._fields_]
    for name, field in fields:
        start = getattr(kind, name).offset
        if field is ctypes.c_void_p:
            found.append((start, False))
        elif issubclass(field, ctypes.Structure):
            found += [(start + offset, lost) for offset, lost in _pointers(field)]
        elif issubclass(field, ctypes.Array) and field._type_ is ctypes.c_void_p:
            is_cube = kind is structures.Cube
            found += [(start + _POINTER_BYTES * place, is_cube and place > 0) for place in range(field._length_)]
    return tuple(found)


def _flat(kept: object) -> list[object]:
    if isinstance(kept, list | tuple):
        return [one for entry in kept for one in _flat(entry)]
    return [kept]


_SECTIONS: dict[str, Any] = {
    "structures": np.dtype(np.uint8), "steps": _STEP, "pointers": _POINTER, "regions": _REGION,
    "data": np.dtype(np.uint8),
}  # fmt: skip
