"""What one run does: convert inputs, execute a program, convert outputs. Rebuilt when something is bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from openrknn.capi.bound import Bound, Step
from openrknn.capi.memory import Memory
from openrknn.capi.set_inputs import Fed
from openrknn.runtime.engine import LocalEngine
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.program.program import Program

_MOST_PROGRAMS = 32
"""Of one graph, each with other memory: programs take turns with a few buffers."""


@dataclass(slots=True)
class RunPlan:
    """A program and what goes around it."""

    program: Program
    pixels: frozenset[str]
    items: int = 1
    """Of a batch, one after the other."""
    before: list[Step] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)


class Programs:
    """The programs of one graph: the one with memory of its own, and those in the memory of the user's program.

    All share the memory of what is not bound, so it does not matter which of them is fed or read.
    """

    def __init__(self, engine: LocalEngine, graph: int) -> None:
        self._engine, self._graph = engine, graph
        self.base = engine.program(graph)
        self._names = (*self.base.names, *(port.name for port in self.base.outputs))
        self._can_adopt = hasattr(engine.device, "adopt") and not self.base.batch
        self._placed: OrderedDict[tuple[tuple[str, int, int, int], ...], tuple[Program, list[Memory]]] = OrderedDict()

    def plan(self, bound: Mapping[str, Bound], fed_pixels: frozenset[str], fed: Mapping[str, Fed]) -> RunPlan:
        """How to run with these tensors in the user's memory.

        `fed_pixels` names inputs that were set as raw pixels; `fed` are inputs of a batch.
        """
        placed = [one for one in bound.values() if self._place(one) is not None]
        program = self._program_in(placed) if placed else self.base
        pixels = {name for name in fed_pixels if name not in bound}
        pixels |= {one.name for one in bound.values() if one.is_pixels}
        plan = RunPlan(program, frozenset(pixels), max(program.batch, 1))
        plan.before += [fed[port.name].step(port) for port in self.base.inputs if port.name in fed]
        for one in bound.values():
            if not any(one is other for other in placed):
                (plan.before if one.is_input else plan.after).append(one.step(self.base))
        kinds = {one.name: "pixels" if one.is_pixels else "stored" for one in placed if one.is_input}
        for port in program.inputs:
            if port.name in kinds and port.stored.padding is not None:
                plan.before.append(_row_ends(port, kinds[port.name]))
        return plan

    def _place(self, bound: Bound) -> object:
        """What the NPU can use as it is: the program's memory, or memory of its own that the program sees."""
        if bound.whole is None:
            return None
        buffer = bound.memory.buffer
        if buffer is not None and not bound.offset and self._engine.device.owns(buffer):
            return buffer
        return bound.whole if self._can_adopt else None

    def forget(self, memory: Memory) -> None:
        """This memory will not be bound again."""
        for key in [key for key, (_, memories) in self._placed.items() if memory in memories]:
            self._placed.pop(key)[0].close()

    def close(self) -> None:
        """Give the programs in users' memory back; the engine closes the other one."""
        for program, _ in self._placed.values():
            program.close()
        self._placed.clear()

    def _program_in(self, placed: list[Bound]) -> Program:
        key = tuple(one.key for one in sorted(placed, key=lambda one: one.name))
        found = self._placed.get(key)
        if found is not None:
            self._placed.move_to_end(key)
            return found[0]
        ends = {name: self.base.buffer_of(name) for name in self._names}
        program = self._engine.program_in(self._graph, {**ends, **{one.name: self._place(one) for one in placed}})
        self._placed[key] = (program, [one.memory for one in placed])
        while len(self._placed) > _MOST_PROGRAMS:
            self._placed.popitem(last=False)[1][0].close()
        return program


def _row_ends(port: InputPort, kind: str) -> Step:
    return lambda _: port.renew_row_ends(kind)
