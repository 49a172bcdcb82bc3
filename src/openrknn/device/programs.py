"""Jobs of the software NPU, decoded and on native kernels: made now, or as a process before this one left them.

Decoding a network and packing its weights takes ten times as long as running it, and gives the same each time. So what
came out is kept in the user's cache (`openrknn.cachefiles`), after it ran once, under a key of everything that it was
made from: the words of the tasks, the digest of the constants, the address and size of every buffer, what earlier jobs
left in the cores, chip and strictness, kernels and processor, and the code that makes it. A program is kept only if
native kernels do all of it; weights that several programs of a model use are in the file of the first of them. It comes
back with the notes of the decoder and its demands, so that results are identical: a budget that it does not
meet has it decoded again, for the same error.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import os
import platform
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from openrknn import collecting
from openrknn.cachefiles import Entry, FileCache, code_state
from openrknn.chip import FAMILIES
from openrknn.chips import Chip
from openrknn.compute import native
from openrknn.device.protocol import Job
from openrknn.errors import ExecutionError
from openrknn.folders import cache_base
from openrknn.isa import TAIL_WORDS
from openrknn.isa.words import WORD_BYTES
from openrknn.npu.budget import demand
from openrknn.npu.memory import Buffer, Memory
from openrknn.npu.native.frozen import FrozenError, Thawed, thaw
from openrknn.npu.native.packs import Packs

if TYPE_CHECKING:
    from openrknn.npu.machine import IgnoredNote, Machine
    from openrknn.npu.native import Accelerated

__all__ = ["CACHE", "Programs", "Ready"]

_CODE = ("chips.py", "numerics.py", "npu", "chip", "task", "isa", "nativelib", "compute", "device", "layout")
"""What makes programs, in the package."""
CACHE = FileCache("programs", most_bytes=4 << 30)
_FETCHED_BYTES = 32 << 20
"""Of constants stay while others are packed: the tasks of an operator share its weights."""
_FORMAT = 2
"""Of what is kept; another number, another key."""


class Ready:
    """A job that is ready to run."""

    def __init__(
        self, program: Accelerated | Thawed, memory: Memory, buffers: Sequence[Buffer], operations: int
    ) -> None:
        self.operations = operations
        """Of one run; see `Budget`."""
        self.meter: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered around each run, to measure the NPU's load."""
        self.after_first: Callable[[], None] | None = None
        """Called once, when a run succeeded."""
        self._program, self._memory, self._buffers = program, memory, buffers
        self._found_at = -1
        """After how many changes of the memory all buffers were where they should be."""

    def run(self) -> None:
        """Execute every step."""
        changes = self._memory.changes
        if changes != self._found_at:
            for buffer in self._buffers:
                if self._memory.at(buffer.address, 1, buffer.name).data is not buffer.data:
                    raise ExecutionError(f"the buffer {buffer.name!r} was mapped again; prepare the program again")
            self._found_at = changes
        with self.meter():
            self._program.run()
        keep, self.after_first = self.after_first, None
        if keep is not None:
            keep()


