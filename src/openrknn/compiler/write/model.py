"""The parts of a `.rknn` from a linked program."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from openrknn.chips import Chip
from openrknn.compiler.link import Linked
from openrknn.compiler.program import Program, Step
from openrknn.compiler.program import Task as Work
from openrknn.compiler.program import Tensor as Buffer
from openrknn.compiler.write.attributes import attribute_bytes, parameters_for
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.parts import (
    TASK,
    DataType,
    Graph,
    InputPatch,
    Kind,
    Layout,
    MemoryPlan,
    Node,
    Normalization,
    OutputTask,
    PatchSlot,
    Quantization,
    RelocationGroup,
    Task,
    Tensor,
    sorted_groups,
)
from openrknn.container.schema import patch_offsets
from openrknn.isa.words import value_of
from openrknn.task.kinds import Convolution, Pooling

_TOOLKIT_NUMBER = 10502
"""The version that the vendor's runtime 1.5.2 expects; it only warns about others."""
_NPU, _CPU = 2, 0
_SLOTS = 6
_WORKLOADS = 9
_MOST_CORES = 3
_INT_CLEAR = 0x1FFFF
_LAYOUTS = {
    "feature": Layout.NC1HWC2, "picture": Layout.NC1HWC2, "weights": Layout.O1I1HWI2O2, "data": Layout.UNDEFINED,
}  # fmt: skip

