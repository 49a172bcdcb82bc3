"""The first run, beside the whole model on the CPU: fp16 ends at 65504, and only real inputs tell what goes beyond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.importer.masks import is_mask
from openrknn.compiler.operators import RANDOM
from openrknn.distance import measure
from openrknn.onnxgraph import readers_of
from openrknn.partition.options import PartitionOptions
from openrknn.partition.prepare import prepare
from openrknn.partition.view import Value

LIMITS = (65504.0, 2048.0)
"""What fp16 holds, and what it holds when it is squared and added up."""
_FAR_DB = 10.0
_HALF_STEP, _SMALLEST = 2.0**-11, 2.0**-24
"""What rounding to fp16 changes: of a number, and near 0."""
_LOOSE = 10 ** (-_FAR_DB / 20)
_MOST_ROUNDINGS = 100
"""So many are 5 % of a well-behaved result: an error of 30 %, which is 10 dB, is never excused by them."""
_SCORE = 2e-3
"""Of 1: scores that are all near 0 are right, however few decibels that is."""


def is_tellable(model: Any, options: PartitionOptions) -> bool:
    """Whether two runs can be compared: not where chance has a share, and int8 is far from float by the user's wish."""
    is_int8 = options.calibration is not None or options.precision in {"int8", "mixed"}
    return not is_int8 and not any(node.op_type in RANDOM for node in _nodes(model.graph))


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for entry in node.attribute:
            for inner in [entry.g] if entry.HasField("g") else entry.graphs:
                yield from _nodes(inner)


def is_sound(feed: Mapping[str, Any]) -> bool:
    """NaN and infinity teach nothing."""
    return all(
        np.isfinite(value).all() for value in feed.values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    )


def rounded_otherwise(feed: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The inputs, each number by at most one rounding step of fp16 off."""
    chance = np.random.default_rng(seed)
    return {name: _moved(value, chance) if _is_float(value) else value for name, value in feed.items()}


def run_rounded(model: Any, feed: Mapping[str, Any], outputs: Sequence[str], seed: int) -> dict[str, Any]:
    """Outputs of the float model with inputs and weights that are one rounding off; nothing where it cannot tell."""
    onnx = onnx_package()
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    chance = np.random.default_rng(seed)
    for tensor in copy.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            moved = _moved(onnx.numpy_helper.to_array(tensor), chance)
            tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
    try:
        return dict(FloatModel(copy, outputs, fuses=True).run(rounded_otherwise(feed, seed)))
    except CompileError:
        return {}


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0


def _moved(value: Any, chance: np.random.Generator) -> Any:
    steps = chance.uniform(-1, 1, value.shape) * (np.abs(value) * _HALF_STEP + _SMALLEST)
    return np.asarray(value + steps, value.dtype)


def noise_of(wanted: Mapping[str, Any], others: Sequence[Mapping[str, Any]], roundings: int) -> dict[str, Any]:
    """How far each number of an output may be off, with so many roundings one after the other.

    `others` are outputs of the float model with inputs and weights that are one rounding off. What moves them moves
    the NPU's result as much, once for each rounding on the way: the pitch of a silent frame is noise for both.
    """
    most = min(max(roundings, 1), _MOST_ROUNDINGS)
    noise: dict[str, Any] = {}
    for name, right in wanted.items():
        near = [other[name] for other in others if name in other and np.shape(other[name]) == np.shape(right)]
        if _is_float(right) and near:
            noise[name] = most * np.sqrt(np.mean([(one.astype(np.float64) - right) ** 2 for one in near], axis=0))
    return noise


def _is_loose(noise: Any, right: Any) -> Any:
    """Numbers that rounding alone can move by more than the error that is called far: those are judged together."""
    return ~(noise < _LOOSE * np.maximum(np.abs(right), np.sqrt(np.mean(right.astype(np.float64) ** 2))))


def is_far(found: Mapping[str, Any], wanted: Mapping[str, Any], noise: Mapping[str, Any] | None = None) -> bool:
    """Whether a float output is nothing like it should be; `noise`: how far each number may be off."""
    for name, right in wanted.items():
        mine = found[name]
        if not isinstance(right, np.ndarray) or right.dtype.kind != "f" or not right.size:
            continue
        sound = np.isfinite(right)
        if not np.isfinite(mine[sound]).all():
            return True
        if not sound.all() or (np.abs(right).max() <= 1 and np.abs(mine - right).max() <= _SCORE):
            continue
        mine, exact = mine.astype(np.float64).reshape(-1), right.astype(np.float64).reshape(-1)
        if noise is not None and name in noise:
            loose = np.reshape(_is_loose(noise[name], right), -1)
            allowed = noise[name].reshape(-1)[loose]
            if np.sum((mine - exact)[loose] ** 2) > np.sum(allowed**2):
                return True
            mine, exact = mine[~loose], exact[~loose]
        if exact.size and measure(mine, exact).snr_db < _FAR_DB:
            return True
    return False


def largest(model: Any, shapes: Mapping[str, Sequence[int]], feed: Mapping[str, Any]) -> dict[str, float]:
    """Value -> its largest number, in float, but for masks; nothing where the float model cannot tell."""
    copy = onnx_package().ModelProto()
    copy.CopyFrom(model)
    view = prepare(copy, shapes)
    names = [name for node in view.nodes for name in node.makes if view.values.get(name, Value()).kind == 1]
    readers, outputs = readers_of(view.model.graph.node), set(view.outputs)
    found = {}
    try:
        for name, value in FloatModel(view.model, names).run({name: feed[name] for name in view.inputs}):
            if value.dtype.kind == "f" and value.size and not is_mask(name, readers, outputs):
                found[name] = float(np.abs(value).max())
    except CompileError:
        return {}
    return found
