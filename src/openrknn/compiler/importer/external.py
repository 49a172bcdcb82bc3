"""Weights beside an ONNX file (external data): which files a model may name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.container.onnxdata import External, external_file, external_in_model
from openrknn.errors import FormatError

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
    """Read the weights in `folder` or below it; `container.onnxdata` decides which files these may be."""
    onnx = onnx_package()
    sizes: dict[Path, int] = {}
    taken = 0
    for tensor in tensors_of(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        try:
            path = external_file(External(tensor.name, entries.get("location", "")), folder, name)
        except FormatError as error:
            raise ModelError(f"{name}: its external weights cannot be read: {error}") from None
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
            size = path.stat().st_size
            length = size - offset if length < 0 else length
            if offset < 0 or length < 0 or offset + length > size:
                raise ValueError(f"{length} bytes at {offset} of a file of {size} bytes")
            sizes[path], taken = size, taken + length
            if taken > _TIMES * sum(sizes.values()) + _FREE:
                raise ValueError(
                    f"the tensors up to this one take {taken} bytes from files of {sum(sizes.values())} bytes: too "
                    f"many tensors share the same bytes (at most {_TIMES} times the files and {_FREE >> 20} MB are "
                    "read). Save the model again"
                )
            _load(tensor, path, offset, length)
        except (OSError, ValueError, OverflowError) as error:
            raise ModelError(f"{name}: its external weights cannot be read: {tensor.name!r}: {error}") from None


def _load(tensor: Any, path: Path, offset: int, length: int) -> None:
    with path.open("rb") as file:
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
