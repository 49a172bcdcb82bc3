"""Operators that the runtime computes on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.program import Program
from openrknn.container.parts import DataType, Kind

_NAMES = {"Softmax": "exSoftmax13"}
INTEGER = {"int64": DataType.INT64, "int32": DataType.INT32, "bool": DataType.INT8}
"""Whole numbers as the vendor's converter stores them: truths are bytes."""
_SHOWN = 5


def lower_cpu(low: Lowering, op: Op) -> None:
    """Pass the operator on with its attributes; constants go along as numbers of the CPU."""
    kind = op.attributes["operator"]
    step = low.step(op, _NAMES.get(kind, kind), inputs=[_operand(low, op, at) for at in range(len(op.inputs))])
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


def _operand(low: Lowering, op: Op, at: int) -> str:
    name = op.inputs[at]
    array = low.graph.constants.get(name)
    if not name:  # an optional operand that is left out, as the vendor's converter says it
        return low.data("empty_placeholder_0", bytes(4), (1,), DataType.FLOAT32, kind=Kind.CPU_CONSTANT)
    if array is None:
        return name
    numbers = low.graph.values[op.output].quantization
    if op.attributes["operator"] == "Concat" and numbers is not None and array.dtype.kind == "f":
        # It moves stored numbers: the constant has to be some, too.
        steps = np.clip(np.rint(array / numbers.scale) + numbers.zero_point, -128, 127)
        data = np.ascontiguousarray(steps, np.int8).tobytes()
        return low.data(f"{op.output}_{at}_cpu", data, array.shape, DataType.INT8, kind=Kind.CPU_CONSTANT)
    return _stored(low, name, array)


def _stored(low: Lowering, name: str, array: Array) -> str:
    """Floats in single precision, indices with 64 bits, truths as bytes."""
    kind, dtype = (
        (DataType.FLOAT32, np.float32) if array.dtype.kind == "f"
        else (DataType.INT8, np.int8) if array.dtype.kind == "b" else (DataType.INT64, np.int64)
    )  # fmt: skip
    data = np.ascontiguousarray(array, dtype).tobytes()
    return low.data(f"{name}_cpu", data, tuple(array.shape) or (1,), kind, kind=Kind.CPU_CONSTANT)


def lower_reshape(low: Lowering, op: Op) -> None:
    """Numbers keep their order; the CPU moves them where the layout differs."""
    shape: Any = np.array(low.graph.shape(op.output), np.int64)
    wanted = low.data(f"{op.output}_shape", shape.tobytes(), (len(shape),), DataType.INT64, kind=Kind.CPU_CONSTANT)
    step = low.step(op, "Reshape", inputs=[op.inputs[0], wanted])
    step.is_cpu = True


def refuse_cpu(program: Program) -> None:
    """For chips whose runtime has no operators of the CPU: name those that would be needed, and where to cut."""
    steps = [step for step in program.steps if step.is_cpu]
    if not steps:
        return
    shown = "; ".join(f"{step.type} {step.name!r}" for step in steps[:_SHOWN])
    more = f"; and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    before = dict.fromkeys(name for step in steps for name in step.inputs if program.tensors[name].data is None)
    made = {name for step in steps for name in step.outputs}
    cut = [_shown_name(program, name) for name in before if name not in made and name not in program.inputs]
    advice = f"Cut the model before them (--outputs {' '.join(cut[:_SHOWN])})" if cut else "Feed what they make"
    title = program.target.chip.title
    raise UnsupportedOperatorError(
        f"the runtime of {title} has no operators for the CPU, and the NPU has none for: {shown}{more}. {advice} and "
        "do the rest in your program; a detector: --outputs heads",
        operators=[name for step in steps for name in (step.name, *step.fused, *step.outputs)],
    )


def _shown_name(program: Program, name: str) -> str:
    """The user knows an output's own name, not that of the map behind an inserted Reshape."""
    return name.removesuffix("_cube") if name.removesuffix("_cube") in program.outputs else name