class Programs:
    """The jobs of one software NPU, one after another: the caller holds a lock.

    The decoder is there from the first job on that has to be decoded: it takes longer to import than a job to come from
    the cache.
    """

    def __init__(self, chip: Chip, memory: Memory, *, strict: bool) -> None:
        self._chip, self._memory, self._strict = chip, memory, strict
        self._decoder: Machine | None = None
        self._left = b""
        """What the last job would have left in the cores, where it came from the cache."""
        self._noted: list[tuple[int, str, str]] = []
        """Findings of jobs that came from the cache."""
        self._packs = Packs()
        self._files: weakref.WeakValueDictionary[str, npt.NDArray[np.uint8]] = weakref.WeakValueDictionary()
        """Data of files of the cache that are in memory, by key."""
        if chip.family not in FAMILIES:
            self._machine()  # says which chips it knows

    @property
    def findings(self) -> tuple[IgnoredNote, ...]:
        """What the programs so far hold that boards are recorded to ignore."""
        return tuple(self._machine().findings) if self._noted or self._decoder is not None else ()

    def prepare(self, job: Job) -> Ready:
        """Decode the tasks into a program on native kernels, or find it."""
        constants = {_mapped(buffer) for buffer in job.constants}
        buffers = [_mapped(buffer) for buffer in dict.fromkeys((*(job.buffers or ()), *job.constants))]
        key = self._key(job, constants, buffers)
        entry = CACHE.read(key) if key else None
        found = self._found(key, entry, job, buffers) if entry is not None else None
        return found or self._made(job, constants, buffers, key)

    def _machine(self) -> Machine:
        """The decoder, with everything noted that came from the cache."""
        if self._decoder is None:
            from openrknn.npu.machine import Machine

            self._decoder = Machine(self._chip, self._memory, strict=self._strict)
        if self._noted:
            from openrknn.npu.machine import IgnoredNote

            self._decoder.note([IgnoredNote(*noted) for noted in self._noted])
            self._noted.clear()
        return self._decoder

    @collecting.paused()
    def _made(self, job: Job, constants: set[Buffer], buffers: list[Buffer], key: str) -> Ready:
        from openrknn.npu.native import accelerate
        from openrknn.npu.state import CoreState
        from openrknn.npu.task import TaskRef

        machine = self._machine()
        if self._left:
            for core, text in enumerate(self._left.decode().splitlines()):
                machine.restore(core, CoreState.from_text(text))
            self._left = b""
        with _LateReads(job, self._memory) as late:
            program = machine.prepare([[TaskRef(*task) for task in tasks] for tasks in _tasks(job)])
            job.budget.check(program.steps, natively=True)  # before anything is decompressed or packed
            prepared = accelerate(
                program, self._memory, is_constant=constants.__contains__, packs=self._packs,
                constants_digest=job.constants_digest, after_pack=late.after_pack,
            )  # fmt: skip
            reads = late.keep(prepared)
        ready = Ready(prepared, self._memory, (), job.budget.check(program.steps))
        if key and not prepared.reasons:
            most = max((demand(step, natively=True).memory for step in program.steps), default=0)
            meta = {"operations": ready.operations, "memory": most, "findings": list(machine.noted.values())}
            left = self.state()

            def keep() -> None:
                frozen = prepared.frozen(buffers, self._packs)
                if frozen is None:
                    return
                said = {**meta, "others": frozen.others, "packs": frozen.packs, "reads_constants": reads}
                if CACHE.write(key, said, {**frozen.sections(), "left": left}):
                    self._packs.written(key, frozen.packs)

            ready.after_first = keep
        return ready

    def _found(self, key: str, entry: Entry, job: Job, buffers: list[Buffer]) -> Ready | None:
        library, kernels = native.load(), native.choose()
        try:
            operations, memory = int(entry.meta["operations"]), int(entry.meta["memory"])
            noted = [(int(task), str(text), str(run)) for task, text, run in entry.meta["findings"]]
            left = bytes(entry.sections["left"])
            if not (_allows(job.budget.work, operations) and _allows(job.budget.memory, memory)):
                return None
            if library is None or kernels is None:
                return None
            others = [self._data(str(other)) for other in entry.meta["others"]]
            program = thaw(entry.sections, buffers, library, kernels, others)
            self._packs.found(key, program.data, entry.meta["packs"])
            self._files[key] = program.data
            if job.late is not None:
                job.late.complete({int(start) for start in entry.meta["reads_constants"]})
        except (FrozenError, KeyError, TypeError, ValueError):
            return None
        self._noted += noted
        self._left = left
        return Ready(program, self._memory, buffers, operations)

    def _data(self, key: str) -> npt.NDArray[np.uint8]:
        """What another file of the cache has stored."""
        known = self._files.get(key)
        if known is None:
            entry = CACHE.read(key)
            if entry is None:
                raise FrozenError("another file of the cache is gone")
            known = np.frombuffer(entry.sections["data"], np.uint8)
            self._files[key] = known
        return known

    def _key(self, job: Job, constants: set[Buffer], buffers: list[Buffer]) -> str:
        """Of everything that the program depends on; empty where nothing is to be kept."""
        kernels = native.choose() if job.constants_digest and job.buffers is not None and cache_base() else None
        if kernels is None:
            return ""
        said: list[object] = [kernels.name, self._chip.name, self._strict]
        said += [(one.address, one.data.nbytes, bool(one.data.flags.writeable), one in constants) for one in buffers]
        said += [] if job.late is None else job.late.ranges  # what is kept names those that are read
        lists = _tasks(job)
        digest = hashlib.sha256(repr((_circumstances(), said, lists)).encode())
        digest.update(hashlib.sha256(self.state()).digest())
        digest.update(hashlib.sha256(job.constants_digest).digest())
        try:
            for tasks in lists:
                for _, address, amount, _ in tasks:
                    size = (amount + TAIL_WORDS) * WORD_BYTES
                    digest.update(self._memory.view(address, size, "PC fetch").data)
        except ExecutionError:  # the decoder says it better
            return ""
        return digest.hexdigest()

    def state(self) -> bytes:
        """What the jobs so far left in the cores, a line each; empty before the first job."""
        if self._left or self._decoder is None:
            return self._left
        return "\n".join(self._decoder.save(core).to_text() for core in range(self._chip.cores)).encode()


