"""f(x) * y, or f(x), by the table that a Softmax shares: f(x) = x * s(x), s from 0 to 1, for silu and gelu.

The table has the exponential below zero and s from zero on, so a step of a language model never loads another one. The
DPU multiplies by a second operand behind its table, so s(x) * y is one task, and x times that another one; without a y
one task is all.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.compiler.functions import GATE_REACH
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import scratch
from openrknn.compiler.program import Place, Step, Task
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.isa.enums import EwOperation
from openrknn.task.kinds import Convolution, Elementwise
from openrknn.task.place import Address


def lower_gate(low: Lowering, op: Op) -> None:
    """Two tasks: the table with one operand, the product with the other."""
    tensor = low.tensor(op.output)
    form, (channels, *sides) = low.target.fp16, tensor.cube
    room = form.surfaces(channels) * tensor.pitch * form.atom_bytes
    made = Cube(Place(scratch(low, f"{op.output}_share", room)), tensor.pitch)
    before = low.program.steps[-len(op.inputs) :]
    step = low.step(op, "exSwish")
    step.table = low.functions[op.output].key
    tasks = list(_tasks(low, op, made, 0, channels))
    for cores in low.options.core_counts:
        parts = _parts(low, op, before, cores) if sides == [1, 1] else None
        if parts is not None:
            step.follows = True
            low.share(step, cores, [[Task(one) for one in _tasks(low, op, made, *part)] for part in parts])
    for task in tasks:
        if step.follows:
            low.add(step, Task(task))
        else:
            low.add_rows(step, task)


def _parts(low: Lowering, op: Op, before: list[Step], cores: int) -> list[tuple[int, int]] | None:
    """Channels that each core has made of both operands, where those are the same."""
    found = []
    for name in op.inputs:
        maker = next((step for step in before if step.outputs == [name]), None)
        lists = maker.shares.get(cores) if maker is not None else None
        if lists is None or any(len(tasks) != 1 for tasks in lists):
            return None
        works = [tasks[0].work for tasks in lists if isinstance(tasks[0].work, Convolution)]
        if len(works) < cores:
            return None
        found.append([(work.dpu.write.address, work.dpu.real_channels) for work in works])
    first, parts = 0, []
    for core in range(cores):
        counts = {one[core][1] for one in found}
        places = [low.tensor(name).pixel(first, 0) for name in op.inputs]
        if len(counts) != 1 or [one[core][0] for one in found] != places:
            return None
        parts.append((first, counts.pop()))
        first += parts[-1][1]
    return parts if first == low.tensor(op.output).cube[0] else None


def _tasks(low: Lowering, op: Op, scratched: Cube, first: int, channels: int) -> Iterator[Elementwise[Address]]:
    """Of some channels."""
    form, function, tensor = low.target.fp16, low.functions[op.output], low.tensor(op.output)
    gate, *others, target = (
        Cube(low.tensor(name).at(first), low.tensor(name).pitch) for name in (*op.inputs, op.output)
    )
    skipped = first // form.atom * scratched.pitch * form.atom_bytes
    made = Cube(Place(scratched.place.tensor, scratched.place.offset + skipped), scratched.pitch)
    size = (channels, *tensor.cube[1:])

    looked = Finish(1.0, None, flying=True)
    looked.lookup(function, None)
    looked.fold_into_upper_half(GATE_REACH)
    looked.operand(EwOperation.MUL, None, relu=False)
    if not others:
        yield elementwise_task(form, size, gate, target, looked.stages, gate)
        return
    yield elementwise_task(form, size, gate, made, looked.stages, others[0])

    product = Finish(1.0, None, flying=True)
    product.operand(EwOperation.MUL, None, relu=False)
    yield elementwise_task(form, size, made, target, product.stages, gate)
