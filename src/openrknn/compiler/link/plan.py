"""The offset of each tensor in internal memory. Tensors that do not live at the same time share bytes."""

from __future__ import annotations

from openrknn.compiler.link.joined import phases
from openrknn.compiler.program import Program, Tensor
from openrknn.task.place import places_of

__all__ = ["lifetimes", "plan"]


def plan(program: Program) -> None:
    """Largest first, each at the lowest place that is free while it lives."""
    lives = lifetimes(program)
    placed: list[Tensor] = []
    roots = [program.tensors[name] for name in lives]
    for tensor in sorted(roots, key=lambda entry: (-entry.size_bytes, lives[entry.name], entry.name)):
        start, end = lives[tensor.name]
        offset = 0
        beside = [other for other in placed if lives[other.name][0] <= end and start <= lives[other.name][1]]
        for other in sorted(beside, key=lambda entry: entry.offset):
            if offset + tensor.size_bytes <= other.offset:
                break
            offset = max(offset, other.offset + other.size_bytes)
        tensor.offset = offset
        placed.append(tensor)
    program.internal_bytes = max((tensor.offset + tensor.size_bytes for tensor in placed), default=0)
    for name, tensor in program.tensors.items():
        if tensor.parent is not None:
            root, offset = program.root(name)
            tensor.offset = root.offset + offset
            tensor.size_bytes = min(tensor.size_bytes, root.size_bytes - offset)


def lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """First and last step of every buffer; inputs live from before the first step, outputs past the last one."""
    lives: dict[str, tuple[int, int]] = {}
    together = _phases(program) if program.is_joined else {}
    for number, step in enumerate(program.steps):
        named = {*step.inputs, *step.outputs}
        tasks = [task for lists in step.shares.values() for one in lists for task in one] if together else step.tasks
        named |= {place.tensor for task in (*step.tasks, *tasks) for place in places_of(task.work)}
        for name in sorted(named):
            root, _ = program.root(name)
            if root.kind.is_activation:
                begins, ends = together.get(number, (number, number))
                first, last = lives.get(root.name, (begins, ends))
                lives[root.name] = (min(first, begins), max(last, ends))
    for name in program.inputs:
        root, _ = program.root(name)
        lives[root.name] = (-1, lives.get(root.name, (0, 0))[1])
    for name in program.outputs:
        root, _ = program.root(name)
        lives[root.name] = (lives.get(root.name, (0, 0))[0], len(program.steps))
    return lives


def _phases(program: Program) -> dict[int, tuple[int, int]]:
    """Step -> first and last one of those that cores may be in at the same time."""
    return {number: (phase.steps[0], phase.steps[-1]) for phase in phases(program.steps) for number in phase.steps}
