"""Functions of one number: single operators, and the patterns that exporters spell them with, as `Activation`.

`function` is one of relu, clip, leaky, prelu (the NPU has them) or of `compiler.functions.FUNCTIONS` (by lookup table).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openrknn.compiler.forms import Activation
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import channel_constant, constant, replace_op, sole_reader
from openrknn.compiler.operators import NPU_FUNCTIONS, OPEN_ENDED, OPERATORS, Npu

_LARGEST_FP16 = 65504.0
"""No number of the NPU is larger: such a bound never holds."""


def find_activations(graph: Graph, *, calibrated: bool) -> None:
    """Patterns first, then single operators; open-ended functions only where calibration will tell their range."""
    for pattern in (_gelu, _gated, _hard_gated, _hardswish):
        for op in list(graph.ops):
            if op in graph.ops:
                pattern(graph, op)
        graph.prune()
    for op in list(graph.ops):
        if not calibrated and op.type == "Clip":
            _one_sided(graph, op)
        if calibrated or op.type not in OPEN_ENDED:
            _single(graph, op)
        if calibrated and op.type in {"Max", "Min"}:
            _one_bound(graph, op)
    for op in list(graph.ops):
        _floor(graph, op)


def _single(graph: Graph, op: Op) -> None:
    if op.type == "Neg":
        op.type = "Mul"
        op.inputs = [op.inputs[0], graph.add_constant(f"{op.output}_minus", np.array(-1.0))]
    elif op.type == "Clip":
        _clip(graph, op)
    elif op.type == "PRelu":
        slope = channel_constant(graph, op.inputs[1], graph.shape(op.inputs[0]))
        if slope is not None:
            _become(op, Activation("prelu", slope=tuple(slope.tolist())))
    elif op.type == "Pow":
        exponent = constant(graph, op, 1)
        if exponent is not None and exponent.size == 1:
            _become(op, Activation("pow", float(exponent.reshape(-1)[0])))
    elif op.type in OPERATORS and OPERATORS[op.type].npu is Npu.FUNCTION:
        function = OPERATORS[op.type].function
        assert function is not None
        given = {name: float(op.attributes.get(name, usual)) for name, usual in function.parameters}
        _become(op, Activation(function.name, given.get("alpha"), given.get("beta")))


def _one_bound(graph: Graph, op: Op) -> None:
    """max(x, number), min(x, number)."""
    numbers = [name for name in op.inputs if name in graph.constants and graph.constants[name].size == 1]
    others = [name for name in op.inputs if name not in graph.constants]
    if len(op.inputs) != 2 or len(numbers) != 1 or len(others) != 1:
        return
    bound = float(graph.constants[numbers[0]].reshape(-1)[0])
    op.inputs = others
    if op.type == "Max" and bound == 0:
        _become(op, Activation("relu"))
    else:
        low, high = (bound, np.inf) if op.type == "Max" else (-np.inf, bound)
        _become(op, Activation("bounds", low, high))


def _one_sided(graph: Graph, op: Op) -> None:
    """A table that has to reach as far as fp16's numbers do rounds the bend off; comparing with a number does not."""
    low, high = _bounds(graph, op)
    if len(graph.activations(op)) > 1 or low == 0 or np.isfinite(low) == np.isfinite(high):
        return
    kind, bound = ("Max", low) if np.isfinite(low) else ("Min", high)
    op.type, op.attributes = kind, {}
    op.inputs = [op.inputs[0], graph.add_constant(f"{op.output}_bound", np.array(bound))]


def _floor(graph: Graph, op: Op) -> None:
    """max(leaky ReLU, number) in one table."""
    bounds = op.form
    if not isinstance(bounds, Activation) or bounds.function != "bounds" or bounds.beta != np.inf:
        return
    before = graph.producer(op.inputs[0])
    leaky = before.form if before is not None else None
    if before is None or not isinstance(leaky, Activation) or leaky.function != "leaky":
        return
    if sole_reader(graph, op.inputs[0]) is not op:
        return
    op.form = Activation("leakyfloor", leaky.alpha, bounds.alpha)
    op.inputs = list(before.inputs)
    op.fused = (*op.fused, before.name)
    graph.ops.remove(before)


def _become(op: Op, activation: Activation) -> None:
    op.become("Activation", activation, op.inputs[:1])


def _clip(graph: Graph, op: Op) -> None:
    if len(graph.activations(op)) > 1:
        op.attributes["reason"] = "its bounds are computed at run time"
        return
    low, high = _bounds(graph, op)
    if low == 0 and high > _LARGEST_FP16:
        _become(op, Activation("relu"))
    elif low == 0:
        _become(op, Activation("clip", beta=high))
    else:
        _become(op, Activation("bounds", low, high))


def _bounds(graph: Graph, op: Op) -> tuple[float, float]:
    low, high = constant(graph, op, 1), constant(graph, op, 2)
    return (
        float(low.reshape(-1)[0]) if low is not None else float(op.attributes.get("min", -np.inf)),
        float(high.reshape(-1)[0]) if high is not None else float(op.attributes.get("max", np.inf)),
    )


# -- patterns ----------------------------------------------------------------------------------------------------


def _maker(graph: Graph, name: str, kind: str) -> Op | None:
    op = graph.producer(name)
    return op if op is not None and op.type == kind else None


def _other(op: Op, name: str) -> str:
    return op.inputs[1] if op.inputs[0] == name else op.inputs[0]


def _scalar(graph: Graph, op: Op, value: float) -> bool:
    """Whether one operand is this number."""
    return any(
        graph.constants[name].size == 1 and abs(float(graph.constants[name].reshape(-1)[0]) - value) < 1e-3 * abs(value)
        for name in op.inputs
        if name in graph.constants
    )


