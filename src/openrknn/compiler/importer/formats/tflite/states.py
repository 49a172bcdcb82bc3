"""Variables of streaming models: what is remembered from one run to the next becomes inputs and outputs.

TFLite keeps variables inside the interpreter (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE). A compiled model keeps
nothing, so a variable is an input with its name, and what is assigned to it an output `NAME_next`: the program feeds
the one with the other, from zeros on. SVDF has such a variable as an operand.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tflite.schema import Operator, Subgraph

_VARIABLES = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"}
_REMEMBERS = {"SVDF": 4}
"""Operator -> the operand that it changes."""


def open_states(graph: Subgraph, name: str) -> Subgraph:
    """The graph, with variables as inputs and outputs."""
    if not any(op.kind in {*_VARIABLES, *_REMEMBERS} for op in graph.operators):
        return graph
    states = _States(graph, name)
    operators = [made for op in graph.operators if (made := states.without(op)) is not None]
    outputs = [states.others.get(index, index) for index in graph.outputs]
    for label, index in states.assigned.items():
        if index not in outputs and index not in states.inputs:
            states.tensors[index] = replace(states.tensors[index], name=f"{label}_next")
            outputs.append(index)
    return Subgraph(graph.name, states.tensors, states.inputs, outputs, operators)


class _States:
    """A walk along the operators, in the order in which they run."""

    def __init__(self, graph: Subgraph, name: str) -> None:
        self.name = name
        self.tensors, self.inputs = list(graph.tensors), list(graph.inputs)
        self.assigned: dict[str, int] = {}
        self.others: dict[int, int] = {}
        """Tensor that was read -> the tensor that holds the same."""
        self._labels: dict[int, str] = {}
        self._current: dict[str, int] = {}

    def without(self, op: Operator) -> Operator | None:
        """The operator, or nothing in the place of one that has to do with variables."""
        if op.kind in _REMEMBERS:
            return self._remembering(op, _REMEMBERS[op.kind])
        if op.kind not in _VARIABLES:
            return replace(op, inputs=[self.others.get(index, index) for index in op.inputs])
        if op.kind == "VAR_HANDLE" and op.outputs:
            self._labels[op.outputs[0]] = self.tensors[op.outputs[0]].name
        elif op.kind != "CALL_ONCE":  # that one fills variables with what they start with
            self._use(op)
        return None

    def _remembering(self, op: Operator, operand: int) -> Operator:
        """Its variable is an input, and what it leaves there a second result."""
        if len(op.inputs) <= operand or not self.tensors[op.inputs[operand]].is_variable:
            raise ModelError(f"{self.name}: {op.place} has no variable as operand {operand}; the file is damaged")
        index = op.inputs[operand]
        label = self.tensors[index].name
        if label in self.assigned or index in self.inputs:
            raise ModelError(f"{self.name}: {op.place} changes {label!r}, which another operator uses too")
        self.inputs.append(index)
        self.tensors.append(replace(self.tensors[index], is_variable=False))
        self.assigned[label] = len(self.tensors) - 1
        sources = [self.others.get(entry, entry) for entry in op.inputs]
        return replace(op, inputs=sources, outputs=[*op.outputs[:1], self.assigned[label]])

    def _use(self, op: Operator) -> None:
        if not op.inputs or op.inputs[0] not in self._labels:
            raise ModelError(f"{self.name}: {op.place} names no variable; the file is damaged")
        label = self._labels[op.inputs[0]]
        if op.kind == "ASSIGN_VARIABLE" and len(op.inputs) > 1 and op.inputs[1] >= 0:
            self._current[label] = self.assigned[label] = self.others.get(op.inputs[1], op.inputs[1])
        elif op.kind == "READ_VARIABLE" and op.outputs:
            index = op.outputs[0]
            if label in self._current:
                self.others[index] = self._current[label]
            else:
                self._current[label] = index
                self.inputs.append(index)
                self.tensors[index] = replace(self.tensors[index], name=label)
