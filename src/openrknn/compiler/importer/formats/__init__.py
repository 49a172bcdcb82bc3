"""Models that are not ONNX: which format a file has, and who reads it.

Every reader ends in an ONNX `ModelProto`, so that all that follows (shapes, folding, partition, calibration, checks) is
the same for all of them. A reader is a module here with `read(source) -> ModelProto`; it is imported when it is needed,
and may need an extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pairs import Source, kind_of_pair, name_of

__all__ = ["FORMATS", "Format", "format_of", "read_foreign"]


class Format(NamedTuple):
    """One format of models."""

    reader: str
    """The module in this package; empty: there is none."""
    what: str
    """In a sentence: "... is a TensorFlow Lite model"."""
    suffixes: tuple[str, ...] = ()
    marks: tuple[tuple[int, bytes], ...] = ()
    """Where a mark stands, and the mark; one of them suffices."""
    cuts: bool = False
    """Whether the reader takes `outputs`: then operators behind them may be any."""
    shaped: bool = False
    """Whether the reader takes `shapes`: of inputs whose shapes the file does not say."""


FORMATS = (
    Format("tflite", "a TensorFlow Lite model", (".tflite", ".lite"), ((4, b"TFL3"),), cuts=True),
    Format("ort", "a model in ONNX Runtime's own format", (".ort",), ((4, b"ORTM"),)),
    Format("darknet", "a Darknet network", (".cfg", ".weights")),
    Format("caffe", "a Caffe network", (".prototxt", ".caffemodel")),
    Format("pytorch", "a PyTorch model", (".pt2", ".pt", ".pth"), ((0, b"PK\x03\x04"), (0, b"\x80\x02")), shaped=True),
    Format("tensorflow", "a TensorFlow model", (".pb", ".keras", ".h5"), ((0, b"\x89HDF"),)),
    Format("", "a language model for llama.cpp", (".gguf",), ((0, b"GGUF"),)),
)
"""In the order in which they are tried: a mark inside the file is stronger than its name."""


def format_of(source: Source) -> Format | None:
    """What a file, a folder (SavedModel), bytes or a pair of files are; nothing for ONNX and what is not known."""
    if isinstance(source, bytes | bytearray | memoryview):
        return _marked(bytes(source[:16]))
    if isinstance(source, tuple | list):
        return _called(kind_of_pair(source))
    path = Path(source)
    if path.is_dir():
        return _called("tensorflow") if (path / "saved_model.pb").exists() else None
    by_name = next((entry for entry in FORMATS if path.suffix.lower() in entry.suffixes), None)
    try:
        with path.open("rb") as file:
            marked = _marked(file.read(16))
    except OSError:
        return by_name
    if by_name is not None and path.suffix.lower() == ".pb" and not _is_graph_def(path):
        return None  # many programs write ONNX under this name
    if by_name is not None and marked is not None and path.suffix.lower() == ".keras":
        return by_name  # a zip, as PyTorch's files are
    return marked or by_name


def read_foreign(
    source: Source, found: Format, outputs: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | Sequence[Sequence[int]] | None = None,
) -> Any:  # fmt: skip
    """The model as an ONNX `ModelProto`, cut at `outputs` where the reader can do that."""
    name = name_of(source)
    if not found.reader:
        raise ModelError(f"{name} is {found.what}; the compiler has no reader for it")
    try:
        module = importlib.import_module(f"{__name__}.{found.reader}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{found.reader}":
            raise
        raise ModelError(
            f"{name} is {found.what}; the compiler reads ONNX. docs/ten-minutes.md says how to export"
        ) from None
    if found.shaped and shapes:
        return module.read(source, shapes=shapes)
    return module.read(source, outputs=outputs) if found.cuts and outputs else module.read(source)


def _is_graph_def(path: Path) -> bool:
    """TensorFlow's frozen graphs begin with a node (field 1, a message), ONNX files with a version (field 1, a number).

    A SavedModel begins with a number as well, and is known by its name.
    """
    if path.name == "saved_model.pb":
        return True
    with path.open("rb") as file:
        return file.read(1) == b"\n"


def _marked(head: bytes) -> Format | None:
    return next(
        (entry for entry in FORMATS for where, mark in entry.marks if head[where : where + len(mark)] == mark), None
    )


def _called(reader: str) -> Format:
    return next(entry for entry in FORMATS if entry.reader == reader)
