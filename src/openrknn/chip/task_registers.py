"""The registers of one task, and which of them were read.

A register that a stream writes and that no block reads is a fact that this software does not know about. That is an
error, so every block has to read, or to waive by name, whatever a stream may write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from openrknn.chip.watch import Watcher
from openrknn.chips import Chip
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import BitPattern, Block, Precision, Register
from openrknn.isa.blocks import RegisterMap
from openrknn.isa.ignored import Kind
from openrknn.npu.memory import Memory
from openrknn.task.formats import is_float

__all__ = ["Known", "NamedRegisters", "Registers", "constant", "line_bytes", "multiplier", "pad_bits"]

T = TypeVar("T")
R = TypeVar("R", bound=Register)
Tolerate = Callable[[ExecutionError, Kind, str], None]
_GROUP_LINES = 4


def _refuse(error: ExecutionError, kind: Kind, place: str) -> None:
    raise error


class _Reading(NamedTuple):
    """What a part of the decoder read on one way through it."""

    asked: tuple[int, ...]
    """Offsets whose values decide about the result."""
    read: frozenset[int]
    """Offsets that count as read."""
    results: dict[tuple[int | None, ...], Any]


class Known:
    """What the tasks before a task say: tasks repeat most of their registers."""

    def __init__(self) -> None:
        self.values: dict[tuple[type[Register], int], Register] = {}
        """Each remembers what its fields say."""
        self.parts: dict[tuple[object, ...], list[_Reading]] = {}
        """Results of parts of the decoder; see `Registers.part`."""

    def clear(self) -> None:
        self.values.clear()
        self.parts.clear()


class Registers:
    """Values by offset, with a note of each read.

    `memory` is there for RK3576, whose registers point at small tensors with the rest of a task's description; they are
    read when the task is decoded, as its commands are. A `watcher` hears of every look. `tolerate` decides about what a
    block would rather refuse: it raises the error, or notes it. `known` is what was read of earlier tasks.
    """

    def __init__(
        self,
        values: Mapping[int, int],
        chip: Chip,
        blocks: RegisterMap,
        *,
        memory: Memory | None = None,
        watcher: Watcher | None = None,
        tolerate: Tolerate = _refuse,
        known: Known | None = None,
    ) -> None:
        self.chip = chip
        self._blocks = blocks
        self._values = values
        self._memory = memory
        self._watcher = Watcher() if watcher is None else watcher
        self._is_watched = type(self._watcher) is not Watcher
        self._read: set[int] = set()
        known = Known() if known is None else known
        self._known, self._parts = known.values, known.parts
        self._asked: set[int] | None = None
        """Offsets whose values were asked for, while a part is decoded; None: something else was, too."""
        self._tolerate = tolerate

    def part(self, decode: Callable[..., T], *arguments: Any) -> T:
        """`decode(self, *arguments)`, or what that was for an earlier task with the same values in what it read.

        Only results that follow from registers and arguments alone are known: where something is tolerated, read from
        memory or refused, it is decoded each time.
        """
        if self._is_watched:
            return decode(self, *arguments)
        ways = self._parts.setdefault((decode, *arguments), [])
        get = self._values.get
        for asked, read, results in ways:
            values = tuple(map(get, asked))
            if values in results:
                self._read |= read
                if self._asked is not None:
                    self._asked.update(asked)
                found: T = results[values]
                return found
        outer, self._asked = self._asked, set()
        before, self._read = self._read, set()
        try:
            result = decode(self, *arguments)
        finally:
            inner, self._asked = self._asked, outer
            read, self._read = frozenset(self._read), self._read | before
        if inner is None:  # set so by what `decode` did
            self._asked = None  # type: ignore[unreachable]
            return result
        if outer is not None:
            outer.update(inner)
        key = tuple(sorted(inner))
        same = next((one for one in ways if one.asked == key and one.read == read), None)
        if same is None:
            same = _Reading(key, read, {})
            ways.append(same)
        same.results[tuple(map(get, key))] = result
        return result

    def tolerate(self, error: ExecutionError, kind: Kind, place: str) -> None:
        """Decides about what a block would rather refuse."""
        self._asked = None
        self._tolerate(error, kind, place)

    @property
    def memory(self) -> Memory:
        self._asked = None
        if self._memory is None:
            raise UnknownModeError("a part of the task's description is in memory, which is not there")
        return self._memory

    def named(self, block: str) -> NamedRegisters:
        """The registers of a block by name."""
        return NamedRegisters(self, self._blocks.block(block))

    def read(self, register: type[R]) -> R:
        """The register's value in natural units; its reset value where the stream never wrote it."""
        offset = register.offset
        self._read.add(offset)
        if self._asked is not None:
            self._asked.add(offset)
        key = register, self._values.get(offset, register.reset)
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = register(key[1])
        return self._watcher.read(value) if self._is_watched else value  # type: ignore[return-value]

    def is_written(self, register: type[Register]) -> bool:
        """Whether anybody wrote the register since the reset."""
        if self._asked is not None:
            self._asked.add(register.offset)
        return register.offset in self._values

    def waive(self, *registers: type[Register]) -> None:
        """Registers that cannot change a result: bus settings, buffer division, timing, redundant sizes."""
        self._waive(register.offset for register in registers)

    def waive_unknown(self, block: Block) -> None:
        """Registers of a block whose meaning is unknown, as long as they are 0 or 1.

        Streams of the smaller chips write such registers with the same constants in every task.
        """
        self._asked = None
        self._waive(offset for offset, value in self._values.items() if block.covers(offset) and value in {0, 1})

    def _waive(self, offsets: Iterable[int]) -> None:
        waived = set(offsets)
        self._read |= waived
        self._watcher.waived(waived)

    def expect_zero(self, *registers: type[Register]) -> None:
        """Registers of features that no known program uses; anything but 0 is an unknown mode."""
        self._watcher.expects_zero(register.offset for register in registers)
        for register in registers:
            value = self.read(register)
            if int(value):
                raise UnknownModeError(f"{register.name} = {int(value):#x} is not implemented", register=register.name)

    def unread(self, written: Iterable[int]) -> list[int]:
        """The offsets in `written` that were not read."""
        return [offset for offset in written if offset not in self._read]


