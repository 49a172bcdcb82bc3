"""What the NPU could do, by looking at one operator alone: its type, and the types and shapes around it.

The compiler has the last word: what it refuses goes to the CPU as well (`build`).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.operators import CPU_ANY, ONNX_ON_NPU, QUANTISERS
from openrknn.partition.view import Node, Value, View

_LARGEST = 2**30
_MOST_STEPS = 64
"""Of a recurrent layer. Each step is a dozen tasks in the file: with hundreds, compiling takes minutes."""
_BETWEEN = CPU_ANY - ONNX_ON_NPU


class Fitness(Enum):
    """Where an operator can run."""

    NPU = "npu"
    BETWEEN = "between"
    """A `.rknn` can hold it, but the CPU runs it there: worth it only in the middle of an NPU part."""
    CPU = "cpu"


def fitness_of(view: View, node: Node) -> tuple[Fitness, str]:
    """With the reason where it is the CPU's."""
    if node.type not in ONNX_ON_NPU | QUANTISERS | _BETWEEN:
        return Fitness.CPU, f"the NPU has no {node.type}"
    proto = onnx_package().TensorProto
    known = {proto.FLOAT}
    if node.type in QUANTISERS:
        known |= {proto.INT8, proto.UINT8}
    elif node.type in _BETWEEN:
        known.add(proto.BOOL)  # a guard like Where(IsNaN(x), 0, x) is no reason to cut
    for name in (*node.reads, *node.makes):
        value = view.values.get(name, Value())
        if value.kind not in known:
            return Fitness.CPU, f"{name!r} is {_label(proto, value)}"
        if value.shape is None:
            return Fitness.CPU, f"the shape of {name!r} is known only when it runs"
        if not 0 < value.numbers <= _LARGEST:
            return Fitness.CPU, f"{name!r} has {value.numbers} numbers"
    if view.steps(node) > _MOST_STEPS:
        return Fitness.CPU, f"{view.steps(node)} steps, one after the other"
    if not node.reads:
        return Fitness.CPU, "it reads constants only"
    return (Fitness.BETWEEN if node.type in _BETWEEN else Fitness.NPU), ""


def _label(proto: Any, value: Value) -> str:
    return str(proto.DataType.Name(value.kind)).lower() if value.kind else "of a type that is not known"
