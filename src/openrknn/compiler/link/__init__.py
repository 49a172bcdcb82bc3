"""Stage 8, link: tasks of all steps in one stream, each leading to the next; relocations and patches by place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from openrknn import isa
from openrknn.compiler.errors import UnsupportedOperatorError, about
from openrknn.compiler.link.emit import Commands, emit_task
from openrknn.compiler.program import Place, Program, Table, Task, Tensor
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.container.parts import DataType, Kind
from openrknn.isa.errors import EncodingError
from openrknn.isa.words import amounts_word, link_word, tail_words
from openrknn.task.kinds import Pooling, Work

__all__ = ["Linked", "LinkedTask", "append", "chain", "cleared", "kept_commands", "link", "link_copies", "load_tasks"]

_STREAM_ALIGNMENT = 8
"""Words: streams start at multiples of 64 bytes."""


@dataclass(slots=True)
class LinkedTask:
    """One task record."""

    step: int
    mask: int
    interrupts: int
    first_word: int
    amount: int
    task: Task
    places: dict[int, int]
    core: int = 0
    is_meeting: bool = False
    """Nothing but a place for cores to meet."""


@dataclass(slots=True)
class Linked:
    """The stream of a program."""

    words: list[int] = field(default_factory=list)
    tasks: list[LinkedTask] = field(default_factory=list)
    """Each once, in the order of the stream."""
    lists: list[list[LinkedTask]] = field(default_factory=list)
    """The task lists: for one core, two cores (0, 1), three cores (0, 1, 2); steps of core 0 are in several."""
    relocations: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Tensor -> (bytes into it, number of the word)."""
    cores: dict[int, int] = field(default_factory=dict)
    """Number of a word with a relocation -> the core that it is for, unless that is core 0."""
    table_tasks: dict[int, int] = field(default_factory=dict)
    """Step -> tasks in it that load a table."""
    words_per_fetch: int = 2

    @property
    def records(self) -> list[LinkedTask]:
        """The lists one after the other, as the file has them."""
        return [entry for tasks in self.lists for entry in tasks]


def link(program: Program, tables: dict[str, Table]) -> Linked:
    """Emit all tasks in order."""
    linked = Linked(words_per_fetch=program.target.registers.words_per_fetch)
    before: dict[int, list[tuple[Task, Commands]]] = {}
    for number, task, loads in _tasks(program, tables):
        if loads:
            linked.table_tasks[number] = linked.table_tasks.get(number, 0) + 1
        step = program.steps[number]
        with about(step.name, *step.fused, *step.outputs):
            commands = _emitted(task, program)
        earlier = before.setdefault(number, [])
        is_plain = not loads and task.picture is None and number not in linked.table_tasks
        append(linked, number, task, kept_commands(earlier, task, commands) if is_plain else commands)
        earlier.append((task, commands))
    chain(linked, linked.tasks)
    linked.lists.append(list(linked.tasks))
    return linked


def kept_commands(earlier: Sequence[tuple[Task, Commands]], task: Task, commands: Commands) -> Commands:
    """Without what is there already; `earlier` are the tasks of the same step before this one.

    Two register groups take turns: what the last task but one wrote is still there, if the same blocks took part in
    both since.
    """
    is_alike = len(earlier) > 1 and all(_kind(other.work) == _kind(task.work) for other, _ in earlier[-2:])
    return commands.without(earlier[-2][1]) if is_alike else commands


def _kind(work: Work) -> tuple[type[Work], bool]:
    """The same: the same blocks work."""
    return type(work), isinstance(work, Pooling) or work.reader is not None


def _emitted(task: Task, program: Program) -> Commands:
    try:
        return emit_task(task, program)
    except EncodingError as error:
        raise UnsupportedOperatorError(_beyond(str(error))) from error


def _beyond(text: str) -> str:
    """A value that a register does not hold: a size, or a factor between two scales."""
    if "CVT" in text.upper():
        return (
            f"two scales of the model are too far apart for the NPU: {text}. An operator's results are far smaller in "
            "calibration than what it adds up: calibrate with data as in real use, or keep it fp16 (--fp16-layers)"
        )
    return (
        f"a size in the model is beyond a register of the NPU: {text}. Cut the model before what is so large "
        "(--outputs NAME; a detector: --outputs heads), or choose smaller input shapes"
    )