class NamedRegisters:
    """The registers of one block by name, for chips whose maps differ in places more than in meaning.

    RK3562, RK3576 and RV1103/06 have the same registers at other offsets; who reads them by name need not know where.
    """

    def __init__(self, registers: Registers, block: Block) -> None:
        self.registers = registers
        self.block = block
        self.chip = registers.chip

    def __call__(self, register: str, field: str) -> int:
        """The natural value of a field."""
        value: int = getattr(self.registers.read(self.block.by_name[register]), field)
        return value

    def fields(self, register: str) -> dict[str, int]:
        """The natural values of all fields."""
        return self.registers.read(self.block.by_name[register]).values()

    def bits(self, register: str) -> int:
        """The register as it was written."""
        return int(self.registers.read(self.block.by_name[register]))

    def precision(self, register: str, field: str) -> Precision:
        """A field that names a number format."""
        return Precision(self(register, field))

    def waive(self, *names: str) -> None:
        """Registers that cannot change a result."""
        self.registers.waive(*(self.block.by_name[name] for name in names))

    def expect_zero(self, *names: str) -> None:
        """Registers of features that no known program uses."""
        self.registers.expect_zero(*(self.block.by_name[name] for name in names))


def constant(bits: BitPattern, precision: Precision) -> float:
    """A 32-bit operand from a register."""
    return bits.float32 if is_float(precision) else bits.int32


def multiplier(bits: BitPattern, precision: Precision) -> float:
    """A 16-bit operand from a register."""
    if precision is Precision.BF16:
        return bits.bfloat16
    return bits.float16 if is_float(precision) else bits.int16


def pad_bits(value: int, precision: Precision) -> int:
    """One number for all channels; int8 keeps it in both lanes of RK3588's two-lane form."""
    return (value & 0xFF) * 0x0101 if precision is Precision.INT8 else value & 0xFFFF


def line_bytes(stride: int, atom_bytes: int, *, alone: bool, height: int, width: int) -> int:
    """Bytes from line to line of a tensor, from DMA_CON1 in atoms.

    Lines come one by one (`alone`), or four at a time: then the four lie behind one another, and DMA_CON1 says how far
    the next four are. A board reads tensors of up to four lines right whatever it says (RV1103, dnhkng/open-rknpu).
    """
    if alone:
        return stride * atom_bytes
    return width * atom_bytes if height <= _GROUP_LINES else stride * atom_bytes // _GROUP_LINES
