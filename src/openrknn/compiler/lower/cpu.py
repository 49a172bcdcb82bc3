"""Operators that the runtime computes on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.container.parts import DataType, Kind

__all__ = ["lower_cpu", "lower_reshape"]

_NAMES = {"Softmax": "exSoftmax13"}


def lower_cpu(low: Lowering, op: Op) -> None:
    """Pass the operator on with its attributes."""
    kind = op.attributes["operator"]
    step = low.step(op, _NAMES.get(kind, kind))
    step.is_cpu = True
    step.attributes = {
        name: value for name, value in op.attributes.items() if name not in {"operator", "reason"}
    }
    if kind == "Softmax":
        rank = len(low.graph.shape(op.inputs[0]))
        step.attributes["axis"] = int(op.attributes.get("axis", -1)) % rank
    if kind == "Transpose":
        rank = len(low.graph.shape(op.inputs[0]))
        step.attributes["perm"] = list(op.attributes.get("perm") or range(rank)[::-1])


def lower_reshape(low: Lowering, op: Op) -> None:
    """The same numbers in the same order; the CPU moves them where the layout differs."""
    shape: Any = np.array(low.graph.shape(op.output), np.int64)
    wanted = low.data(f"{op.output}_shape", shape.tobytes(), (len(shape),), DataType.INT64, kind=Kind.CPU_CONSTANT)
    step = low.step(op, "Reshape", inputs=[op.inputs[0], wanted])
    step.is_cpu = True
