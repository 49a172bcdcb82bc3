"""From device addresses to pointers: checked once, with the walks that the NumPy code takes."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.nativelib.structures import Cube, Target
from openrknn.npu.memory import Buffer, Bytes, Memory, extent, pointer_to
from openrknn.npu.native.reading import RefusedError, ignore
from openrknn.task import rdma, write
from openrknn.task.formats import ATOM_BYTES


class Span(NamedTuple):
    """Addresses from `start` to before `end`, and the walk that goes through them."""

    start: int
    end: int
    walk: tuple[int, ...]


def refuse_overlap(shape: Sequence[int], steps: Sequence[int], atom: int = ATOM_BYTES) -> None:
    """For walks that come to a place twice: which write is the last depends on the order, and kernels have theirs."""
    end = atom
    for step, size in sorted((abs(step), size) for step, size in zip(steps, shape, strict=True) if size > 1):
        if step < end:
            raise RefusedError("a walk that writes some places twice")
        end += step * (size - 1)


class Extents:
    """Bytes from `start` on, `count` each; which of them overlap others is asked for every operand of a program."""

    def __init__(self, extents: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, count in sorted(extents):
            if count <= 0:
                continue
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], start + count)
            else:
                self._starts.append(start)
                self._ends.append(start + count)

    def overlaps(self, address: int, size: int) -> bool:
        """Whether one of them holds a byte of these."""
        place = bisect.bisect_left(self._starts, address + size) - 1
        return place >= 0 and address < self._ends[place]


class Places:
    """What one step reads and writes. Whatever a pointer leads to is kept alive by `kept`."""

    def __init__(
        self,
        memory: Memory,
        written: Extents,
        is_constant: Callable[[Buffer], bool],
        used: dict[int, Buffer],
    ) -> None:
        self.memory = memory
        self.kept: list[object] = []
        self._written = written
        self._is_constant = is_constant
        self._used = used
        self._reads: list[Span] = []
        self._main: list[Span] = []
        self._writes: list[Span] = []

    def keep(self, array: npt.NDArray[Any]) -> int:
        """The pointer to one of our own arrays."""
        self.kept.append(array)
        return pointer_to(array)

    def is_fixed(self, address: int, size: int) -> bool:
        """Whether these bytes never change: constants that no task writes."""
        if not self._is_constant(self.memory.at(address, size, "constants")):
            return False
        return not self._written.overlaps(address, size)

    @property
    def reads(self) -> list[tuple[int, int]]:
        """Addresses from which the step reads whenever it runs, and where they end."""
        return [(span.start, span.end) for span in (*self._reads, *self._main)]

    def look(self, address: int, size: int, what: str) -> Bytes:
        """Bytes that are not read after the step was made."""
        self._use(address)
        return self.memory.view(address, size, what)

    def read(self, address: int, size: int, what: str) -> Bytes:
        """Bytes that lie together."""
        self._use(address)
        self._reads.append(Span(address, address + size, ()))
        found = self.memory.view(address, size, what)
        self.kept.append(found)
        return found

    def read_strided(
        self, address: int, shape: Sequence[int], steps: Sequence[int], what: str, *, main: bool = False
    ) -> int:
        """The pointer to a walk that is read; `main` data can be copied before anything is written."""
        span = _span(address, shape, steps)
        pointer = self._pointer(address, self.memory.holding(span.start, span.end, what))
        (self._main if main else self._reads).append(span)
        return pointer

    def write_strided(self, address: int, shape: Sequence[int], steps: Sequence[int], what: str) -> int:
        """The pointer to a walk that is written."""
        span = _span(address, shape, steps)
        buffer = self.memory.holding(span.start, span.end, what, write=True)
        if not buffer.data.flags.writeable:
            raise RefusedError("the target is read-only")
        pointer = self._pointer(address, buffer)
        self._writes.append(span)
        return pointer

    def check_order(self, *, in_place: bool, operand_in_place: bool) -> Span | None:
        """NumPy reads everything before it writes; a kernel does not.

        `in_place`: each place of the result depends on the main data of that place alone (or of its surface, where a
        kernel copies that before it writes), so that work on the same walk is the same; `operand_in_place`: so does
        the operand. Main data that have to be copied before, or None.
        """
        reads = [(target, source) for target in self._writes for source in self._reads]
        if any(_collide(target, source, in_place=operand_in_place) for target, source in reads):
            raise RefusedError("what is written overlaps what is read")
        if not any(_collide(target, source, in_place=in_place) for target in self._writes for source in self._main):
            return None
        span = Span(min(span.start for span in self._main), max(span.end for span in self._main), ())
        self.memory.at(span.start, span.end - span.start, "main data")
        return span

    def cube(
        self, walk: rdma.Walk, shape: tuple[int, int, int], what: str, *, main: bool = False, atom: int = ATOM_BYTES
    ) -> Cube:
        """[surface, row, column] of atoms."""
        steps = (walk.surface_bytes, walk.line_bytes, atom, 1)
        base = self.read_strided(walk.address, (*shape, atom), steps, what, main=main)
        step = walk.surface_bytes
        return Cube((base, base + step), (2 * step, 2 * step), (walk.line_bytes, walk.line_bytes))

    def combined_cube(
        self, even: rdma.Walk, odd: rdma.Walk, shape: tuple[int, int, int], *, main: bool = False
    ) -> Cube:
        """Even surfaces from one walk, odd ones from another."""
        count, height, width = shape
        first = self.cube(even, ((count + 1) // 2, height, width), "MRDMA", main=main)
        second = first.base[0]
        if count <= 1:
            ignore(odd, "address")
        else:
            second = self.cube(odd, (count // 2, height, width), "ERDMA", main=main).base[0]
        return Cube(
            (first.base[0], second), (even.surface_bytes, odd.surface_bytes), (even.line_bytes, odd.line_bytes)
        )

    def target(self, config: write.Config, *, pixels: int, count: int, valid: int) -> Target:
        """The walk of the write DMA for `count` atoms of each pixel, of which the first `valid` carry data."""
        if config.packed_bytes is not None:
            size = pixels * count * config.packed_bytes
            if config.packed_run_bytes is not None or config.spread_run_bytes is not None:
                raise RefusedError("packed output in runs")
            if config.packed_limit_bytes is not None and config.packed_limit_bytes < size:
                raise RefusedError("packed output that ends before its data")
            base = self.write_strided(config.address, (size,), (1,), "DPU packed write")
            target = self._target(config, base, pixels=pixels, atoms=count, packed=config.packed_bytes)
            target.per_pixel = config.per_pixel if count % config.per_pixel == 0 else 1
            return target
        each, area = config.per_pixel, config.width * config.height
        if pixels != area:
            if count % each:
                raise RefusedError("atoms that were not computed are written")
            groups = -(-count // each * pixels // area)
            base = self._walk(config, 0, groups, each)
            return self._target(config, base, pixels=pixels, atoms=count)
        atoms = min(valid, count)
        whole, rest = divmod(atoms, each)
        bases = [self._walk(config, 0, whole, each)] if whole else []
        if rest:
            bases.append(self._walk(config, whole, 1, rest) - whole * config.group_step_bytes)
        if not bases:
            raise RefusedError("nothing is written")
        return self._target(config, bases[0], pixels=pixels, atoms=atoms)

    def stream(self, config: write.Config, count: int) -> Target:
        """The walk of the write DMA for a stream of `count` atoms that is not regrouped."""
        group = config.per_pixel * config.width * config.height
        base = self._walk(config, 0, -(-count // group), config.per_pixel)
        return self._target(config, base, pixels=config.width * config.height, atoms=0)

    def _walk(self, config: write.Config, first: int, count: int, atoms: int) -> int:
        shape = (count, config.height, config.width, atoms, config.atom_bytes)
        steps = (config.group_step_bytes, config.line_bytes, config.atom_bytes, config.atom_step_bytes, 1)
        if _meets_itself(shape, steps):  # what comes last must win, and kernels have no order (softmax of RV1106)
            raise RefusedError("places that are written twice")
        return self.write_strided(config.address + first * config.group_step_bytes, shape, steps, "DPU write")

    @staticmethod
    def _target(config: write.Config, base: int, *, pixels: int, atoms: int, packed: int = 0) -> Target:
        return Target(
            base=base,
            line=config.line_bytes,
            atom_step=config.atom_step_bytes,
            group_step=config.group_step_bytes,
            per_pixel=config.per_pixel,
            width=config.width,
            height=config.height,
            pixels=pixels,
            atoms=atoms,
            packed=packed,
        )

    def _use(self, address: int) -> None:
        buffer = self.memory.at(address, 1, "buffer")
        self._used[buffer.address] = buffer

    def _pointer(self, address: int, buffer: Buffer) -> int:
        """To the begin of a walk; the buffer holds all of it."""
        self._used[buffer.address] = buffer
        self.kept.append(buffer.data)
        return pointer_to(buffer.data) + address - buffer.address


def _span(address: int, shape: Sequence[int], steps: Sequence[int]) -> Span:
    if min(shape) < 1:
        raise RefusedError("a walk of no bytes")
    start, end = extent(address, shape, steps)
    # One surface is the same walk whatever the distance to the next; rows without gaps are one long row.
    walk = tuple(_compact([(size, step) for size, step in zip(shape, steps, strict=True) if size > 1]))
    return Span(start, end, (address, *walk))


def _collide(target: Span, source: Span, *, in_place: bool) -> bool:
    """Whether writing one may destroy what is still to be read of the other."""
    if source.start >= target.end or target.start >= source.end:
        return False
    return not in_place or source.walk != target.walk


def _meets_itself(shape: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether a walk may come to a place twice: a step that is shorter than what the smaller steps cover."""
    covered = 1
    for step, size in sorted((abs(step), size) for size, step in zip(shape, steps, strict=True) if size > 1):
        if step < covered:
            return True
        covered += (size - 1) * step
    return False


def _compact(axes: Iterable[tuple[int, int]]) -> list[int]:
    """Axes that continue each other are one."""
    merged: list[tuple[int, int]] = []
    for size, step in axes:
        if merged and merged[-1][1] == size * step:
            size *= merged.pop()[0]  # noqa: PLW2901
        merged.append((size, step))
    return [number for axis in merged for number in axis]


def padded(values: npt.NDArray[Any], dtype: type[np.generic], count: int) -> npt.NDArray[Any]:
    """The values as `dtype`, filled up with zeros."""
    result = np.zeros(count, dtype)
    result[: len(values)] = values
    return result
