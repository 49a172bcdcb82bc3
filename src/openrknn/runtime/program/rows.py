"""Recurrent layers on the NPU: rows in whole lanes, which the CPU fills before them and empties after them.

The NPU reads one row of channels per step, and writes one row of hidden units per step and direction. Where a tensor
of the model is not such rows (12 channels, say, or a feature map), the commands point to scratch memory instead:
`..._exSecondary1` for the input, `..._exSecondary2` for all states and, behind them, the last one. Its place is the
fifth number behind the two words in the operator's attributes. (Seen in files of toolkit 2.5.0 for hidden sizes of 16,
20 and 32, one and two directions; the simulator's answers agree.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.container.model import Operator
from openrknn.container.parameters import RECURRENT
from openrknn.container.parts import DataType, Graph, Placement, Tensor
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.tensors import Array, StoredTensor

_Stored: TypeAlias = Callable[[Tensor], StoredTensor]
_Scratch: TypeAlias = Callable[[Tensor], "npt.NDArray[np.uint8]"]

_INPUT, _STATES = "_exSecondary1", "_exSecondary2"
_INITIAL_STATE = 5
"""The input whose last size is that of a row of states."""
_LAST_STATE_BYTES = 48
"""Where the attributes say where the last state is."""


def is_recurrent(operator: Operator) -> bool:
    """Whether the NPU runs it as rows."""
    return operator.placement is Placement.NPU and operator.type in RECURRENT


def ferried(
    operator: Operator, graph: Graph, run: Callable[[], None], *, stored: _Stored, scratch: _Scratch
) -> Callable[[], None]:
    """`run` with the copies around it; `stored` finds a tensor of the model, `scratch` the memory of another."""
    pointed = _pointed(operator, graph)
    x, named = operator.inputs[0], {tensor.name[-len(_INPUT) :]: tensor for tensor in operator.inputs}
    source, states = (named.get(name) for name in (_INPUT, _STATES))

    def around() -> None:
        if source is not None and source.name in pointed and x.name not in pointed:
            _fill(_numbers(scratch(source), operator), stored(x).read())
        run()
        if states is not None and states.name in pointed:
            _empty(operator, pointed, _numbers(scratch(states), operator), stored)

    return around


def _pointed(operator: Operator, graph: Graph) -> set[str]:
    """The tensors that this operator's own commands point to."""
    tasks = [task for task in graph.tasks if task.op_index == operator.index]
    own = {command for task in tasks for command in range(task.first_command, task.first_command + task.amount)}
    return {group.tensor for group in graph.relocations if any(entry.command in own for entry in group)}


def _numbers(memory: npt.NDArray[np.uint8], operator: Operator) -> Array:
    if any(tensor.dtype is not DataType.FLOAT16 for tensor in (operator.inputs[0], *operator.outputs)):
        raise UnsupportedError(f"operator {operator.index} {operator.name!r}: rows of anything but fp16")
    return memory[: memory.size // 2 * 2].view(np.float16)


def _fill(rows: Array, values: Array) -> None:
    """One row per step; what is behind the last channel is 0."""
    steps = values.reshape(-1, values.shape[-1])
    lanes = rows.size // max(len(steps), 1)
    if lanes < steps.shape[1]:
        raise UnsupportedError(f"rows of {lanes} numbers for {steps.shape[1]} channels")
    table = rows[: len(steps) * lanes].reshape(len(steps), lanes)
    table[:, : steps.shape[1]] = steps
    table[:, steps.shape[1] :] = 0


def _empty(operator: Operator, pointed: set[str], rows: Array, stored: _Stored) -> None:
    """All states to the first output, the last ones to the second, unless the NPU has written them there itself."""
    lanes = operator.inputs[_INITIAL_STATE].shape[-1] if len(operator.inputs) > _INITIAL_STATE else 0
    raw = bytes(operator.node.attribute_bytes)
    last = struct.unpack_from("<I", raw, _LAST_STATE_BYTES)[0] if len(raw) >= _LAST_STATE_BYTES + 4 else 0
    for tensor, start in zip(operator.outputs, (0, last // rows.itemsize), strict=False):
        hidden = tensor.shape[-1] if tensor.shape else 0
        if tensor.name in pointed or (start == 0 and tensor is not operator.outputs[0]):
            continue
        count = tensor.elements // max(hidden, 1)
        if not 0 < hidden <= lanes or start + count * lanes > rows.size:
            raise UnsupportedError(f"operator {operator.index} {operator.name!r}: {count} rows of {lanes} numbers")
        table = rows[start : start + count * lanes].reshape(count, lanes)
        stored(tensor).write(np.ascontiguousarray(table[:, :hidden]).reshape(tensor.shape))
