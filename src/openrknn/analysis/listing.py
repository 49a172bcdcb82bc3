"""A graph's tasks and commands, annotated: which operator, which tensor's address, which task comes next.

The text form is that of `openrknn.isa.parse_text`: everything else is in comments, so a listing assembles back to the
words it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from openrknn.chip.maps import map_for
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, Relocation, Task
from openrknn.isa import Instruction, RegisterMap, UnknownCode, disassemble, format_instruction
from openrknn.isa.common import Unknown
from openrknn.isa.words import TAIL_WORDS, Target, place_of

_BASE_ADDRESS = 0x0010


@dataclass(frozen=True, slots=True)
class TaskHead:
    """What stands above the commands of a task."""

    number: int
    list_label: str
    operator: int
    operator_type: str
    operator_name: str
    enable_mask: int
    blocks: tuple[str, ...]
    first_command: int
    amount: int
    """Commands of the body; four more follow."""
    missing: int
    """Commands that the record announces and the file does not have."""
    is_delta: bool
    """Writes only some of the registers that an earlier task of the operator wrote; the others keep their values."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command with its notes."""

    index: int
    """Among all commands of the graph."""
    word: int
    instruction: Instruction
    text: str
    relocation: Relocation | None
    next_task: int | None
    notes: tuple[str, ...]
    """Where an address leads, and who else writes the register."""
    alarms: tuple[str, ...]
    """What the register table does not explain."""


class Listing:
    """The tasks of one graph, in words."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model = model
        self.graph = graph
        self.map: RegisterMap = map_for(model.chip)
        self._known: dict[int, tuple[Instruction, str, tuple[str, ...]]] = {}

    def head(self, number: int, list_label: str, *, is_delta: bool) -> TaskHead:
        """What task `number` is."""
        task = self.graph.tasks[number]
        nodes = self.graph.nodes
        node = nodes[task.op_index] if task.op_index < len(nodes) else None
        return TaskHead(
            number=number,
            list_label=list_label,
            operator=task.op_index,
            operator_type=node.type if node else "not in the graph",
            operator_name=node.name if node else "",
            enable_mask=task.enable_mask,
            blocks=self._blocks(task.enable_mask),
            first_command=task.first_command,
            amount=task.amount,
            missing=task.amount + TAIL_WORDS - len(self.graph.task_words(task)),
            is_delta=is_delta,
        )

    def entries(self, number: int) -> Iterator[Entry]:
        """The commands of task `number`, the four closing ones included."""
        task = self.graph.tasks[number]
        for index, word in enumerate(self.graph.task_words(task), start=task.first_command):
            instruction, text, alarms = self._decode(word)
            relocation = self._relocations.get(index)
            following = self._next_task(instruction)
            yield Entry(
                index=index,
                word=word,
                instruction=instruction,
                text=text,
                relocation=relocation,
                next_task=following,
                notes=tuple(self._notes(index, relocation, following)),
                alarms=alarms,
            )

    def deltas(self, numbers: range) -> frozenset[int]:
        """The tasks of a list that hold only what differs from an earlier task of the same operator."""
        seen: dict[tuple[int, int], list[frozenset[int]]] = {}
        found = set()
        for number in numbers:
            task = self.graph.tasks[number]
            written = self._written(task)
            earlier = seen.setdefault((task.op_index, task.enable_mask), [])
            if any(written < other for other in earlier):
                found.add(number)
            elif written not in earlier:
                earlier.append(written)
        return frozenset(found)

    def _written(self, task: Task) -> frozenset[int]:
        """Target and offset of every command in the body."""
        return frozenset(place_of(word) for word in self.graph.task_words(task, tail=False))

    def _decode(self, word: int) -> tuple[Instruction, str, tuple[str, ...]]:
        """Streams repeat themselves: most words were seen before."""
        known = self._known.get(word)
        if known is None:
            instruction = disassemble((word,), self.map)[0]
            known = self._known[word] = (instruction, format_instruction(instruction), _alarms(instruction))
        return known

    def _blocks(self, mask: int) -> tuple[str, ...]:
        named = {block.enable_bit: block.name for block in self.map.blocks if block.enable_bit is not None}
        return tuple(named.get(bit, f"?bit{bit}") for bit in range(mask.bit_length()) if mask >> bit & 1)

    def _next_task(self, instruction: Instruction) -> int | None:
        if instruction.target != Target.PC or instruction.offset != _BASE_ADDRESS:
            return None
        return self._by_address.get(instruction.value)

    def _notes(self, index: int, relocation: Relocation | None, following: int | None) -> Iterator[str]:
        if relocation is not None:
            yield f"-> {relocation.tensor}" + (f" + {relocation.addend:#x}" if relocation.addend else "")
            if relocation.tensor in self._tables:
                yield "(a table: reads and writes the commands themselves, in place)"
        if following is not None:
            yield f"-> task {following}"
        if index in self._patched:
            yield f"(patched for input {self._patched[index]})"

    @cached_property
    def _relocations(self) -> Mapping[int, Relocation]:
        return {entry.command: entry for group in self.graph.relocations for entry in group}

    @cached_property
    def _by_address(self) -> Mapping[int, int]:
        return {task.address: number for number, task in enumerate(self.graph.tasks)}

    @cached_property
    def _tables(self) -> frozenset[str]:
        return frozenset(tensor.name for tensor in self.graph.tensors if tensor.kind is Kind.LUT)

    @cached_property
    def _patched(self) -> Mapping[int, str]:
        patches = (*self.graph.image_patches, *self.graph.convert_patches)
        return {slot.command: patch.input for patch in patches for slot in patch.slots if slot is not None}


def _alarms(instruction: Instruction) -> tuple[str, ...]:
    if instruction.register is None:
        return ("unknown register",)
    if issubclass(instruction.register, Unknown) and instruction.value:
        return ("meaning unknown",)
    if instruction.is_known:
        return ()
    alarms = [f"undeclared bits {instruction.undeclared:#x}"] if instruction.undeclared else []
    codes = [name for name, value in instruction.values.items() if isinstance(value, UnknownCode)]
    return (*alarms, *(f"unknown code in {name}" for name in codes))
