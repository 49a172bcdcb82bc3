"""What the quantisation of each operator costs at the outputs, estimated with two kinds of runs.

Its own error: the int8 model on the software NPU, operator by operator, each on the float model's numbers. What that
does to the outputs: the float model with this error added where the operator's result is. One compilation serves all
operators, and a run in float takes a fraction of one on the software NPU.

Errors of different operators hardly know of each other, so their powers at an output add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.analysis.accuracy.windows import windows_in
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.ir import Array, Graph
from openrknn.container.model import Model
from openrknn.runtime.inspector import Inspector

_TINY = 1e-30
_SUFFIX = "_error"


@dataclass(slots=True)
class Noise:
    """Powers at the outputs, summed over the samples."""

    signal: Array
    of: dict[str, Array] = field(default_factory=dict)
    """Operator, by what it writes -> the power of its error at each output."""

    def decibels(self, name: str) -> float:
        """Of the worst output, if this operator alone is int8."""
        return float(np.min(10 * np.log10(np.maximum(self.signal, _TINY) / np.maximum(self.of[name], _TINY))))

    def predicted(self, names: Sequence[str]) -> float:
        """Of the worst output, if these are int8."""
        power = np.sum([self.of[name] for name in names], axis=0) if names else np.zeros_like(self.signal)
        return float(np.min(10 * np.log10(np.maximum(self.signal, _TINY) / np.maximum(power, _TINY))))


def estimate_noise(
    graph: Graph, source: Any, model: Model, feeds: Sequence[Mapping[str, Array]], names: Sequence[str],
    tell: Callable[[int], None] = lambda done: None,
) -> Noise:  # fmt: skip
    """`model` is the int8 model of the graph, `source` its ONNX model; `tell` hears how many runs are done."""
    teacher_model = FloatModel(source, list(graph.values))
    made = {name for node in source.graph.node for name in node.output}
    places = _places(graph, names, made)
    probe = FloatModel(_with_errors(source, sorted(set(places.values()))), graph.outputs, fuses=True)
    noise = Noise(np.zeros(len(graph.outputs)), {name: np.zeros(len(graph.outputs)) for name in names})
    sizes = {tensor.name: tensor.elements for tensor in model.graphs[0].tensors}
    done = 0
    with Inspector(model, "software", windows=windows_in(model)) as inspector:
        for feed in feeds:
            teacher = dict(teacher_model.run(feed))
            wanted = [teacher[name].astype(np.float64) for name in graph.outputs]
            noise.signal += [float(np.sum(values**2)) for values in wanted]
            taught = {name: values for name, values in teacher.items() if sizes.get(name) == values.size}
            reached: dict[str, Array] = {}
            errors = _errors(inspector, taught, set(places.values()))
            for name in names:
                done += 1
                tell(done)
                place = places.get(name)
                if place in errors:
                    if place not in reached:
                        reached[place] = _reached(probe, {**feed, place + _SUFFIX: errors[place]}, graph, wanted)
                    noise.of[name] += reached[place]
    return noise


def _errors(inspector: Inspector, taught: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """What each operator makes of the teacher's numbers, less what the teacher makes of them."""
    found: dict[str, Array] = {}
    for item in inspector.isolated(taught):
        wanted = taught.get(item.tensor.name)
        if item.tensor.name in names and wanted is not None:
            found[item.tensor.name] = (item.real.reshape(wanted.shape) - wanted).astype(np.float32)
    return found


def _reached(probe: FloatModel, feed: Mapping[str, Array], graph: Graph, wanted: list[Array]) -> Array:
    """The power of an error at each output."""
    found = dict(probe.run(feed))
    return np.array([np.sum((found[name] - values) ** 2) for name, values in zip(graph.outputs, wanted, strict=True)])


def _places(graph: Graph, names: Sequence[str], made: set[str]) -> dict[str, str]:
    """Operator -> the value of the ONNX model where its error is added: its own, or that of the next one which has any.

    What ONNX does not have (half of a sum, say) gets no teacher, so the error is in what is made of it.
    """
    readers = graph.readers()
    found: dict[str, str] = {}
    for name in names:
        place, seen = name, {name}
        while place not in made and readers.get(place) and readers[place][0].output not in seen:
            place = readers[place][0].output
            seen.add(place)
        if place in made:
            found[name] = place
    return found


def _with_errors(model: Any, names: Sequence[str]) -> Any:
    """The model with an input for each of these values that is added to it, 0 if it is not given."""
    onnx = onnx_package()
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    raw = {name: f"{name}_raw" for name in names}
    nodes = []
    for node in copy.graph.node:
        node.output[:] = [raw.get(name, name) for name in node.output]
        nodes.append(node)
        nodes += [
            onnx.helper.make_node("Add", [raw[name], name + _SUFFIX], [name])
            for name in names
            if raw[name] in node.output
        ]
    ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(ordered)
    for name in names:
        zero = onnx.numpy_helper.from_array(np.zeros(1, np.float32), name + _SUFFIX)
        copy.graph.initializer.append(zero)
        info = onnx.helper.make_tensor_value_info(name + _SUFFIX, onnx.TensorProto.FLOAT, None)
        copy.graph.input.append(info)
    del copy.graph.value_info[:]
    return copy


def rank(noise: Noise, names: Sequence[str]) -> list[str]:
    """The order in which operators should become fp16: each time the one that the worst output suffers from most."""
    left = list(names)
    total = np.sum([noise.of[name] for name in left], axis=0) if left else np.zeros_like(noise.signal)
    ordered: list[str] = []
    while left:
        worst = int(np.argmax(total / np.maximum(noise.signal, _TINY)))
        chosen = max(left, key=lambda name: noise.of[name][worst])  # the first one of equals
        left.remove(chosen)
        ordered.append(chosen)
        total = np.maximum(total - noise.of[chosen], 0)
    return ordered
