"""External data of ONNX files: which files a model names, and which of them it may have.

An ONNX model can keep a tensor in a file of its own and name it by a path. ONNX Runtime resolves that path relative to
the model's folder, or to the working directory if the model was given as bytes, and older versions follow absolute
paths, `..` and symbolic links. So every model is checked here before another library opens it. The bytes themselves
are read, without the package `onnx`: running a model in parts does not need it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from openrknn.container.protobuf import BYTES, VARINT, DamagedError, fields
from openrknn.errors import BadReferenceError, FormatError


class External(NamedTuple):
    """A tensor whose values are in another file."""

    tensor: str
    location: str


# Message -> field number -> message of that field: where tensors can be, as onnx.proto declares it.
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_NAME, _EXTERNAL, _LOCATION, _IS_EXTERNAL = 8, 13, 14, 1
_DEEPEST = 100
"""Messages inside messages: protobuf's own limit."""


def external_data(data: bytes | memoryview) -> list[External]:
    """Every tensor of a model that is kept in another file: initializers, attributes, subgraphs, functions.

    FormatError: the bytes are not a protobuf message.
    """
    return list(_walk(memoryview(data), "model", 0))


def external_in_model(model: Any) -> list[External]:
    """`external_data` of an `onnx.ModelProto`, without a copy of its weights."""
    found = []
    for tensor in model.graph.initializer:
        if tensor.data_location == _IS_EXTERNAL or tensor.external_data:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            found.append(External(tensor.name, entries.get("location", "")))
    groups = {
        "node": model.graph.node, "sparse": model.graph.sparse_initializer, "function": model.functions,
        "training": model.training_info,
    }  # fmt: skip
    for message, members in groups.items():
        for member in members:
            found += _walk(memoryview(member.SerializeToString()), message, 1)
    return found


def refuse_external_data(data: bytes | memoryview, name: str) -> None:
    """FormatError if a model that has no folder of its own keeps tensors in other files, or is no model."""
    try:
        tensors = external_data(data)
    except FormatError as error:
        raise FormatError(f"{name} is damaged: {error}") from None
    for found in tensors:
        raise BadReferenceError(
            f"{name} keeps its tensor {found.tensor!r} in another file ({found.location!r}); a model that is given as "
            "bytes, or is part of another file, must contain its weights: store it with its weights inside"
        )


def check_external_data(data: bytes | memoryview, folder: str | os.PathLike[str], name: str) -> None:
    """BadReferenceError if a model keeps tensors anywhere but in regular files of its own folder."""
    checked: set[str] = set()
    for found in external_data(data):
        if found.location not in checked:
            external_file(found, folder, name)
            checked.add(found.location)


def check_onnx_file(path: str | os.PathLike[str]) -> None:
    """`check_external_data` of a file, for libraries that take paths. They refuse a file that is not protobuf."""
    try:
        data = Path(path).read_bytes()
        check_external_data(data, Path(path).parent, os.fspath(path))
    except BadReferenceError:
        raise
    except (FormatError, OSError):
        return


def external_file(found: External, folder: str | os.PathLike[str], name: str) -> Path:
    """Where the bytes of a tensor are, without links: always a regular file in the model's folder or below it.

    Raises BadReferenceError for any other path. All code that reads external data must get its path from here.
    """
    root, place = Path(folder).resolve(), Path(found.location)
    where = f"{name} keeps its tensor {found.tensor!r} in {found.location!r}"
    if not found.location or "\0" in found.location or place.is_absolute() or ".." in place.parts:
        raise BadReferenceError(f"{where}, which is not a path inside the model's folder; store the file beside it")
    try:
        target = (root / place).resolve()
    except (OSError, RuntimeError):  # links in a circle
        raise BadReferenceError(f"{where}, which cannot be read: its links lead in a circle") from None
    if not target.is_relative_to(root):
        raise BadReferenceError(f"{where}, a link that leads out of the model's folder; store the file itself there")
    try:
        kind = target.stat().st_mode
    except OSError as error:
        raise BadReferenceError(f"{where}, which cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(kind):
        raise BadReferenceError(f"{where}, which is not a regular file")
    return target


# -- where tensors are -------------------------------------------------------------------------------------------------


def _walk(data: memoryview, message: str, depth: int) -> Iterator[External]:
    if depth > _DEEPEST:
        raise FormatError(f"an ONNX model with messages more than {_DEEPEST} deep")
    inside = _MESSAGES[message]
    for number, kind, content in message_fields(data):
        child = inside.get(number)
        if child is None or kind != BYTES:
            continue
        assert isinstance(content, memoryview)
        if child == "tensor":
            yield from _tensor(content)
        else:
            yield from _walk(content, child, depth + 1)


def _tensor(data: memoryview) -> Iterator[External]:
    name, location, is_external = "", "", False
    for number, kind, content in message_fields(data):
        if number == _LOCATION and kind == VARINT:
            is_external |= content == _IS_EXTERNAL
        elif kind == BYTES and number in (_NAME, _EXTERNAL):
            assert isinstance(content, memoryview)
            if number == _NAME:
                name = _text(content)
            else:
                is_external = True
                entry = {at: _text(value) for at, _, value in message_fields(content) if isinstance(value, memoryview)}
                location = entry.get(2, "") if entry.get(1) == "location" else location
    if is_external:
        yield External(name, location)


def _text(data: memoryview) -> str:
    return bytes(data[:4096]).decode("utf-8", "replace")


def message_fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """(field number, wire type, value) of each number and each field that has a length."""
    try:
        for number, kind, value in fields(data):
            if kind in (VARINT, BYTES):
                yield number, kind, value
    except DamagedError as error:
        raise FormatError(f"not an ONNX model: {error}") from None
