"""What cross attention needs of the encoder's states, computed once: cut out of the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.compiler.errors import CalibrationError, SequenceError
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.ir import Array
from openrknn.compiler.sequence.moving import LONGEST_MASK
from openrknn.compiler.sequence.net import SHAPE_READERS, Net, flat, origin
from openrknn.compiler.sequence.roles import Roles


@dataclass(frozen=True)
class Cross:
    """A graph of its own: states in, keys and values of all layers out."""

    model: Any
    states: str
    """Its input."""
    shape: tuple[int, ...]
    constants: dict[str, Array]
    """Inputs that it reads and that are always the same."""


def cut_cross(roles: Roles, first: Any, frames: int) -> Cross | None:
    """From the first step's model (a merged one: the branch without a past); None: nothing is to be computed."""
    net = flat(first, dict.fromkeys(_truths(first), False))
    found = {one.name: _output(roles, net, one.name) for one in roles.bound}
    pairs = {past: name for past, name in found.items() if name}
    if not pairs:
        return None
    onnx = onnx_package()
    part = net.part(list(pairs.values()), _sizes(net, frames))
    states = [entry.name for entry in part.graph.input if net.kind(entry.name).kind == "f"]
    if len(states) != 1:
        raise SequenceError(
            f"cross attention ({next(iter(pairs))!r}) is computed of {', '.join(states) or 'nothing'} in the first "
            "step; one input of the encoder's states is wanted", operators=list(pairs.values())[:1],
        )  # fmt: skip
    shape = _fed(net, states[0], frames, 1).shape
    constants = {entry.name: _fed(net, entry.name, frames, 1) for entry in part.graph.input if entry.name != states[0]}
    names = {name: f"cross.{past}" for past, name in pairs.items()}
    made = {name for node in part.graph.node for name in node.output}
    for name in names:
        if name not in made:
            raise SequenceError(f"output {name!r} of the first step is not computed there", operators=[name])
    for node in part.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del part.graph.output[:]
    part.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names.values()
    )
    part.graph.name = "cross"
    return Cross(part, states[0], shape, constants)


def _truths(source: Any) -> list[str]:
    """Switches of a merged model."""
    from openrknn.compiler.importer.read import read_model

    kind = onnx_package().TensorProto.BOOL
    return [entry.name for entry in read_model(source).graph.input if entry.type.tensor_type.elem_type == kind]


def _output(roles: Roles, net: Net, past: str) -> str:
    """The output of the first step that becomes this input: the step passes it on, or the names match.

    Empty: the first step takes the same input.
    """
    given = [name for name in roles.net.outputs if origin(roles.net, name) == past]
    guesses = [*given, past.replace("past_key_values", "present"), past.replace("past", "present")]
    found = next((name for name in guesses if name in net.outputs), None)
    if found is None and past in net.inputs:
        return ""  # the states themselves
    if found is None:
        raise SequenceError(
            f"no output of the first step becomes {past!r} (looked for {', '.join(dict.fromkeys(guesses))}); leave the "
            "first step away and give these arrays to Decoder.start", operators=[past],
        )  # fmt: skip
    return found


def _fed(net: Net, name: str, frames: int, longer: int) -> Array:
    """The first step's inputs: ones for masks, zeros for the rest, of as many frames."""
    dims, kind = net.dims(name), net.kind(name)
    if "mask" in name:
        return np.ones([1] * (len(dims) - 1) + [frames * longer], kind)
    opened = [place for place, size in enumerate(dims) if isinstance(size, str) and place]
    axis = (opened[0] if opened else len(dims) - 2) if kind.kind == "f" else -1
    if "past" in name:
        return np.zeros([0 if place in opened else 1 if isinstance(size, str) else size
                         for place, size in enumerate(dims)], kind)  # fmt: skip
    return np.zeros(
        [frames if place == axis else size if isinstance(size, int) else 1 for place, size in enumerate(dims)], kind
    )


def _sizes(net: Net, frames: int) -> dict[str, Array]:
    """What Shape says of values in the first step: nothing of it depends on tokens."""
    names = [name for node in net.nodes if node.op_type in SHAPE_READERS for name in node.output]
    model = FloatModel(net.model, names)
    for longer in (1, LONGEST_MASK):
        try:
            feed = {name: _fed(net, name, frames, longer) for name in net.inputs}
            return {name: np.asarray(value) for name, value in model.run(feed) if name in names}
        except CalibrationError as error:
            said = error
    raise SequenceError(f"the first step does not run with {frames} frames: {said}")
