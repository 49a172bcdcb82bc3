"""Repeat: a program for one item becomes one for a batch, item after item, with the same weights.

As in the vendor's files, inputs and outputs hold all items behind each other ([N, C1, H, W, C2]); each task of the NPU
is there once for every item, and its addresses are those of the item. Everything between is a buffer of its own for
each item, and the plan gives them the same memory. All items go through the steps up to the next change of the table or
between NPU and CPU, and then through the following ones: a batch has about as many jobs as one item.

Operators of the CPU cannot work on a part of an input or output, because these may be in the user's memory: a
Reshape copies the whole from or to internal memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from openrknn.compiler.formats import align
from openrknn.compiler.program import Place, Program, Step, Task, Tensor
from openrknn.container.parts import DataType, Kind
from openrknn.task.place import with_places

__all__ = ["item_name", "repeat", "tensor_suffix"]

_ALIGNMENT = 64


def item_name(step: str, item: int) -> str:
    """The name of a step for one item; the first keeps it."""
    return f"{step}@{item}" if item else step


def tensor_suffix(item: int) -> str:
    """What the names of an item's tensors end with."""
    return f"@{item}"


def repeat(program: Program, batch: int) -> Program:
    """The same program for so many items; for one it stays as it is."""
    if batch == 1:
        return program
    made = replace(program, tensors={}, steps=[])
    ends: dict[str, str] = {}
    by_cpu = _touched_by_cpu(program)
    for name, tensor in program.tensors.items():
        if tensor.data is not None:
            made.tensors[name] = tensor
        elif tensor.kind in {Kind.INPUT, Kind.OUTPUT}:
            made.tensors[name] = _whole(tensor, name, tensor.kind, batch)
            ends[name] = f"{name}_items" if name in by_cpu else name
            if name in by_cpu:
                made.tensors[ends[name]] = _whole(tensor, ends[name], Kind.INTERNAL, batch)
    made.steps += [_copy(made, name, ends[name]) for name in program.inputs if ends[name] != name]
    names = [_item_tensors(program, made, ends, item) for item in range(batch)]
    for segment in _segments(program.steps):
        for item in range(batch):
            made.steps += [_item_step(step, names[item], ends, item) for step in segment]
    made.steps += [_copy(made, ends[name], name) for name in program.outputs if ends[name] != name]
    return made


def _touched_by_cpu(program: Program) -> set[str]:
    """Inputs that the CPU reads, and outputs that it reads or writes; tensors inside an output count as the output."""
    named = {name for step in program.steps if step.is_cpu for name in (*step.inputs, *step.outputs)}
    return {program.root(name)[0].name for name in named}


def _whole(tensor: Tensor, name: str, kind: Kind, batch: int) -> Tensor:
    native = (batch * tensor.native_shape[0], *tensor.native_shape[1:])
    size = align(_item_bytes(tensor) * (batch - 1) + tensor.size_bytes, _ALIGNMENT)
    shape = (batch * tensor.shape[0], *tensor.shape[1:])  # an item may have several rows
    return replace(tensor, name=name, kind=kind, shape=shape, native_shape=native, size_bytes=size)


def _item_bytes(tensor: Tensor) -> int:
    """From one item to the next."""
    if tensor.layout == "feature":
        _, surfaces, _, _, atom = tensor.native_shape
        return surfaces * tensor.pitch * atom * tensor.element_bytes
    if tensor.layout == "picture":
        _, _, height, width, channels = tensor.native_shape
        return height * align(width, tensor.atom_bytes // tensor.element_bytes) * channels * tensor.element_bytes
    elements = 1
    for size in tensor.shape:
        elements *= size
    return elements * tensor.element_bytes


def _copy(made: Program, source: str, target: str) -> Step:
    shape = made.tensors[target].shape
    name = f"{target}_sizes"
    made.tensors[name] = Tensor(
        name, Kind.CPU_CONSTANT, DataType.INT64, (len(shape),), "data", native_shape=(len(shape),),
        data=struct.pack(f"<{len(shape)}q", *shape), size_bytes=8 * len(shape), element_bytes=8,
        atom_bytes=made.target.atom_bytes,
    )  # fmt: skip
    return Step("Reshape", f"Reshape:{target}", [source, name], [target], is_cpu=True)


def _segments(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Runs of steps without a change of the table, and of one kind: NPU or CPU."""
    segment: list[Step] = []
    loaded: str | None = None
    for step in steps:
        changes = step.table is not None and step.table != loaded
        if segment and (changes or step.is_cpu != segment[-1].is_cpu):
            yield segment
            segment = []
        segment.append(step)
        loaded = step.table or loaded
    if segment:
        yield segment


def _item_tensors(program: Program, made: Program, ends: Mapping[str, str], item: int) -> dict[str, str]:
    """Name -> name of the item's own tensor."""
    names = {name: name + tensor_suffix(item) for name, tensor in program.tensors.items() if tensor.data is None}
    for name, own in names.items():
        tensor = replace(program.tensors[name], name=own)
        if name in ends:
            tensor.kind, tensor.parent, tensor.parent_offset = Kind.INTERNAL, ends[name], item * _item_bytes(tensor)
        elif tensor.parent is not None:
            tensor.parent = names[tensor.parent]
        made.tensors[own] = tensor
    return names


def _item_step(step: Step, names: Mapping[str, str], ends: Mapping[str, str], item: int) -> Step:
    # Operators of the NPU name the whole input or output, as in the vendor's files.
    whole = {} if step.is_cpu else {name: name for name, end in ends.items() if end == name}
    used = {**names, **whole}
    return replace(
        step, name=item_name(step.name, item),
        inputs=[used.get(name, name) for name in step.inputs], outputs=[used.get(name, name) for name in step.outputs],
        tasks=[_moved(task, names) for task in step.tasks],
        shares={
            cores: [[_moved(task, names) for task in tasks] for tasks in lists] for cores, lists in step.shares.items()
        },
    )  # fmt: skip


def _moved(task: Task, names: Mapping[str, str]) -> Task:
    work = with_places(task.work, lambda place: Place(names.get(place.tensor, place.tensor), place.offset))
    return replace(task, work=work)
