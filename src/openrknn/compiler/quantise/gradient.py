"""What an error in each channel of each value costs the outputs, to first order.

With y the model's outputs and v random numbers of variance 1 / |y|^2, the gradient g of v * y with respect to a value
has E[(g * e)^2] = |J e|^2 / |y|^2: the noise-to-signal ratio that an error e of that value leaves at the outputs. So
the mean of g^2 over the pixels of a channel, times the power of the errors there, is what these errors cost. One run
forward and a few runs backward (`backward`, all of them by ONNX Runtime) tell it for every value at once.

A value from which some way to an output leads through an operator that has no adjoint here is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.ir import Array
from openrknn.compiler.quantise.backward import RULES, Rule, Tape

_PROBES = 1
"""Random directions at the outputs for each input."""
_SEED = 20
_OPSET = 15
_LARGEST = 1 << 28
"""Numbers in all forward values together: beyond it the memory would be too much."""
_TINY = 1e-30


def channel_costs(model: Any, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Value -> for each channel the cost of one number's squared error, as a noise-to-signal ratio at the outputs."""
    if not feeds or find_spec("onnxruntime") is None:  # onnx's own evaluator would take minutes
        return {}
    try:
        return _measured(model, outputs, feeds)
    except CompileError:  # what is not known is not used
        return {}


def _measured(model: Any, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    onnx = onnx_package()
    constants = {entry.name: onnx.numpy_helper.to_array(entry) for entry in model.graph.initializer}
    shapes = _shapes(model, feeds[0])
    if sum(int(np.prod(shape)) for shape in shapes.values()) > _LARGEST:
        return {}
    tape = Tape(onnx, shapes, constants)
    gradients = _differentiate(tape, model, outputs)
    if not gradients:
        return {}
    sums: dict[str, Array] = {}
    makes = {}
    for name, gradient in gradients.items():
        rank = len(shapes[name])
        axes = [axis for axis in range(rank) if axis != 1] if rank > 1 else []
        if axes:
            makes[name] = tape.emit("ReduceSumSquare", [gradient], axes=axes, keepdims=0)
        else:
            makes[name] = tape.emit("Mul", [gradient, gradient])
    seeds = {name: f"_seed_{number}" for number, name in enumerate(outputs) if name in shapes}
    backward = FloatModel(_model(onnx, tape, shapes, seeds), list(makes.values()), fuses=True)
    forward = FloatModel(model, list(dict.fromkeys([*outputs, *tape.used])))
    chance = np.random.default_rng(_SEED)
    for feed in feeds:
        values = dict(forward.run(feed))
        given = {name: values[name] for name in tape.used}
        for _ in range(_PROBES):
            for name, seed in seeds.items():
                power = float(np.sum(np.square(values[name], dtype=np.float64)))
                given[seed] = (chance.standard_normal(shapes[name]) / np.sqrt(max(power, _TINY))).astype(np.float32)
            found = dict(backward.run(given))
            for name, made in makes.items():
                sums[name] = sums.get(name, 0.0) + found[made].astype(np.float64).reshape(-1)
        del values, given, found  # before the next run makes as much again
    pixels = {name: int(np.prod(shapes[name])) // max(1, total.size) for name, total in sums.items()}
    runs = len(feeds) * _PROBES
    return {name: total / (runs * pixels[name]) for name, total in sums.items() if np.isfinite(total).all()}


def _shapes(model: Any, feed: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Of all float values."""
    found = {name: tuple(values.shape) for name, values in feed.items()}
    for entry in (*model.graph.value_info, *model.graph.output):
        dims = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        if entry.type.tensor_type.elem_type == 1 and all(size > 0 for size in dims):
            found[entry.name] = tuple(dims)
    return found


def _differentiate(tape: Tape, model: Any, outputs: Sequence[str]) -> dict[str, str]:
    """The gradient of each value, from the outputs to the inputs."""
    parts: dict[str, list[str]] = {}
    for number, name in enumerate(outputs):
        if name in tape.shapes:
            parts.setdefault(name, []).append(f"_seed_{number}")
    unsure: set[str] = set()
    found: dict[str, str] = {}
    for node in reversed(model.graph.node):
        name = node.output[0]
        live = [entry for entry in node.input if entry and entry not in tape.constants]
        if any(entry in unsure for entry in node.output):
            unsure.update(live)
        if name not in parts:
            continue
        gradient = found[name] = _summed(tape, parts[name])
        rule = RULES.get(node.op_type)
        known = all(entry in tape.shapes for entry in (*live, name)) and len(node.output) == 1
        made = _applied(rule, tape, node, gradient) if rule is not None and known else None
        if made is None:
            unsure.update(live)
            continue
        for entry, part in zip(node.input, made, strict=False):
            if part is not None:
                parts.setdefault(entry, []).append(part)
    for entry in model.graph.input:
        if entry.name in parts and entry.name in tape.shapes:
            found[entry.name] = _summed(tape, parts[entry.name])
    return {name: gradient for name, gradient in found.items() if name not in unsure}


def _applied(rule: Rule, tape: Tape, node: Any, gradient: str) -> list[str | None] | None:
    """None: this form of the operator is one that the rule has not thought of."""
    try:
        return rule(tape, node, gradient)
    except (KeyError, IndexError, ValueError, TypeError):
        return None


def _summed(tape: Tape, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else tape.emit("Sum", parts)


def _model(onnx: Any, tape: Tape, shapes: Mapping[str, tuple[int, ...]], seeds: Mapping[str, str]) -> Any:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(name, kind, shapes[name]) for name in tape.used if name in shapes]
    inputs += [helper.make_tensor_value_info(seed, kind, shapes[name]) for name, seed in seeds.items()]
    stored = [onnx.numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in tape.stored.items()]
    graph = helper.make_graph(tape.nodes, "backward", inputs, [], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
