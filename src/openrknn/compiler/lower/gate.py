"""f(x) * y by the table that a Softmax shares: f(x) = max(x, 0) + g(|x|), g(a) = f(a) - a, for silu and gelu.

The table has the exponential below zero and g from zero on, so a step of a language model never loads another one.
"""

from __future__ import annotations

from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import scratch
from openrknn.compiler.program import Place
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.isa.enums import EwAlgorithm, EwOperation


def lower_gate(low: Lowering, op: Op) -> None:
    """Four tasks: the size, the table, the sum, the product."""
    gate, other, target = (low.cube(name) for name in (*op.inputs, op.output))
    form, size, function = low.target.fp16, low.tensor(op.output).cube, low.functions[op.output]
    pitch = low.tensor(op.output).pitch
    made = Cube(Place(scratch(low, f"{op.output}_size", form.surfaces(size[0]) * pitch * form.atom_bytes)), pitch)
    step = low.step(op, "exSwish")
    step.table = function.key

    absolute = Finish(1.0, None, flying=True)
    absolute.multiply(-1.0)
    absolute.operand(EwAlgorithm.MAX, None, relu=False)
    low.add_rows(step, elementwise_task(form, size, gate, made, absolute.stages, gate))

    looked = Finish(1.0, None, flying=True)
    looked.lookup(function, None)
    low.add_rows(step, elementwise_task(form, size, made, made, looked.stages))

    summed = Finish(1.0, None, flying=True)
    summed.relu()
    summed.operand(EwAlgorithm.ADD, None, relu=False)
    low.add_rows(step, elementwise_task(form, size, gate, made, summed.stages, made))

    product = Finish(1.0, None, flying=True)
    product.operand(EwOperation.MUL, None, relu=False)
    low.add_rows(step, elementwise_task(form, size, made, target, product.stages, other))
