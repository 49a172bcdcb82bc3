"""TensorFlow's files, copied member by member into a folder of our own before TensorFlow opens them."""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pytorch.zips import Archive
from openrknn.compiler.importer.formats.tensorflow.keras_config import checked_config
from openrknn.container.protobuf import DamagedError, fields

_MOST_BYTES = 1 << 33
_MOST_GRAPH = (1 << 31) - 1
_CHUNK = 1 << 20
_VARIABLES = re.compile(r"variables\.(index|data-\d{5}-of-\d{5})")
_PLAIN = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*")
_REACHES_OUT = re.compile(
    r"ReadFile|WriteFile|MatchingFiles|(Eager)?PyFunc(Stateless)?|ImmutableConst|InitializeTableFromTextFile(V2)?|PrintV2"
    r"|.*Dataset(V\d)?|.*Reader(V\d)?|.*Iterator.*|Write.*Summary|.*SummaryWriter|CreateSummary.*|RpcCall|RpcClient|_?Send"
    r"|_?Recv|LoadAndRemapMatrix|DecodeProtoV2|EncodeProto|RegisterDataset.*|XlaLaunch.*|TPU.*"
)
"""Operators that open files, run Python, or talk to other processes."""
_MOST_NODES = 1_000_000


def copy_model(path: Path, kind: str, folder: Path) -> str:
    """The path of the copy. Links, devices and operators that reach outside are refused."""
    if kind == "saved_model":
        return _saved_model(path, folder / "saved")
    if kind == "keras":
        return _keras(path, folder)
    data = _bytes_of(path)
    _check_operators(data, str(path), is_saved=False)
    (folder / "graph.pb").write_bytes(data)
    return str(folder / "graph.pb")


def _saved_model(path: Path, target: Path) -> str:
    (target / "variables").mkdir(parents=True)
    data = _bytes_of(path / "saved_model.pb")
    _check_operators(data, str(path), is_saved=True)
    (target / "saved_model.pb").write_bytes(data)
    left = _MOST_BYTES
    for name, pattern in (("variables", _VARIABLES), ("assets", _PLAIN)):
        source = path / name
        if source.is_symlink():
            raise ModelError(f"{source} is a link; a SavedModel has its own folders")
        found = sorted(os.listdir(source)) if source.is_dir() else []
        (target / name).mkdir(exist_ok=True)
        for member in found:
            if pattern.fullmatch(member):
                left = _copy(source / member, target / name / member, left)
    return str(target)


def _keras(path: Path, folder: Path) -> str:
    """`.keras`: description and weights apart; the child puts them together. `.h5` is rewritten by the child."""
    try:
        with Archive(path, str(path), is_rooted=False) as archive:
            if not {"config.json", "model.weights.h5"} <= set(archive.names):
                raise ModelError(f"{path} cannot be converted: it is a zip, but has no model of Keras in it")
            (folder / "config.json").write_text(checked_config(archive.read("config.json"), str(path)))
            with (folder / "weights.h5").open("wb") as file:
                for data in archive.chunks("model.weights.h5"):
                    file.write(data)
            return str(folder / "weights.h5")
    except zipfile.BadZipFile as error:
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                raise ModelError(f"{path} cannot be converted: the zip is damaged: {error}") from None
    _copy(path, folder / "whole.h5", _MOST_BYTES)
    return str(folder / "whole.h5")


def _copy(source: Path, target: Path, left: int) -> int:
    """A regular file, no link; the bytes that may still follow."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(f"{source} cannot be read: {error.strerror} (links are not followed)") from None
    with os.fdopen(descriptor, "rb") as file, target.open("wb") as copy:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > left:
            raise ModelError(f"{source} is not a regular file of at most {left} bytes")
        while data := file.read(_CHUNK):
            copy.write(data)
    return left - found.st_size


def _bytes_of(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_GRAPH:
            raise ModelError(f"{path} is not a regular file of at most 2 GB")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None


def _check_operators(data: bytes, name: str, *, is_saved: bool) -> None:
    """SavedModel: meta_graphs 2; MetaGraphDef: graph_def 2; GraphDef: node 1, library 2 (function 1, its nodes 3)."""
    try:
        graphs = [memoryview(data)]
        if is_saved:
            graphs = [graph for meta in _inner(graphs[0], 2) for graph in _inner(meta, 2)]
        count = 0
        for graph in graphs:
            functions = [one for library in _inner(graph, 2) for one in _inner(library, 1)]
            for node in (*_inner(graph, 1), *(node for one in functions for node in _inner(one, 3))):
                count += 1
                operators = [bytes(value).decode("utf-8", "replace") for value in _inner(node, 2)]
                for found in operators:
                    if _REACHES_OUT.fullmatch(found):
                        raise ModelError(
                            f"{name} cannot be converted: it has the operator {found[:60]!r}, which opens files, runs "
                            "Python or talks to other programs. Cut the model before it"
                        )
                if count > _MOST_NODES:
                    raise ModelError(f"{name} cannot be converted: it has more than {_MOST_NODES} operators")
    except DamagedError as error:
        raise ModelError(f"{name} cannot be converted: it is damaged: {error}") from None


def _inner(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (value for number, _, value in fields(data) if number == wanted and isinstance(value, memoryview))
