"""Darknet: a `.cfg` with the layers, and a `.weights` with the numbers.

What the reader makes of a network:

- The input is `data`, [1, channels, height, width] of `[net]`, RGB from 0 to 1.
- A layer's value is named after its kind and its number: `conv_81`, `route_83`. Numbers count as in Darknet's own
  list, from 0 after `[net]`; OpenCV has the same names.
- `[yolo]`, `[region]` and `[gaussian_yolo]` layers are the outputs: `yolo_82` is the map [1, anchors * (5 + classes),
  h, w] that the layer gets, before sigmoid, exponential and anchors. This is what the vendor's toolkit gives too: the
  last step is a few numbers per box and belongs to the program. Without such a layer the last one is the output.
"""

from __future__ import annotations

from typing import Any

from openrknn.compiler.importer.formats.assembly import Assembly
from openrknn.compiler.importer.formats.darknet.cfg import parse
from openrknn.compiler.importer.formats.darknet.network import Network
from openrknn.compiler.importer.formats.darknet.weights import Weights
from openrknn.compiler.importer.formats.pairs import Source, name_of, pair_of, read_bytes

__all__ = ["read"]


def read(source: Source) -> Any:
    """The network as an ONNX `ModelProto`; either file, or both as a pair."""
    structure, numbers = pair_of(source, (".cfg",), (".weights",), "a Darknet network")
    what = name_of(structure)
    sections = parse(read_bytes(structure, most=1 << 24), what)
    weights = Weights(read_bytes(numbers), name_of(numbers))
    network = Network(Assembly("darknet", what), weights)
    return network.build(sections)
