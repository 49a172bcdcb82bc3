"""The NPU: decodes task streams into steps, and runs them.

Decoding happens once: registers, groups and tables are followed through the stream exactly as the hardware does, and
what each task does becomes a `Step`. A `Program` of steps can then run again and again on whatever is in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn import isa
from openrknn.chip.decoders import family_of
from openrknn.chip.limits import banks_in, broken_limit
from openrknn.chip.rk3588 import dpu_lut
from openrknn.chip.task_registers import Known, Registers
from openrknn.chip.watch import Watcher
from openrknn.chips import Chip
from openrknn.errors import (
    ExecutionError,
    HardwareLimitError,
    RknnError,
    UndeclaredBitsError,
    UnknownModeError,
    UnreadRegisterError,
)
from openrknn.isa import Block, Target
from openrknn.isa.ignored import Ignored, Kind, ignored_rule
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES, offset_of, parts_of, target_of, value_of
from openrknn.npu.memory import Memory
from openrknn.npu.runs import MANY_WORDS, PlainPlaces, Run, runs_of
from openrknn.npu.state import Core, CoreState
from openrknn.npu.task import (
    CONTRADICTIONS,
    Chained,
    Convolution,
    Flying,
    Pooling,
    Program,
    Step,
    TableLoad,
    TaskRef,
)
from openrknn.task import cna

_S_POINTER = 0x004
_BLOCK_OFFSET = 0xFFF
_ALL_BYTES = 0xFFFF_FFFF
_TASKS_AT_ONCE = 512
"""Whose words are taken apart together."""


_FLYING = {"DPU", "DPU_RDMA"}
_CHAINED = {"DPU", "DPU_RDMA", "PPU"}
_POOLING = {"PPU", "PPU_RDMA"}


class IgnoredNote(NamedTuple):
    """Something that strict mode refuses and boards are recorded to ignore."""

    task: int
    text: str
    run: str = ""
    """The recorded run that shows it."""


class Machine:
    """A software NPU of one chip over one memory. A `watcher` hears of everything that is decoded.

    What boards are recorded to ignore (`isa.ignored`) is noted in `findings`, and refused if `strict`. Whatever else
    the register table does not know is refused always: it may change a result.
    """

    def __init__(self, chip: Chip, memory: Memory, *, strict: bool = False, watcher: Watcher | None = None) -> None:
        self._family = family_of(chip)
        self.chip = chip
        self.memory = memory
        self.strict = strict
        self.findings: list[IgnoredNote] = []
        """What was ignored, as boards do; each thing once."""
        self._found: set[str] = set()
        self.noted: dict[str, IgnoredNote] = {}
        """What the last job that was decoded holds of it, found before or not."""
        self._map = isa.map_for(chip.name)
        self._cores = [Core(self._map) for _ in range(chip.cores)]
        self._watcher = Watcher() if watcher is None else watcher
        self._entries = _entries_of(self._map)
        self._places = None if type(self._watcher) is not Watcher else PlainPlaces(self._map, _is_plain)
        self._known = Known()

    def save(self, core: int) -> CoreState:
        """What the tasks decoded so far left in a core: registers, pointers, tables."""
        return self._cores[core].save()

    def restore(self, core: int, state: CoreState) -> None:
        """Put a core into a state that `save` saw."""
        self._cores[core].restore(state)

    def note(self, findings: Iterable[IgnoredNote]) -> None:
        """Add what a job holds that was decoded elsewhere; each thing is found once."""
        for finding in findings:
            if finding.text not in self._found:
                self._found.add(finding.text)
                self.findings.append(finding)

    def prepare(self, lists: Sequence[Sequence[TaskRef]]) -> Program:
        """Decode the task lists of cores that work together, list k for core k.

        Cores meet between operators: all tasks of one operator run before those of the next.
        """
        self.noted = {}
        steps: list[tuple[tuple[int, int, int], Step]] = []
        for number, tasks in enumerate(lists):
            for position, step in enumerate(self._decode(self._cores[number], tuple(tasks))):
                steps.append(((step.operator, number, position), step))
        if len(lists) > 1:
            steps.sort(key=lambda entry: entry[0])
        return Program([step for _, step in steps])

    def _decode(self, working: Core, tasks: Sequence[TaskRef]) -> Iterator[Step]:
        for first in range(0, len(tasks), _TASKS_AT_ONCE):
            self._known.clear()
            some = tasks[first : first + _TASKS_AT_ONCE]
            for task, runs in zip(some, self._runs(some), strict=True):
                try:
                    yield from self._task(working, task, runs)
                except ExecutionError as error:
                    error.task = task.number if error.task is None else error.task
                    error.operator = str(task.operator) if error.operator is None else error.operator
                    raise
                except RknnError:
                    raise
                except CONTRADICTIONS as error:
                    text = f"registers of this task contradict each other ({type(error).__name__}: {error})"
                    raise ExecutionError(text, task=task.number, operator=str(task.operator)) from error

    def _runs(self, tasks: Sequence[TaskRef]) -> Iterator[list[Run] | None]:
        """The words of each task in runs; None from the first task on whose words are not in memory."""
        words = []
        for task in tasks if self._places is not None else ():
            try:
                words.append(self._words(task))
            except ExecutionError:  # `_task` says so, after the tasks before it
                break
        yield from runs_of(words, self._places) if self._places is not None else ()
        yield from [None] * (len(tasks) - len(words))

    def _words(self, task: TaskRef) -> npt.NDArray[np.uint64]:
        return self.memory.view(task.address, (task.amount + TAIL_WORDS) * WORD_BYTES, "PC fetch").view(np.uint64)

    def _task(self, working: Core, task: TaskRef, runs: list[Run] | None) -> Iterator[Step]:
        written: set[int] = set()
        loads_table = False
        for run in runs if runs is not None else [Run(None, (), (), (), self._words(task))]:
            if run.block is not None:
                working.groups.bank(run.block).update(zip(run.offsets, run.values, strict=True))
                written.update(run.offsets)
                continue
            looked_at = zip(run.targets, run.offsets, run.values, strict=True)
            for target, offset, value in looked_at if run.words is None else self._parts(run.words):
                if isinstance(value, np.ndarray):
                    working.tables.store_all(value)
                    working.groups.write(self._map.by_target[target], offset, int(value[-1]))
                    written.add(offset)
                elif target == Target.ENABLE:
                    blocks = working.groups.enabled(value)
                    yield self._start(working, blocks, written, task, loads_table=loads_table)
                    working.groups.flip(blocks)
                    written = set()
                elif target not in _NOT_REGISTERS:
                    found = self._map.lookup(target, offset)
                    if found is None and self._is_ignored(target, offset, task):
                        continue
                    try:
                        has_value = self._write(working, found or self._lookup(target, offset), offset, value, task)
                    except (ExecutionError, isa.IsaError) as error:
                        if not self._watcher.failed(error, task):
                            raise
                        continue
                    if has_value:
                        written.add(offset)
                    # Ordinary tasks write these registers too, as zeros: reading entry 0.
                    loads_table |= offset == dpu_lut.LutAccessCfg.offset and dpu_lut.LutAccessCfg(value).lut_access_type

    def _parts(self, words: npt.NDArray[np.uint64]) -> Iterator[tuple[int, int, Any]]:
        """(target, offset, value) of each word; entries of a lookup table, of which there are many, as one array."""
        if len(words) < MANY_WORDS or self._entries is None or type(self._watcher) is not Watcher:
            yield from parts_of(words)
            return
        target, offset, undeclared = self._entries
        is_entry = (target_of(words) == target) & (offset_of(words) == offset)
        edges = [0, *(np.flatnonzero(is_entry[1:] != is_entry[:-1]) + 1).tolist(), len(words)]
        for start, end in itertools.pairwise(edges):
            values = value_of(words[start:end]).astype(np.int64) if is_entry[start] else None
            if values is None or np.any(values & undeclared):
                yield from parts_of(words[start:end])
            else:
                yield target, offset, values

    def _write(
        self, working: Core, place: tuple[Block, type[isa.Register]], offset: int, value: int, task: TaskRef
    ) -> bool:
        """Whether some block has to read the register; the pointers of the groups have been read here."""
        block, register = place
        self._watcher.wrote(register)
        undeclared = value & ~register.declared & 0xFFFFFFFF
        if undeclared:
            rule = self._rule(Kind.BITS, f"{block.name}.{register.name}")
            said = UndeclaredBitsError(f"bits {undeclared:#x} are set but not declared", register=register.name)
            self._object(said, task, rule if rule is not None and not undeclared & ~rule.bits else None)
        if offset & _BLOCK_OFFSET == _S_POINTER:
            working.groups.set_pointer(block, isa.common.SPointer(value))
            return False
        if block.enable_bit is None:  # the bus interface of the smaller chips: no result depends on its settings ...
            if register.name == "CFG_DMA_WSTRB" and value != _ALL_BYTES:  # ... but on this one
                raise UnknownModeError("writes that leave out bytes are not implemented", register=register.name)
            return False
        if offset == dpu_lut.LutAccessCfg.offset:
            working.tables.select(dpu_lut.LutAccessCfg(value))
        elif offset == dpu_lut.LutAccessData.offset:
            working.tables.store(value)
        working.groups.write(block, offset, value)
        return True

    def _lookup(self, target: int, offset: int) -> tuple[Block, type[isa.Register]]:
        found = self._map.lookup(target, offset)
        if found is None:
            raise UnknownModeError(f"target {target:#06x} has no register {offset:#06x}", register=f"{offset:#06x}")
        return found

    def _is_ignored(self, target: int, offset: int, task: TaskRef) -> bool:
        """Words for a target or a register that no block has, where boards are known to pass over them."""
        place = f"{target:#06x}"
        rule = self._rule(Kind.WORD, place) or self._rule(Kind.REGISTER, f"{place} {offset:#06x}")
        if rule is None:
            return False
        self._object(UnknownModeError(f"target {place} has no register {offset:#06x}", register=place), task, rule)
        return True

    def _rule(self, kind: Kind, place: str) -> Ignored | None:
        return ignored_rule(self.chip.family, kind, place)

    def _start(
        self, working: Core, blocks: list[Block], written: set[int], task: TaskRef, *, loads_table: bool
    ) -> Step:
        names = {block.name for block in blocks}
        tolerate = partial(self._tolerate, task)
        registers = Registers(
            working.groups.current(blocks), self.chip, self._map, memory=self.memory, watcher=self._watcher,
            tolerate=tolerate, known=self._known,
        )  # fmt: skip
        if loads_table and self._family.uses_table(registers):
            written -= {dpu_lut.LutAccessCfg.offset, dpu_lut.LutAccessData.offset}
            loads_table = False
        try:
            step = self._configure(names, registers, working, task, loads_table=loads_table)
        except (ExecutionError, isa.IsaError) as error:
            if not self._watcher.failed(error, task):
                raise
            return TableLoad(task.number, task.operator, self.memory)
        for offset in registers.unread(written):
            if not loads_table:
                name = self._name(offset)
                unread = UnreadRegisterError("it was written, but no block read it", register=name)
                block = name.partition(".")[0]
                self._object(unread, task, self._rule(Kind.IDLE, block) if block not in names else None)
        return step

    def _configure(
        self, names: set[str], registers: Registers, working: Core, task: TaskRef, *, loads_table: bool
    ) -> Step:
        place = (task.number, task.operator, self.memory)
        if loads_table:
            return TableLoad(*place)
        family = self._family
        pooled = family.array_pooling(registers) if family.array_pooling and names >= family.convolution else None
        if pooled is not None:
            return Pooling(*place, config=pooled)
        if names >= family.convolution:
            source = family.features(registers)
            self._check_limits(source, registers, task)
            return Convolution(
                *place,
                source=source,
                array=family.core(registers, source),
                dpu=family.dpu(registers, working.tables),
                reader=family.readers(registers) if "DPU_RDMA" in names else None,
                pooling=family.pooling(registers) if "PPU" in names else None,
            )
        if names == _FLYING:
            return Flying(*place, dpu=family.dpu(registers, working.tables), reader=family.readers(registers))
        if names == _CHAINED:
            return Chained(
                *place,
                dpu=family.dpu(registers, working.tables),
                reader=family.readers(registers),
                pooling=family.pooling(registers),
            )
        if names == _POOLING:
            return Pooling(*place, config=family.pooling(registers))
        raise UnknownModeError(f"the blocks {', '.join(sorted(names)) or 'none'} cannot work together")

    def _check_limits(self, source: cna.Config, registers: Registers, task: TaskRef) -> None:
        """Refuse what does not fit into the hardware, or hangs it."""
        cbuf = self.chip.cbuf
        if cbuf is None:
            return
        banks = banks_in(self.chip, {cbuf.register: registers.named("CNA").fields(cbuf.register)})
        if banks is None:
            return
        self._watcher.fetched(source, banks, task)
        limit = broken_limit(self.chip, source, banks)
        if limit is None:
            return
        error = HardwareLimitError(limit.text, task=task.number, operator=str(task.operator), register=limit.register)
        if not self._watcher.failed(error, task):
            raise error

    def _name(self, offset: int) -> str:
        for block in self._map.blocks:
            if offset in block.by_offset:
                return f"{block.name}.{block.by_offset[offset].name}"
        return f"{offset:#06x}"

    def _tolerate(self, task: TaskRef, error: ExecutionError, kind: Kind, place: str) -> None:
        """What a block may ignore if boards do."""
        self._object(error, task, self._rule(kind, place))

    def _object(self, error: ExecutionError, task: TaskRef, rule: Ignored | None = None) -> None:
        """Note what boards ignore (`rule`); refuse everything else, and if strict also that."""
        error.task = task.number
        if self._watcher.failed(error, task):
            return
        if self.strict or rule is None:
            raise error if rule is not None else _with_advice(error)
        text = f"{error.register}: {error.message}"
        if text not in self.noted:
            self.noted[text] = IgnoredNote(task.number, text, rule.run)
            self.note([self.noted[text]])


def _entries_of(registers: isa.RegisterMap) -> tuple[int, int, int] | None:
    """Target and offset of the register that fills lookup tables, and the bits that it does not declare."""
    offset = dpu_lut.LutAccessData.offset
    for target, block in registers.by_target.items():
        if offset in block.by_offset and block.enable_bit is not None:
            return int(target), offset, ~block.by_offset[offset].declared & _ALL_BYTES
    return None


def _with_advice(error: ExecutionError) -> ExecutionError:
    """Such an error is about knowledge that is missing here, and says who can bring it."""
    error.message = f"{error.message}. {_ADVICE}"
    return error


_ADVICE = (
    "Its effect is unknown, so the result could be wrong. Please open an issue at openrknn with the .rknn "
    "file, and with what `openrknn verify` prints on a board of this chip if you have one"
)
_NOT_REGISTERS = {Target.NOP, Target.SYNC, Target.PC}
_TABLES = {dpu_lut.LutAccessCfg.offset, dpu_lut.LutAccessData.offset}


def _is_plain(target: int, offset: int) -> bool:
    """Whether the value of a register is only kept until a block starts: no pointer, no entry of a lookup table."""
    is_register = target not in {*_NOT_REGISTERS, Target.ENABLE}
    return is_register and offset & _BLOCK_OFFSET != _S_POINTER and offset not in _TABLES