class _LateReads:
    """Copies constants when the decoder or the packing of weights asks for them, and drops those that were packed."""

    def __init__(self, job: Job, memory: Memory) -> None:
        self._late = job.late if job.late is not None and job.late.ranges else None
        self._buffer = _mapped(job.constants[0]) if self._late is not None else None
        self._memory = memory

    def __enter__(self) -> _LateReads:
        if self._late is not None:
            self._memory.before_access = self._fetch
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.before_access = None
        if self._late is not None:
            self._late.trim()

    def _fetch(self, address: int, size: int) -> None:
        start = address - self._buffer.address if self._buffer is not None else 0
        if self._late is not None and self._buffer is not None and -size < start < self._buffer.data.nbytes:
            self._late.fetch(start, start + size)

    def after_pack(self) -> None:
        if self._late is not None:
            self._late.trim(_FETCHED_BYTES)

    def keep(self, prepared: Accelerated) -> list[int]:
        """Have what runs will read stay in memory; the starts of those constants."""
        if self._late is None or self._buffer is None:
            return []
        ranges, base = self._late.ranges, self._buffer.address
        found: set[int] = set()
        for start, end in set(prepared.reads):
            for number in range(bisect.bisect_right(ranges, start - base, key=lambda one: one[1]), len(ranges)):
                if ranges[number][0] >= end - base:
                    break
                found.add(ranges[number][0])
        self._late.complete(None if prepared.reasons else found)  # NumPy reads whatever its steps ask for
        return sorted(found)


def _tasks(job: Job) -> list[list[tuple[int, int, int, int]]]:
    """Number, address, commands and operator of the tasks of each core."""
    tasks = job.tasks
    return [[(one, tasks[one].address, tasks[one].amount, tasks[one].op_index) for one in list_] for list_ in job.lists]


def _mapped(buffer: object) -> Buffer:
    """Drivers know their own buffers, which the base has checked."""
    return cast("Buffer", getattr(buffer, "mapped"))  # noqa: B009 - the protocol does not have it


def _allows(limit: int | None, asked: int) -> bool:
    return limit is None or asked <= limit


@functools.cache
def _circumstances() -> tuple[object, ...]:
    """Processor, versions, and the code that makes programs: in a checkout it changes without a new version."""
    package = sys.modules["openrknn"]  # not imported: the face of the package is above this layer
    library, root = native.find(), os.path.dirname(str(package.__file__))
    state = code_state(root, _CODE, [] if library is None else [str(library)])
    numbers = (_FORMAT, native.ABI_VERSION, native.cpu_features().value)
    return (package.__version__, np.__version__, platform.machine(), sys.byteorder, *numbers, state)
