"""Cross-layer equalisation: channels of one value that differ much in size are made alike.

int8 has one scale for a whole value. Where one convolution feeds another, with nothing or a ReLU between, channel c of
the value between them can be divided by any s[c] > 0 if the second convolution's weights for it are multiplied by s[c]:

    relu(x / s) = relu(x) / s

The same is true of leaky and parametric ReLU. A ReLU6 has one bound for all channels: there channels may only grow, and
no further than the bound with some room, so that nothing is cut off which was not before.

Weights have a scale per output channel, so the first convolution loses nothing, and a depthwise second one neither:
there all channels get the same size. An ordinary second convolution gets the geometric mean: half of the unevenness
goes to its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.quantise.groups import moves

_LIMIT = 256.0
"""A channel grows by no more: beyond that it was noise before."""
_HOMOGENEOUS = {"relu", "leaky", "prelu"}
_ROOM = 1.25
"""What a channel can reach in use beyond what calibration saw, below the bound of a ReLU6."""


def equalise(graph: Graph, model: Any, feeds: Sequence[Mapping[str, Array]]) -> int:
    """Equalise every pair of convolutions; how many there were. A model that brings its own scales stays as it is."""
    return equalise_by(graph, reach_of(graph, model, feeds))


def reach_of(graph: Graph, model: Any, feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The largest absolute number in each channel of what could be equalised."""
    pairs = [] if graph.given or graph.stored else pairs_of(graph)
    return _reach(graph, model, [first.output for first, _ in pairs], feeds)


def equalise_by(graph: Graph, reach: Mapping[str, Array]) -> int:
    """Equalise by reaches that are known already: graphs of several shapes share them."""
    pairs = [] if graph.given or graph.stored else pairs_of(graph)
    done = 0
    for first, second in pairs:
        if first.output in reach:
            factors = _factors(reach[first.output], _weight_reach(graph, second))
            bound = _bound(first)
            if bound is not None:
                factors = np.minimum(np.maximum(factors, _ROOM * reach[first.output] / bound), 1.0)
            rescale(graph, first, second, factors)
            done += 1
    return done


def pairs_of(graph: Graph) -> list[tuple[Op, Op]]:
    """(convolution, the convolution that alone reads it), with nothing, a ReLU of any kind or a ReLU6 between."""
    readers = graph.readers()
    found = []
    for op in graph.ops:
        if not _is_plain(graph, op) or len(op.inputs) > 3 or op.output in graph.outputs:
            continue
        if op.activation is not None and op.activation.function not in _HOMOGENEOUS and _bound(op) is None:
            continue
        users = readers[op.output]
        if len(users) == 1 and _is_plain(graph, users[0]) and _reads_once(users[0], op.output):
            found.append((op, users[0]))
    return found


def _bound(op: Op) -> float | None:
    """The upper bound of a ReLU6; None: there is none."""
    activation = op.activation
    return activation.beta if activation is not None and activation.function == "clip" and activation.beta else None


def _reads_once(op: Op, name: str) -> bool:
    return op.inputs[0] == name and op.inputs.count(name) == 1 and not op.get(Conv).pad_value


def _is_plain(graph: Graph, op: Op) -> bool:
    is_own = op.type == "Conv" and not moves(op) and not op.get(Conv).edges
    return is_own and len(op.inputs) > 2 and op.inputs[1] in graph.constants and op.inputs[2] in graph.constants


def rescale(graph: Graph, first: Op, second: Op, factors: Array) -> None:
    """Divide the value between two convolutions by `factors`, channel by channel; the second one's output stays."""
    weight, bias, reader = (graph.constants[name] for name in (*first.inputs[1:3], second.inputs[1]))
    group = second.get(Conv).group
    parts = reader.reshape(group, len(reader) // group, *reader.shape[1:])
    scaled = (parts * factors.reshape(group, 1, -1, 1, 1)).reshape(reader.shape)
    old = first.output
    new = graph.add_value(f"{old}_equal", graph.values[old].shape)
    source, function = origin(graph, old)
    graph.derived[new] = source, lambda values: _divided(function(values), factors)
    for name, (other, _) in list(graph.derived.items()):
        if other == old:  # it is gone in a moment, and ONNX may not have it
            graph.derived[name] = origin(graph, name)
    first.inputs[1] = graph.add_constant(f"{first.inputs[1]}_equal", weight / factors.reshape(-1, 1, 1, 1))
    first.inputs[2] = graph.add_constant(f"{first.inputs[2]}_equal", bias / factors)
    second.inputs[1] = graph.add_constant(f"{second.inputs[1]}_equal", scaled)
    first.outputs[0] = second.inputs[0] = new
    if old in graph.partial:
        graph.partial[new] = graph.partial.pop(old)
    graph.prune()


def origin(graph: Graph, name: str) -> tuple[str, Callable[[Array], Array]]:
    """The value of the ONNX model that a value is derived from, and how."""
    steps: list[Callable[[Array], Array]] = []
    while name in graph.derived:
        name, function = graph.derived[name]
        steps.append(function)

    def derive(values: Array) -> Array:
        for step in reversed(steps):
            values = step(values)
        return values

    return name, derive


def _divided(values: Array, factors: Array) -> Array:
    result: Array = values / factors.reshape(-1, *[1] * (values.ndim - 2)).astype(np.float32)
    return result


def _reach(graph: Graph, model: Any, names: Iterable[str], feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The largest absolute number in each channel of some values."""
    wanted = {name: origin(graph, name) for name in names}
    runner = FloatModel(model, list(dict.fromkeys(source for source, _ in wanted.values())))
    found: dict[str, Array] = {}
    for feed in feeds:
        seen = dict(runner.run(feed))
        for name, (source, function) in wanted.items():
            if source not in seen:
                continue
            values = function(seen[source])
            size = np.abs(values).reshape(len(values), values.shape[1], -1).max((0, 2)).astype(np.float64)
            found[name] = np.maximum(found[name], size) if name in found else size
    return found


def _weight_reach(graph: Graph, op: Op) -> Array | None:
    """How large the weights for each input channel are beside the others of their output; None: a channel each."""
    weight, group = graph.constants[op.inputs[1]], op.get(Conv).group
    if weight.shape[1] == 1:
        return None
    size = np.abs(weight).max((2, 3))
    size = size / np.maximum(size.max(1, keepdims=True), np.finfo(np.float64).tiny)
    result: Array = size.reshape(group, -1, weight.shape[1]).max(1).reshape(-1)
    return result


def _factors(reach: Array, weights: Array | None) -> Array:
    """What to divide each channel by, so that the largest of all stays as large as it was."""
    alive = reach > 0 if weights is None else (reach > 0) & (weights > 0)
    if not alive.any():
        return np.ones_like(reach)
    wanted = reach.copy() if weights is None else np.sqrt(reach / np.where(alive, weights, 1.0))
    wanted[~alive] = wanted[alive].max()
    wanted *= float((reach / wanted).max()) / float(reach.max())
    result: Array = np.maximum(wanted, wanted.max() / _LIMIT)
    return result
