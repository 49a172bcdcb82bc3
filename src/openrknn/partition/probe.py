"""The first run, beside the whole model on the CPU: fp16 ends at 65504, and only real inputs tell what goes beyond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import FloatModel, onnx_package
from openrknn.compiler.importer.fold import CHANCE
from openrknn.compiler.importer.masks import is_mask, readers_of
from openrknn.distance import measure
from openrknn.partition.options import PartitionOptions
from openrknn.partition.prepare import prepare
from openrknn.partition.view import Value

__all__ = ["LIMITS", "is_far", "is_sound", "is_tellable", "largest"]

LIMITS = (65504.0, 2048.0)
"""What fp16 holds, and what it holds when it is squared and added up."""
_FAR_DB = 10.0
_SCORE = 2e-3
"""Of 1: scores that are all near 0 are right, however few decibels that is."""


def is_tellable(model: Any, options: PartitionOptions) -> bool:
    """Whether two runs can be compared: not where chance has a share, and int8 is far from float by the user's wish."""
    is_int8 = options.calibration is not None or options.precision in {"int8", "mixed"}
    return not is_int8 and not any(node.op_type in CHANCE for node in _nodes(model.graph))


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


def is_far(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a float output is nothing like it should be."""
    for name, right in wanted.items():
        mine = found[name]
        if not isinstance(right, np.ndarray) or right.dtype.kind != "f" or not right.size:
            continue
        sound = np.isfinite(right)
        if not np.isfinite(mine[sound]).all():
            return True
        if not sound.all() or (np.abs(right).max() <= 1 and np.abs(mine - right).max() <= _SCORE):
            continue
        if measure(mine.astype(np.float64), right.astype(np.float64)).snr_db < _FAR_DB:
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