Preprocessing = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Input -> mean and std per channel."""


def build_model(
    program: Program, linked: Linked, chip: Chip, preprocessing: Preprocessing, *, version: str,
    custom_string: str = "", batch: int = 1,
) -> Model:  # fmt: skip
    """Everything that `container.writer.encode` needs."""
    tensors = _tensors(program, linked)
    numbers = {tensor.name: tensor.index for tensor in tensors}
    nodes = _nodes(program, linked, numbers)
    if program.target.slots != _SLOTS:
        nodes = tuple(_shorter(node, chip, program.target.slots) for node in nodes)
    elif chip.cores == 1:
        nodes = tuple(_single(node) for node in nodes)
    commands = memoryview(struct.pack(f"<{len(linked.words)}Q", *linked.words)).cast("Q")
    first = len(program.inputs)
    tasks = tuple(
        Task(0, entry.step + first, entry.mask, entry.interrupts, _INT_CLEAR, 0, entry.amount, 0, entry.first_word * 8)
        for entry in linked.records
    )
    one_core = len(linked.lists[0])
    graph = Graph(
        index=0, tensors=tensors, nodes=nodes,
        inputs=tuple(numbers[name] for name in program.inputs),
        outputs=tuple(numbers[name] for name in program.outputs),
        normalizations=tuple(_normalization(name, preprocessing) for name in program.inputs),
        relocations=sorted_groups(_relocations(linked, has_cores=program.target.core_entries)),
        image_patches=_patches(program, linked, chip, "image"),
        convert_patches=_patches(program, linked, chip, "convert"),
        list_starts=_starts(linked, chip, program.target.slots) if tasks else (),
        output_tasks=tuple(OutputTask(name, one_core) for name in program.outputs) if tasks else (),
        commands=commands, tasks=tasks, task_lists={},
    )  # fmt: skip
    weights = sum(-(-len(tensor.data) // 64) * 64 for tensor in tensors if tensor.data is not None)
    return Model(
        path=None, size_bytes=0, container_version=6, flavour=Flavour.FLATBUFFER, format_version=6,
        target=chip.target, platform=chip.name, chip=chip, toolkit_number=_TOOLKIT_NUMBER, toolkit_text=version,
        framework="ONNX", framework_layout=int(Layout.NCHW), custom_string=custom_string,
        batch_text=str(batch if batch > 1 else 0), shape_mode="static_shape", dynamic_inputs=(), shared_weights=(),
        memory=MemoryPlan(weights, program.internal_bytes, 0), custom_operators="",
        input_json=_described(program, program.inputs, inputs=True),
        output_json=_described(program, program.outputs, inputs=False),
        notes_text="{}", json_bytes=memoryview(b"{}"), graphs=(graph,), unknown=(),
    )  # fmt: skip


# -- tensors -----------------------------------------------------------------------------------------------------


def _tensors(program: Program, linked: Linked) -> tuple[Tensor, ...]:
    made = [Tensor(0, "", DataType.NONE, Layout.UNDEFINED, Kind.NONE, (), (), None, 0, 0)]
    blob = 0
    constants = [entry for entry in program.tensors.values() if entry.data is not None]
    named = {name for step in program.steps for name in (*step.inputs, *step.outputs)}
    named |= {*program.inputs, *program.outputs, *linked.relocations}
    activations = [entry for entry in program.tensors.values() if entry.data is None and entry.name in named]
    for entry in (*constants, *activations):
        if entry.data is not None:
            blob += 1
        made.append(_tensor(len(made), entry, blob if entry.data is not None else 0))
    records = b"".join(
        TASK.pack(0, entry.step + len(program.inputs), entry.mask, entry.interrupts, _INT_CLEAR, 0, entry.amount, 0,
                  entry.first_word * 8)
        for entry in linked.records
    )  # fmt: skip
    if linked.tasks:
        stream = struct.pack(f"<{len(linked.words)}Q", *linked.words)
        for name, kind, data in (("regcmd", Kind.COMMANDS, stream), ("task", Kind.TASKS, records)):
            blob += 1
            made.append(
                Tensor(len(made), name, DataType.UINT64, Layout.UNDEFINED, kind, (), (), None, 0, 0, blob,
                       memoryview(data))
            )  # fmt: skip
    return tuple(made)


def _tensor(index: int, entry: Buffer, blob: int) -> Tensor:
    quantization = entry.quantization
    is_feature = entry.layout == "feature" and entry.data is None
    pixels = entry.cube[1] * entry.cube[2]
    layout = _LAYOUTS.get(entry.layout)
    if layout is None:  # plain
        layout = Layout.NCHW if len(entry.shape) == 4 else Layout.UNDEFINED
    return Tensor(
        index=index, name=entry.name, dtype=entry.dtype, layout=layout, kind=entry.kind, shape=entry.shape,
        native_shape=entry.native_shape,
        quantization=Quantization((quantization.scale,), (quantization.zero_point,)) if quantization else None,
        size_bytes=entry.size_bytes, offset=entry.offset, blob=blob,
        data=memoryview(entry.data) if entry.data is not None else None,
        granularity="layer" if quantization else "", quantized_type="int8" if quantization else "",
        minimum=(quantization.low,) if quantization else (), maximum=(quantization.high,) if quantization else (),
        pixel_alignment=4 if is_feature and entry.kind is not Kind.INPUT and pixels > 1 and entry.pitch % 4 == 0 else 0,
        row_alignment=entry.atom_bytes // entry.element_bytes if entry.layout == "picture" else 0,
    )  # fmt: skip


# -- nodes -------------------------------------------------------------------------------------------------------


def _nodes(program: Program, linked: Linked, numbers: Mapping[str, int]) -> tuple[Node, ...]:
    copies = 1 if program.target.on_core is None else max(program.target.chip.cores, 1)
    counts = [Counter(task.step for task in entries) for entries in (linked.lists[0], *linked.lists[copies:])]
    nodes = [_end("InputOperator", number, name, numbers) for number, name in enumerate(program.inputs)]
    for number, step in enumerate(program.steps):
        tables = linked.table_tasks.get(number, 0)
        # Only the first count leaves out the tasks that load tables.
        slots = [count[number] for count in counts]
        slots[0] -= tables
        counts_all = program.target.slots != _SLOTS
        nodes.append(_node(step, len(nodes), numbers, _slots(*slots), _slots(tables), counts_all=counts_all))
    for name in program.outputs:
        nodes.append(_end("OutputOperator", len(nodes), name, numbers))
    return tuple(nodes)


def _node(
    step: Step, index: int, numbers: Mapping[str, int], tasks: tuple[int, ...], tables: tuple[int, ...], *,
    counts_all: bool,
) -> Node:  # fmt: skip
    return Node(
        index=index, type=step.type, name=step.name, target=_CPU if step.is_cpu else _NPU,
        inputs=tuple(numbers[name] for name in step.inputs), outputs=tuple(numbers[name] for name in step.outputs),
        attributes={}, attribute_bytes=memoryview(attribute_bytes(step)), parameters=parameters_for(step),
        task_counts=tasks, lut_task_counts=tables, workloads=_workloads(step, counts_all=counts_all),
        mac_flag=int(step.macs > 0),
    )  # fmt: skip


def _single(node: Node) -> Node:
    """As files for one core have it: one count, which includes the tasks that load tables."""
    count, tables = node.task_counts[0], node.lut_task_counts[0]
    return replace(node, task_counts=(count + tables,), lut_task_counts=(tables,), workloads=(), mac_flag=0)


def _shorter(node: Node, chip: Chip, slots: int) -> Node:
    """RK3576 counts its list for one core once, though it is stored for each, then those for two.

    Results: of each list. RV1126B has room for more, and says all of it twice.
    """
    alone = node.workloads[0]
    work: tuple[int, ...] = (alone, 0, 0, 0) * 2
    if chip.cores > 1:
        work = (alone,) * chip.cores + node.workloads[_MOST_CORES : _MOST_CORES + chip.cores]
    return replace(
        node, task_counts=node.task_counts[:slots], lut_task_counts=node.lut_task_counts[:slots], workloads=work,
        mac_flag=node.mac_flag if chip.cores > 1 else 0,
    )  # fmt: skip


def _starts(linked: Linked, chip: Chip, slots: int) -> tuple[int, ...]:
    """Where the lists for one, two and three cores begin: RK3588 has the one of each number of cores, and two zeros."""
    sizes = [len(entries) for entries in linked.lists]
    if slots == _SLOTS:
        return (0, 0, 0, sizes[0], sizes[0] + sum(sizes[1:3])) if chip.cores > 1 else ()
    return tuple(number * sizes[0] for number in range(chip.cores + 1 if chip.cores > 1 else 1))


def _workloads(step: Step, *, counts_all: bool) -> tuple[int, ...]:
    """Results that each core makes, for one, two and three cores; the runtime's table shows them as percentages."""
    found = [0] * _WORKLOADS
    if step.shares or counts_all:
        found[0] = sum(_results(task) for task in step.tasks)
    for cores, lists in step.shares.items():
        for core, tasks in enumerate(lists):
            found[_MOST_CORES * (cores - 1) + core] = sum(_results(task) for task in tasks)
    return tuple(found)


