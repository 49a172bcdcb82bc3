"""Graph models of TensorFlow.js: `model.json` with the nodes, and shards with the weights one behind the other.

    {"modelTopology": {"node": [{"name": "a", "op": "Conv2D", "input": ["x", "w"], "attr": {"padding": {"s": ...}}}]},
     "weightsManifest": [{"paths": ["group1-shard1of5", ...],
                          "weights": [{"name": "w", "shape": [3, 3, 3, 32], "dtype": "float32"}, ...]}]}

An attribute is a dictionary with one entry for its kind: s (text, in base 64 or as numbers), i (a whole number, as
text), f, b, list. Weights that are quantised are refused: nothing that is known here needs them.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.models.errors import GettingError

__all__ = ["GraphModel", "Node", "read_graph"]

Array = npt.NDArray[Any]
_LARGEST_GRAPH = 1 << 26
_LARGEST_WEIGHTS = 1 << 30
_MOST_NODES = 100_000
_TYPES = {"float32": "<f4", "int32": "<i4", "bool": "|b1", "uint8": "|u1"}


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the graph."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: dict[str, Any]

    def integers(self, name: str) -> list[int]:
        """A list of whole numbers; empty where the attribute is missing."""
        found = self._attribute(name).get("list", {})
        return [int(value) for value in found.get("i", ())]

    def number(self, name: str, default: float) -> float:
        return float(self._attribute(name).get("f", default))

    def text(self, name: str) -> str:
        stored = self._attribute(name).get("s", "")
        if isinstance(stored, list):
            return bytes(stored).decode("ascii", "replace")
        return base64.b64decode(stored).decode("ascii", "replace") if isinstance(stored, str) else ""

    def _attribute(self, name: str) -> dict[str, Any]:
        found = self.attributes.get(name, {})
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class GraphModel:
    """The nodes by name, and the constants."""

    nodes: dict[str, Node]
    weights: dict[str, Array]

    def node(self, name: str) -> Node:
        """A node by its name, or by that of its first output."""
        try:
            return self.nodes[name.removesuffix(":0")]
        except KeyError:
            raise GettingError(f"the graph has no node {name!r:.80}; this is not the model it should be") from None


def read_graph(path: Path) -> GraphModel:
    """`model.json` and the shards beside it."""
    try:
        if path.stat().st_size > _LARGEST_GRAPH:
            raise GettingError(f"{path}: larger than {_LARGEST_GRAPH} bytes; this is no graph of TensorFlow.js")
        stored = json.loads(path.read_bytes())
        nodes = [_node(row) for row in stored["modelTopology"]["node"]]
        if len(nodes) > _MOST_NODES:
            raise GettingError(f"{path}: {len(nodes)} nodes; this is not the model it should be")
        weights: dict[str, Array] = {}
        for group in stored["weightsManifest"]:
            weights |= _weights(group, path.parent)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise GettingError(f"{path}: not a graph of TensorFlow.js that can be read: {error!r:.200}") from error
    return GraphModel({node.name: node for node in nodes}, weights)


def _node(row: dict[str, Any]) -> Node:
    inputs = tuple(str(name) for name in row.get("input", ()) if not str(name).startswith("^"))
    attributes = row.get("attr", {})
    return Node(str(row["name"]), str(row["op"]), inputs, attributes if isinstance(attributes, dict) else {})


def _weights(group: dict[str, Any], folder: Path) -> dict[str, Array]:
    body = b"".join(_shard(folder, str(name)) for name in group["paths"])
    found: dict[str, Array] = {}
    at = 0
    for row in group["weights"]:
        name, kind, shape = str(row["name"]), str(row["dtype"]), [int(size) for size in row["shape"]]
        if kind not in _TYPES or row.get("quantization") is not None:
            raise GettingError(f"the weights {name!r:.80} are stored as {kind} with a scale, which is not read here")
        if min(shape, default=0) < 0:
            raise GettingError(f"the weights {name!r:.80} have the shape {shape}")
        size = math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
        if at + size > len(body):
            raise GettingError(f"the weights {name!r:.80} end behind the last shard; the download is not complete")
        found[name] = np.frombuffer(body, _TYPES[kind], math.prod(shape), at).reshape(shape)
        at += size
    if at != len(body):
        raise GettingError(f"the shards have {len(body)} bytes, and the weights {at}; not the model it should be")
    return found


def _shard(folder: Path, name: str) -> bytes:
    if Path(name).name != name or name in {"", ".", ".."}:
        raise GettingError(f"the shard {name!r:.80} is not a file beside the graph")
    path = folder / name
    if path.stat().st_size > _LARGEST_WEIGHTS:
        raise GettingError(f"{path}: larger than {_LARGEST_WEIGHTS} bytes")
    return path.read_bytes()
