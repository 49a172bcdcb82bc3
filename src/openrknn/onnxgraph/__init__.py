"""ONNX graphs as lists of nodes; depends only on the model that it is given."""

from __future__ import annotations

from openrknn.onnxgraph.graph import OnnxGraph
from openrknn.onnxgraph.walk import in_order, makers_of, readers_of, reads_of, values_behind

__all__ = ["OnnxGraph", "in_order", "makers_of", "readers_of", "reads_of", "values_behind"]
