"""An ONNX file, or what a program has of it, as a checked `ModelProto`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.external import load_external_data, refuse_external_data
from openrknn.compiler.importer.formats import format_of, read_foreign
from openrknn.compiler.importer.formats.pairs import name_of
from openrknn.compiler.importer.wellformed import check_equations, check_well_formed

_MAX_BYTES = 2**31 - 1
_DEEPEST, _MOST_NODES = 100, 200_000
"""Functions inside functions, and operators that they become."""
_STANDARD_DOMAINS = {"", "ai.onnx"}


def read_model(
    source: str | os.PathLike[str] | bytes | Any, *, outputs: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | Sequence[Sequence[int]] | None = None,
) -> Any:  # fmt: skip
    """Parse and check; weights beside the file are read too. Other formats than ONNX become ONNX first (`formats`).

    `outputs` are where the caller is going to cut: a reader need not know the operators behind them.
    `shapes`, by name or in order, are for formats that do not say them (TorchScript); who calls binds open inputs.
    """
    onnx = onnx_package()
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        name = "the model"
    else:
        foreign = format_of(source)
        if foreign is None:
            model, name = _parse(onnx, source)
        else:
            model, name = read_foreign(source, foreign, outputs, shapes), name_of(source)
    refuse_external_data(model, name)
    check_well_formed(model, name)
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{name} is not an ONNX model, or an empty one")
    _name_outputs(model)
    _check(onnx, model, name)
    if model.functions:
        model = _inlined(onnx, model, name)
    check_equations(model, name)
    return model


def _inlined(onnx: Any, model: Any, name: str) -> Any:
    """Without functions. A few that call each other twice are millions of nodes: counted before they are written."""
    from onnx.inliner import inline_local_functions

    made: dict[tuple[str, str], int] = {}

    def count(nodes: Any, depth: int) -> int:
        if depth > _DEEPEST:
            raise ModelError(f"{name}: its functions call each other in a circle, or {_DEEPEST} deep; export it again")
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in bodies and key not in made:
                made[key] = count(bodies[key], depth + 1)
            total += made.get(key, 1)
            if total > _MOST_NODES:
                raise ModelError(f"{name}: its functions make over {_MOST_NODES} operators; export it without them")
        return total

    bodies = {(entry.domain, entry.name): entry.node for entry in model.functions}
    count(model.graph.node, 0)
    try:
        return inline_local_functions(model, convert_version=True)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        text = str(error).splitlines()[0]
        raise ModelError(f"{name}: its functions cannot be put in place: {text}") from None


def _name_outputs(model: Any) -> None:
    """An output that is left out before one that is there (the largest numbers of a TopK) keeps its place."""
    for number, node in enumerate(model.graph.node):
        for at, name in enumerate(node.output):
            if not name and any(node.output[at:]):
                node.output[at] = f"{node.op_type}_{number}_unused_{at}"


def _parse(onnx: Any, source: str | os.PathLike[str] | bytes) -> tuple[Any, str]:
    from google.protobuf.message import DecodeError

    if isinstance(source, bytes | bytearray | memoryview):
        data, name, path = bytes(source), "the model", None
    else:
        path = Path(source)
        name = str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{name} cannot be read: {error.strerror}") from None
    if not data:
        raise ModelError(f"{name} is empty")
    if len(data) > _MAX_BYTES:
        raise ModelError(f"{name} is larger than 2 GB; store its weights beside it (external data)")
    if data[:4] == b"RKNN":
        raise ModelError(f"{name} is a .rknn already; run it, or compile the ONNX file that it was made from")
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{name} is not an ONNX model: {error}") from None
    if path is not None:
        load_external_data(model, path.parent, name)
    return model, name


def _check(onnx: Any, model: Any, name: str) -> None:
    for entry in model.graph.output:
        # Exporters leave out shapes of outputs that they do not know. Only the checker minds: they are inferred.
        if entry.type.HasField("tensor_type") and not entry.type.tensor_type.HasField("shape"):
            entry.type.tensor_type.shape.SetInParent()
    if model.graph.sparse_initializer:
        stored = model.graph.sparse_initializer[0].values.name
        raise ModelError(f"{name} stores {stored!r} as a sparse tensor; export it with dense weights")
    foreign = sorted({node.domain for node in model.graph.node} - _STANDARD_DOMAINS)
    try:
        if not foreign:
            onnx.checker.check_model(model, full_check=False)
    except UnicodeDecodeError:
        raise ModelError(f"{name} is not a valid ONNX model: it has a name that is not text; export it again") from None
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{name} is not a valid ONNX model: {str(error).splitlines()[0]}") from None
