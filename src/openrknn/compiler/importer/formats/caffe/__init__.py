"""Caffe: a `.prototxt` with the layers, and a `.caffemodel` with the weights.

Both of Caffe's forms are read: `layer { type: "Convolution" }` and the older `layers { type: CONVOLUTION }`. Inputs and
outputs have the names of Caffe's blobs. A value that a layer replaces in place (ReLU after a convolution) is called
`blob/layer` before it; the last one has the blob's own name.
"""

from __future__ import annotations

from typing import Any

from openrknn.compiler.importer.formats.assembly import Assembly
from openrknn.compiler.importer.formats.caffe.blobs import read_blobs
from openrknn.compiler.importer.formats.caffe.network import Network
from openrknn.compiler.importer.formats.caffe.text import parse
from openrknn.compiler.importer.formats.pairs import Source, name_of, pair_of, read_bytes

__all__ = ["read"]


def read(source: Source) -> Any:
    """The network as an ONNX `ModelProto`; either file, or both as a pair."""
    structure, numbers = pair_of(source, (".prototxt",), (".caffemodel",), "a Caffe network")
    what = name_of(structure)
    net = parse(read_bytes(structure, most=1 << 26), what)
    blobs = read_blobs(read_bytes(numbers), name_of(numbers))
    return Network(Assembly(net.word("name", "caffe") or "caffe", what), net, blobs, name_of(numbers)).build()
