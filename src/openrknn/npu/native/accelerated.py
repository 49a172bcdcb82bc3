"""A program on native kernels: structures for its steps, and runs of them as one call each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

import numpy as np

from openrknn.compute import native
from openrknn.compute.native import Kernels
from openrknn.errors import ExecutionError
from openrknn.nativelib.structures import StepStructure
from openrknn.npu.memory import Buffer, Memory
from openrknn.npu.native.context import KernelContext
from openrknn.npu.native.frozen import Frozen, freeze
from openrknn.npu.native.packs import Packs
from openrknn.npu.native.places import Extents, Places
from openrknn.npu.native.reading import RefusedError
from openrknn.npu.native.steps import build
from openrknn.npu.task import CONTRADICTIONS, Program, Step, TableLoad

_MACS_PER_CALL = 2_000_000_000
"""Python sees Ctrl-C between two calls."""
_ADDRESSES = 1 << 32
_PACKED_AT_ONCE = 16 << 20
"""Bytes of weights: they stay in memory until they are packed."""


def _marked(buffer: Buffer) -> bool:
    return buffer.constant


class _Call:
    """Steps that run in one call of the library."""

    def __init__(self, library: ctypes.CDLL, structures: Iterable[StepStructure], kept: Iterable[object]) -> None:
        self.structures, self.kept = tuple(structures), tuple(kept)
        self._pointers = (ctypes.c_void_p * len(self.structures))(*map(ctypes.addressof, self.structures))
        self._library = library

    def __call__(self) -> None:
        if self._library.openrknn_run(self._pointers, len(self._pointers)):
            raise MemoryError("no memory for intermediate results of the native kernels")


class Accelerated:
    """A program whose consecutive native steps run in one call."""

    def __init__(self, program: Program, memory: Memory, kernels: Kernels | None) -> None:
        self.program = program
        self.kernels = kernels
        """None: NumPy does everything."""
        self.reasons: dict[int, str] = {}
        """Why the step at this place of the program has no kernel."""
        self.meter: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered around each run, to measure the NPU's load."""
        self.reads: list[tuple[int, int]] = []
        """Addresses from which kernels read in each run, and where they end."""
        self._memory = memory
        self._buffers: list[Buffer] = []
        self._parts: list[Callable[[], None]] = [program.run]

    def frozen(self, buffers: Sequence[Buffer], packs: Packs | None = None) -> Frozen | None:
        """The whole as a value, if every step has a kernel and uses these buffers alone; see `frozen`."""
        known = set(buffers)
        calls = [part for part in self._parts if isinstance(part, _Call)]
        if len(calls) < len(self._parts) or not known.issuperset(self._buffers):
            return None
        return freeze([(call.structures, call.kept) for call in calls], buffers, packs.by_address() if packs else {})

    def run(self) -> None:
        """Execute every step."""
        for buffer in self._buffers:
            if self._memory.at(buffer.address, 1, buffer.name).data is not buffer.data:
                raise ExecutionError(f"the buffer {buffer.name!r} was mapped again; prepare the program again")
        with self.meter():
            for part in self._parts:
                part()


def accelerate(
    program: Program,
    memory: Memory,
    *,
    is_constant: Callable[[Buffer], bool] = _marked,
    kernels: Kernels | None = None,
    packs: Packs | None = None,
    constants_digest: bytes = b"",
    after_pack: Callable[[], None] | None = None,
) -> Accelerated:
    """Give each step of `program` its `native` where a kernel exists, and return the whole as one callable.

    `is_constant` tells buffers whose contents will not change between runs (those that are marked so): their weights
    are packed once. A name tells nothing: an input of a model may be called "weights". `kernels` is what
    `OPENRKNN_KERNELS` says, unless given. `packs` are weights that other programs packed: a digest of all constants
    tells whether they are the same. `after_pack` is called when the weights of some steps are packed.
    """
    library = native.load()
    chosen = native.choose() if kernels is None else kernels
    result = Accelerated(program, memory, chosen if library is not None else None)
    if library is None or chosen is None:
        return result
    context = KernelContext(library, chosen, packs, constants_digest)
    used: dict[int, Buffer] = {}
    written = Extents(extent for step in program.steps for extent in _written(step))
    structures: list[tuple[StepStructure, list[object]] | None] = []
    for number, step in enumerate(program.steps):
        structures.append(None)
        if isinstance(step, TableLoad):
            continue
        places = Places(memory, written, is_constant, used)
        try:
            structure = build(step, places, context)
        except (RefusedError, ExecutionError, *CONTRADICTIONS) as reason:
            # An error of the stream is NumPy's to raise, when the step runs.
            result.reasons[number] = str(reason)
            continue
        structures[number] = structure, places.kept
        result.reads += places.reads
        step.native = _Call(library, [structure], places.kept)
        if context.waiting_bytes >= _PACKED_AT_ONCE:
            context.pack_all()
            if after_pack is not None:
                after_pack()
    context.pack_all()
    result._buffers = list(used.values())
    result._parts = list(_parts(program.steps, structures, library))
    return result


def _written(step: Step) -> list[tuple[int, int]]:
    """Where a step writes; anywhere, if its registers contradict each other: what runs it says how."""
    try:
        return list(step.writes())
    except (ExecutionError, *CONTRADICTIONS):
        return [(0, _ADDRESSES)]


def _parts(
    steps: list[Step], structures: list[tuple[StepStructure, list[object]] | None], library: ctypes.CDLL
) -> Iterable[Callable[[], None]]:
    """Runs of native steps as one call each, others one by one."""
    macs = np.cumsum([step.macs for step in steps], dtype=np.int64)
    pairs = [
        (step, found, int(total) // _MACS_PER_CALL)
        for step, found, total in zip(steps, structures, macs, strict=True)
        if not isinstance(step, TableLoad)
    ]
    for (is_native, _), group in groupby(pairs, lambda pair: (pair[1] is not None, pair[2])):
        if is_native:
            found = [pair[1] for pair in group if pair[1] is not None]
            yield _Call(library, [structure for structure, _ in found], [kept for _, kept in found])
        else:
            yield from (step.perform for step, _, _ in group)