def _put(graph: Graph, op: Op, source: str, activation: Activation, *fused: str) -> None:
    replace_op(graph, op, Op("Activation", op.name, [source], [op.output], {}, (op.name, *fused), activation))


def _product(graph: Graph, op: Op, kind: str) -> tuple[str, Op] | None:
    """x * f(x), where f is an operator of this type."""
    if op.type != "Mul" or len(op.inputs) != 2:
        return None
    for name in op.inputs:
        inner = _maker(graph, name, kind)
        if inner is not None and inner.inputs[0] == _other(op, name):
            return inner.inputs[0], inner
    return None


def _hard_gated(graph: Graph, op: Op) -> None:
    """x * hardsigmoid(x), with the constants of a hard swish."""
    found = _product(graph, op, "HardSigmoid")
    if found is not None:
        alpha, beta = (float(found[1].attributes.get(key, default)) for key, default in (("alpha", 0.2), ("beta", 0.5)))
        if abs(alpha - 1 / 6) < 1e-3 and abs(beta - 0.5) < 1e-3:
            _put(graph, op, found[0], Activation("hardswish"), found[1].name)


def _gated(graph: Graph, op: Op) -> None:
    """x * f(g(x)), for the functions whose `gate` is f, g."""
    if op.type != "Mul" or len(op.inputs) != 2:
        return
    for function in NPU_FUNCTIONS.values():
        for name in op.inputs if function.gate else ():
            steps: list[Op] = []
            for kind in function.gate:
                step = _maker(graph, steps[-1].inputs[0] if steps else name, kind)
                if step is None:
                    break
                steps.append(step)
            if len(steps) == len(function.gate) and steps[-1].inputs[0] == _other(op, name):
                _put(graph, op, steps[-1].inputs[0], Activation(function.name), *(step.name for step in steps))
                return


def _hardswish(graph: Graph, op: Op) -> None:
    """x * clip(x + 3, 0, 6) / 6, in the two orders that exporters use."""
    if _scalar(graph, op, 6.0) and op.type == "Div":
        product = _maker(graph, op.inputs[0], "Mul")
        if product is None:
            return
        for name in product.inputs:
            source = _shifted_clip(graph, name)
            if source is not None and source == _other(product, name):
                _put(graph, op, source, Activation("hardswish"), product.name)
                return
    if op.type == "Mul" and len(op.inputs) == 2:
        for name in op.inputs:
            divided = _maker(graph, name, "Div")
            source = _shifted_clip(graph, divided.inputs[0]) if divided and _scalar(graph, divided, 6.0) else None
            if source is not None and source == _other(op, name):
                _put(graph, op, source, Activation("hardswish"), name)
                return
    if op.type in {"Div", "Mul"}:
        is_sixth = _scalar(graph, op, 6.0) if op.type == "Div" else _scalar(graph, op, 1 / 6)
        source = _shifted_clip(graph, op.inputs[0]) if is_sixth else None
        if source is not None:
            _put(graph, op, source, Activation("hardsigmoid", 1 / 6, 0.5))


def _shifted_clip(graph: Graph, name: str) -> str | None:
    """x, where `name` is clip(x + 3, 0, 6)."""
    clip = _maker(graph, name, "Clip")
    if clip is None or len(graph.activations(clip)) > 1 or _bounds(graph, clip) != (0.0, 6.0):
        return None
    plus = _maker(graph, clip.inputs[0], "Add")
    if plus is None or not _scalar(graph, plus, 3.0):
        return None
    return next((source for source in plus.inputs if source not in graph.constants), None)


def _gelu(graph: Graph, op: Op) -> None:
    """x * (1 + erf(x / sqrt(2))) * 0.5, the half in either place."""
    makers: tuple[Callable[[], str | None], ...] = (lambda: _gelu_late(graph, op), lambda: _gelu_early(graph, op))
    for maker in makers:
        source = maker()
        if source is not None:
            _put(graph, op, source, Activation("gelu"))
            return


def _one_plus_erf(graph: Graph, name: str) -> str | None:
    plus = _maker(graph, name, "Add")
    if plus is None or not _scalar(graph, plus, 1.0):
        return None
    erf = next((found for entry in plus.inputs if (found := _maker(graph, entry, "Erf")) is not None), None)
    if erf is None:
        return None
    divided = graph.producer(erf.inputs[0])
    if divided is None or not (
        (divided.type == "Div" and _scalar(graph, divided, 2**0.5))
        or (divided.type == "Mul" and _scalar(graph, divided, 0.5**0.5))
    ):
        return None
    return next((entry for entry in divided.inputs if entry not in graph.constants), None)


def _gelu_late(graph: Graph, op: Op) -> str | None:
    if op.type != "Mul" or not _scalar(graph, op, 0.5):
        return None
    product = next((found for entry in op.inputs if (found := _maker(graph, entry, "Mul")) is not None), None)
    if product is None:
        return None
    for name in product.inputs:
        source = _one_plus_erf(graph, name)
        if source is not None and source == _other(product, name):
            return source
    return None


def _gelu_early(graph: Graph, op: Op) -> str | None:
    """(x * 0.5) * (1 + erf) or x * ((1 + erf) * 0.5)."""
    if op.type != "Mul" or len(op.inputs) != 2:
        return None
    for name in op.inputs:
        other = _maker(graph, _other(op, name), "Mul")
        source = _one_plus_erf(graph, name)
        if source is not None and other is not None and _scalar(graph, other, 0.5) and source in other.inputs:
            return source
        half = _maker(graph, name, "Mul")
        if half is not None and _scalar(graph, half, 0.5):
            inner = next((found for entry in half.inputs if (found := _one_plus_erf(graph, entry))), None)
            if inner is not None and inner == _other(op, name):
                return inner
    return None
