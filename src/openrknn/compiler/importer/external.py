"""Weights beside an ONNX file (external data): which files a model may name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.container.onnxdata import external_in_model

__all__ = ["load_external_data", "refuse_external_data", "tensors_of"]

_DEEPEST = 64
"""Graphs inside graphs."""
_TIMES, _FREE = 2, 64 << 20
"""Tensors may share bytes: all of them together have at most twice the bytes of the files, and a little."""


def tensors_of(model: Any) -> Iterator[Any]:
    """Every tensor of the model, also in nested graphs and functions."""
    yield from _of_graph(model.graph, 0)
    for function in model.functions:
        yield from _of_nodes(function.node, 0)


def refuse_external_data(model: Any, name: str) -> None:
    """A model without a folder cannot have weights in other files."""
    for found in external_in_model(model):
        raise ModelError(
            f"{name}: the tensor {found.tensor!r} is stored in another file (external data), and the model has no "
            "folder. Give its path, or save it with the weights inside"
        )


def load_external_data(model: Any, folder: Path, name: str) -> None:
    """Read the weights that lie in `folder` or below it; a link, an absolute path or `..` is refused."""
    onnx = onnx_package()
    root = os.path.realpath(folder)
    sizes: dict[str, int] = {}
    taken = 0
    for tensor in tensors_of(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        path = os.path.join(root, location)
        inside = location and not os.path.isabs(location) and ".." not in Path(location).parts and "\0" not in location
        if not inside or os.path.realpath(path) != os.path.normpath(path):
            raise ModelError(
                f"{name}: its external weights cannot be read: {tensor.name!r} is in {location!r}, which is not a file "
                "of the model's folder; links, absolute paths and '..' are not followed"
            )
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("it is not a regular file")
            length = found.st_size - offset if length < 0 else length
            if offset < 0 or length < 0 or offset + length > found.st_size:
                raise ValueError(f"{length} bytes at {offset} of a file of {found.st_size} bytes")
            sizes[path], taken = found.st_size, taken + length
            if taken > _TIMES * sum(sizes.values()) + _FREE:
                raise ValueError("its tensors take the same bytes again and again")
            _load(tensor, path, offset, length)
        except (OSError, ValueError, OverflowError) as error:
            raise ModelError(f"{name}: its external weights cannot be read: {tensor.name!r}: {error}") from None


def _load(tensor: Any, path: str, offset: int, length: int) -> None:
    with open(path, "rb") as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = onnx_package().TensorProto.DEFAULT
    del tensor.external_data[:]


def _of_graph(graph: Any, depth: int) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node, depth)


def _of_nodes(nodes: Any, depth: int) -> Iterator[Any]:
    if depth > _DEEPEST:
        raise ModelError(f"the model has graphs inside graphs, more than {_DEEPEST} deep; export it again")
    for node in nodes:
        for entry in node.attribute:
            if entry.HasField("t"):
                yield entry.t
            yield from entry.tensors
            if entry.HasField("sparse_tensor"):
                yield from (entry.sparse_tensor.values, entry.sparse_tensor.indices)
            for graph in (*([entry.g] if entry.HasField("g") else ()), *entry.graphs):
                yield from _of_graph(graph, depth + 1)
