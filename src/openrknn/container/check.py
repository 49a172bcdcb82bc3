"""The reader's own consistency check: every relocation, task, blob and chain link inside its bounds.

The vendor's runtime checks none of this; a relocation outside the commands makes it write outside its buffers. After
`check` a loader can use the numbers in the file without looking twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from openrknn.chips import Chip
from openrknn.container.model import Model
from openrknn.container.parts import Graph, InputPatch, Kind, Task, Tensor
from openrknn.container.sizes import internal_bytes
from openrknn.errors import (
    BadReferenceError,
    BadRelocationError,
    BadTaskError,
    BadTensorError,
    FormatError,
)
from openrknn.isa.words import (
    AMOUNTS,
    AMOUNTS_RULE,
    BASE,
    ENABLE,
    ENABLE_RULE,
    NOP_WORD,
    SYNC_WORD,
    TAIL_WORDS,
    Tail,
    fetch_amount,
    value_of,
    with_value,
)

_ADDRESS_LIMIT = 1 << 32
_LARGEST_ADDEND = (1 << 31) - 1
_LIST_STARTS_RK3588 = 5
_PICTURE_CHANNELS = 4
_WIDEST_ALIGNMENT = 4096


def check(model: Model) -> None:
    """Raise the first problem, if there is one."""
    for problem in problems(model):
        raise problem


def problems(model: Model) -> Iterator[FormatError]:
    """Everything in the file that does not fit together."""
    if model.is_dynamic:
        yield from _dynamic(model)
    for graph in model.graphs:
        section = f"graph {graph.index}"
        names = {tensor.name: tensor for tensor in graph.tensors if tensor.name}
        yield from _tensors(graph, section)
        yield from _ends(graph, section, names)
        yield from _relocations(graph, section, names)
        yield from _tasks(graph, section, model.chip)
        yield from _starts(graph, section, model.chip)


def _dynamic(model: Model) -> Iterator[FormatError]:
    inputs = len(model.graphs[0].inputs)
    if len(model.dynamic_inputs) != inputs:
        yield BadReferenceError(
            f"dynamic shapes for {len(model.dynamic_inputs)} inputs, the model has {inputs}", section="dynamic shapes"
        )
    for number, entry in enumerate(model.dynamic_inputs):
        if len(entry.shapes) != len(model.graphs):
            yield BadReferenceError(
                f"input {number} has {len(entry.shapes)} shapes, the model {len(model.graphs)} graphs",
                section="dynamic shapes",
            )


def _tensors(graph: Graph, section: str) -> Iterator[FormatError]:
    seen: dict[str, int] = {}
    for tensor in graph.tensors:
        where = f"{section}, tensor {tensor.index} {tensor.name!r}"
        if tensor.name and seen.setdefault(tensor.name, tensor.index) != tensor.index:
            yield BadTensorError(f"tensor {seen[tensor.name]} has the same name", section=where)
        if tensor.kind.is_activation and tensor.offset + tensor.size_bytes > _ADDRESS_LIMIT:
            yield BadTensorError(
                f"{tensor.size_bytes} bytes at {tensor.offset:#x} are outside the NPU's 32-bit addresses", section=where
            )


def _ends(graph: Graph, section: str, names: dict[str, Tensor]) -> Iterator[FormatError]:
    for indices, kind, what in (
        (graph.inputs, Kind.INPUT, "input"),
        (graph.outputs, Kind.OUTPUT, "output"),
    ):
        for index in indices:
            if not graph.tensors[index].kind.is_activation:
                yield BadReferenceError(
                    f"{what} tensor {index} is of kind {graph.tensors[index].kind.name}, not {kind.name}",
                    section=section,
                )
    if len(graph.normalizations) not in {0, len(graph.inputs)}:
        yield BadReferenceError(
            f"{len(graph.normalizations)} mean/std entries for {len(graph.inputs)} inputs", section=section
        )
    else:
        yield from _pictures(graph, section)
    for entry in graph.output_tasks:
        if entry.name not in names or not 0 <= entry.tasks <= len(graph.tasks):
            yield BadReferenceError(
                f"output {entry.name!r} is said to be complete after task {entry.tasks} of {len(graph.tasks)}",
                section=section,
            )
    patches: tuple[InputPatch, ...] = graph.image_patches + graph.convert_patches
    for name in dict.fromkeys(patch.input for patch in patches):
        if name not in names:
            yield BadReferenceError(f"register patches for an input {name!r} that is not there", section=section)


def _is_picture(tensor: Tensor) -> bool:
    shape = tensor.shape
    return (
        len(shape) == 4
        and 1 <= shape[1] <= _PICTURE_CHANNELS
        and shape[3] > 0
        and 0 < tensor.row_alignment <= _WIDEST_ALIGNMENT
    )


def _pictures(graph: Graph, section: str) -> Iterator[FormatError]:
    """Pictures go through the input converter: it needs a shape, and numbers that it can divide by."""
    for number, index in enumerate(graph.inputs):
        tensor = graph.tensors[index]
        if not tensor.row_alignment:
            continue
        where = f"{section}, input {tensor.name!r}"
        if not _is_picture(tensor):
            yield BadTensorError(f"a picture of shape {tensor.shape}, rows of {tensor.row_alignment}", section=where)
            continue
        scales = tensor.quantization.scale if tensor.quantization else ()
        norm = graph.normalizations[number] if graph.normalizations else None
        numbers = (*scales, *norm.std, *norm.mean) if norm else scales
        divisors = (*scales, *norm.std) if norm else scales
        if not all(map(math.isfinite, numbers)) or not all(divisors):
            yield BadTensorError("mean, std or scale cannot be divided by", section=where)
        if norm and min(len(norm.mean), len(norm.std)) < tensor.shape[1]:
            yield BadTensorError(f"{len(norm.std)} std for {tensor.shape[1]} channels", section=where)


def _relocations(graph: Graph, section: str, names: dict[str, Tensor]) -> Iterator[FormatError]:
    """Internal tensors share one buffer: files for RV1103/06 reach past tensors whose size lacks the spare channels."""
    commands, internal = len(graph.commands), internal_bytes(graph)
    for group in graph.relocations:
        where = f"{section}, relocations of {group.tensor!r}"
        tensor = names.get(group.tensor)
        if tensor is None:
            yield BadRelocationError("no tensor has this name", section=where)
            continue
        if len(group.cores) not in {0, len(group.entries)}:
            yield BadRelocationError(f"{len(group)} entries but {len(group.cores) // 8} cores", section=where)
        limit = max(_reach(tensor), internal - tensor.offset if tensor.kind is Kind.INTERNAL else 0)
        numbers = group.entries.cast("I").tolist()
        if not numbers or (max(numbers[1::2]) < commands and max(numbers[::2]) <= min(limit, _LARGEST_ADDEND)):
            continue  # as all do; negative ones are larger
        for entry in group:
            if entry.command >= commands:
                yield BadRelocationError(
                    f"command {entry.command} is to be patched, but there are {commands}", section=where
                )
            elif not 0 <= entry.addend <= limit:
                yield BadRelocationError(
                    f"offset {entry.addend:#x} is outside the tensor's {limit:#x} bytes (command {entry.command})",
                    section=where,
                )


def _reach(tensor: Tensor) -> int:
    """Largest offset that makes sense: outputs can be converted to float32 while they are written."""
    reach = max(tensor.size_bytes, len(tensor.data) if tensor.data is not None else 0)
    widening = 32 // max(tensor.dtype.bits, 1) if tensor.kind is Kind.OUTPUT else 1
    return reach * max(widening, 1)


def _tasks(graph: Graph, section: str, chip: Chip) -> Iterator[FormatError]:
    words, nodes, count = graph.commands, len(graph.nodes), len(graph.commands)
    by_address = {task.address: task for task in graph.tasks}
    amounts = {amount: with_value(AMOUNTS.word, fetch_amount(amount, chip.words_per_fetch))
               for amount in {task.amount for task in graph.tasks} if amount <= count}  # fmt: skip
    enables = {mask: with_value(ENABLE.word, mask) for mask in {task.enable_mask for task in graph.tasks}}
    links = {with_value(BASE.word, address): amounts.get(task.amount) for address, task in by_address.items()
             if address < _ADDRESS_LIMIT}  # fmt: skip
    for number, task in enumerate(graph.tasks):
        if task.op_index >= nodes:
            text = f"it belongs to operator {task.op_index} of {nodes}"
            yield BadTaskError(text, section=f"{section}, task {number}")
        end = task.address // 8 + task.amount
        if task.address % 8 or end + TAIL_WORDS > count:
            yield BadTaskError(
                f"{task.amount} + {TAIL_WORDS} commands at {task.address:#x} are outside the {count} commands",
                section=f"{section}, task {number}",
            )
            continue
        base, amount, sync, enable = tail = words[end : end + TAIL_WORDS].tolist()
        if (sync == SYNC_WORD and enable & ENABLE_RULE == enables[task.enable_mask]
                and links.get(base) == amount & AMOUNTS_RULE):  # fmt: skip
            continue  # as all do that lead to another task
        yield from _tail(task, Tail(*tail), by_address, chip, f"{section}, task {number}")


def _tail(task: Task, tail: Tail, by_address: dict[int, Task], chip: Chip, where: str) -> Iterator[FormatError]:
    if not tail.is_valid:
        yield BadTaskError("its four closing commands are not the ones that start it", section=where)
        return
    if tail.enabled != task.enable_mask:
        yield BadTaskError(
            f"its record enables blocks {task.enable_mask:#x}, its commands {value_of(tail.enable):#x}", section=where
        )
    if tail.base == NOP_WORD:
        return
    link = tail.next_address
    following = None if link is None else by_address.get(link)
    if following is None:
        yield BadTaskError(f"its link {tail.base:#018x} leads to no task", section=where)
    elif tail.fetched != fetch_amount(following.amount, chip.words_per_fetch):
        yield BadTaskError(
            f"its link fetches {value_of(tail.amounts):#x}, but the next task has {following.amount} commands",
            section=where,
        )


def _starts(graph: Graph, section: str, chip: Chip) -> Iterator[FormatError]:
    """RK3588 says where the lists for one, two and three cores start; it must agree with the counts."""
    if chip.family != "rk3588" or len(graph.list_starts) != _LIST_STARTS_RK3588:
        return
    for entry, start in zip((chip.task_lists[1], chip.task_lists[3]), graph.list_starts[3:], strict=True):
        tasks = graph.task_lists.get(entry)
        if tasks is not None and tasks.start != start:
            yield BadTaskError(
                f"the list for {entry.core_count} cores starts at task {start}, by the counts at {tasks.start}",
                section=section,
            )