def link_copies(program: Program, linked: Linked, cores: int) -> None:
    """The one-core list again for each of the other cores, where they use other parts of what cores share."""
    if program.target.on_core is None:
        return
    for core in range(1, cores):
        copies = []
        for entry in list(linked.lists[0]):
            commands = emit_task(entry.task, program, core)
            copies.append(append(linked, entry.step, entry.task, commands, core))
        chain(linked, copies)
        linked.lists.append(copies)
    if cores > 1:  # nothing is shared yet: the list for all of them is that of the first
        linked.lists += [list(linked.lists[0]), *([] for _ in range(1, cores))]


def _tasks(program: Program, tables: dict[str, Table]) -> Iterator[tuple[int, Task, bool]]:
    """Tasks with the number of their step, and before the first user of a table the task that loads it.

    A step that loads a table runs without ping-pong, as the vendor's do: its tasks start from cleared pointers.
    """
    loaded: str | None = None
    for number, step in enumerate(program.steps):
        if not step.tasks:
            continue
        changes = step.table is not None and step.table != loaded
        if changes and step.table is not None:
            loaded = step.table
            for task in load_tasks(program, tables[loaded]):
                yield number, task, True
        for task in step.tasks:
            yield number, cleared(task) if changes else task, False


def cleared(task: Task) -> Task:
    """The task as it runs behind a freshly loaded table, if it uses the table."""
    if isinstance(task.work, Pooling) or task.work.dpu.element_wise is None:
        return task
    if task.work.dpu.element_wise.table is None:
        return task
    return replace(task, work=replace(task.work, is_first=True))


def load_tasks(program: Program, table: Table) -> list[Task]:
    """Copies one atom of scratch memory onto itself; what counts are the table's words behind its registers."""
    name = "lut_scratch"
    if name not in program.tensors:
        program.tensors[name] = Tensor(
            name, Kind.WEIGHT, DataType.INT8, (64,), "data", native_shape=(64,), data=bytes(64), size_bytes=64,
            atom_bytes=program.target.atom_bytes,
        )  # fmt: skip
    cube = Cube(Place(name), 1)
    form = program.target.int8
    copy = elementwise_task(form, (form.atom, 1, 1), cube, cube)
    parts = ((0,), (1,)) if program.target.halves_in_tasks else ((0, 1),)
    return [Task(copy, table, halves=halves) for halves in parts]


def append(
    linked: Linked, step: int, task: Task, commands: Commands, core: int = 0, *, is_meeting: bool = False
) -> LinkedTask:
    """One more task in the stream."""
    linked.words += [isa.NOP_WORD] * (-len(linked.words) % _STREAM_ALIGNMENT)
    first = len(linked.words)
    for word, place in commands.relocations:
        linked.relocations.setdefault(place.tensor, []).append((place.offset, first + word))
        if core:
            linked.cores[first + word] = core
    mask = commands.mask
    linked.words += commands.words
    linked.words += tail_words(mask)
    places = {offset: first + word for offset, word in commands.places.items()}
    interrupts = 0xC00 if isinstance(task.work, Pooling) else 0x300
    made = LinkedTask(step, mask, interrupts, first, len(commands.words), task, places, core, is_meeting)
    linked.tasks.append(made)
    return made


def chain(linked: Linked, tasks: Sequence[LinkedTask], meet: int = 0) -> None:
    """Each task names the next one and how much of it to fetch; with `meet`, cores wait for each other between steps.

    A barrier is in the last working task of a step: the next stream, of the next step or the closing task of this one,
    is fetched when so many other cores are there too.
    """
    for task, following in pairwise(tasks):
        tail = task.first_word + task.amount
        is_last = meet and not task.is_meeting and (task.step != following.step or following.is_meeting)
        amount = isa.fetch_amount(following.amount, linked.words_per_fetch)
        linked.words[tail] = link_word(following.first_word * isa.WORD_BYTES)
        linked.words[tail + 1] = amounts_word(amount, meet if is_last else 0)