def _results(task: Work) -> int:
    """Numbers that a task makes, with those that fill up its last channels."""
    work = task.work
    if isinstance(work, Pooling):
        return work.pooling.out_width * work.pooling.out_height * work.pooling.channels
    if isinstance(work, Convolution):
        return work.source.out_width * work.source.out_height * work.dpu.channels
    repeats = work.reader.repeat_x if work.reader.repeats else 1
    return work.reader.width * repeats * work.reader.height * work.dpu.channels


def _end(kind: str, index: int, name: str, numbers: Mapping[str, int]) -> Node:
    tensor = (numbers[name],)
    is_input = kind == "InputOperator"
    return Node(
        index=index, type=kind, name=f"{kind}:{name}", target=_CPU, inputs=() if is_input else tensor,
        outputs=tensor if is_input else (), attributes={},
        attribute_bytes=memoryview(b"" if is_input else bytes(16)), task_counts=_slots(0), lut_task_counts=_slots(0),
        workloads=(0,) * _WORKLOADS,
    )  # fmt: skip


def _slots(*counts: int) -> tuple[int, ...]:
    return (*counts, *[0] * (_SLOTS - len(counts)))


# -- tables ------------------------------------------------------------------------------------------------------


def _relocations(linked: Linked, *, has_cores: bool) -> list[RelocationGroup]:
    return [
        RelocationGroup(
            name,
            memoryview(b"".join(struct.pack("<iI", offset, word) for offset, word in entries)),
            memoryview(b"".join(struct.pack("<II", 1, linked.cores.get(word, 0)) for _, word in entries if has_cores)),
        )
        for name, entries in linked.relocations.items()
    ]


def _patches(program: Program, linked: Linked, chip: Chip, table: str) -> tuple[InputPatch, ...]:
    """Registers that the runtime writes when it knows what an image input is fed with."""
    registers = patch_offsets(chip.family, table)
    found = []
    for name in program.inputs:
        for entry in linked.tasks:
            if entry.task.picture != name:
                continue
            slots = tuple(
                PatchSlot(_stored(linked, entry.places[register], name), entry.places[register]) if register else None
                for register in registers
            )
            raw = tuple(slot or PatchSlot(0, 0) for slot in slots)
            if table == "convert":
                raw += (PatchSlot(0, 0),) * (13 - len(raw))
            found.append(InputPatch(name, slots, raw, 0, entry.task.first_row if table == "image" else 0))
    return tuple(found)


def _stored(linked: Linked, word: int, name: str) -> int:
    """The value in a word, or the offset into the input where it is an address; signed, as the file has it."""
    value = value_of(linked.words[word])
    for offset, at in linked.relocations.get(name, ()):
        if at == word:
            value = offset
    return value - (1 << 32) if value >> 31 else value


def _normalization(name: str, preprocessing: Preprocessing) -> Normalization:
    mean, std = preprocessing.get(name, ((0.0,), (1.0,)))
    return Normalization(_four(mean), _four(std), (0, 1, 2, 3))


def _four(values: Sequence[float]) -> tuple[float, ...]:
    numbers = [float(value) for value in values]
    return tuple((numbers + [numbers[0]] * 4)[:4]) if len(numbers) > 1 else (numbers[0],) * 4


def _described(program: Program, names: Sequence[str], *, inputs: bool) -> str:
    entries = {}
    for name in names:
        tensor = program.tensors[name]
        layout = ("NHWC" if inputs else "NCHW") if len(tensor.shape) == 4 else "UNDEFINED" if inputs else "NCHW"
        entries[name] = {"dtype": tensor.dtype.label, "layout": layout}
    return json.dumps(entries)

