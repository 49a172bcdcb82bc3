"""`load`: from a path, bytes or an open file to a `Model`."""

from __future__ import annotations

import os
import sys

from openrknn import collecting
from openrknn.chips import chip_for
from openrknn.container import outer, v6
from openrknn.container.bundle import is_bundle
from openrknn.container.check import check
from openrknn.container.flatbuffer import Buffer, Table
from openrknn.container.model import Model
from openrknn.container.outer import Flavour, Outer, Source
from openrknn.container.parts import Graph, MemoryPlan
from openrknn.container.reader import TableReader
from openrknn.container.schema import MINI, V1, V6, Generation
from openrknn.errors import BadTableError, ModelInPartsError, UnsupportedError

_IDENTIFIER = b"RKNN"
_MINI_TEXT = 0x1003
_FORMAT_VERSIONS = {1: V1, 6: V6}


@collecting.paused()
def load(source: Source, *, strict: bool = True) -> Model:
    """Parse a `.rknn`; nothing is executed and no device is needed.

    A path is read; a file above 1 GiB is mapped instead and must not be cut short while the model is in use. With
    `strict` (the default) every task, relocation and reference is checked, and the first one that is wrong raises a
    `FormatError`; without it only what is needed to build the objects is checked, and
    `openrknn.container.check.problems(model)` lists the rest.
    """
    if sys.byteorder != "little":
        raise UnsupportedError("reading .rknn files is only implemented for little-endian machines")
    data = outer.open_source(source)
    path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    _refuse_parts(data, path)
    parts = outer.split(data)
    model = _mini(parts, path, len(data)) if parts.flavour is Flavour.MINI else _flatbuffer(parts, path, len(data))
    if strict:
        check(model)
    return model


def _refuse_parts(data: memoryview, path: str | None) -> None:
    """A zip of models is none; say what it is."""
    if bytes(data[:2]) == b"PK" and is_bundle(data):
        raise ModelInPartsError(
            f"{path or 'this'} is a model in parts for NPU and CPU (.rknnz), not one .rknn: run it with "
            "openrknn.Session, read its parts with openrknn.container.bundle.read_bundle, or write them to files with "
            "`openrknn extract`"
        )


def _flatbuffer(parts: Outer, path: str | None, size: int) -> Model:
    buffer = Buffer(parts.payload, parts.payload_offset, "model")
    root = buffer.root(_IDENTIFIER)
    version = root.i32(0)
    generation = _FORMAT_VERSIONS.get(version)
    if generation is None:
        raise UnsupportedError(f"model format {version} is not known; openrknn reads 1 and 6")
    reader = _reader(root, generation)
    if generation is V1:
        from openrknn.container import v1  # here, as for the smaller chips: a process reads one kind of file

        graphs = v1.read_graphs(root, reader)
    else:
        graphs = v6.read_graphs(root, reader)
    slots = generation.model
    memory = reader.memory(root.table(slots["memory"])) if "memory" in slots else MemoryPlan(0, 0, 0)
    return _model(parts, path, size, root=root, reader=reader, graphs=graphs, memory=memory)


def _mini(parts: Outer, path: str | None, size: int) -> Model:
    if parts.container_version == _MINI_TEXT:
        return _mini_text(parts, path, size)
    from openrknn.container import mini

    regions = mini.split(parts.payload, parts.payload_offset)
    root = regions.names.root(_IDENTIFIER)
    reader = _reader(root, MINI)
    graphs = mini.read_graphs(root, reader, regions)
    return _model(parts, path, size, root=root, reader=reader, graphs=graphs, memory=regions.memory)


def _mini_text(parts: Outer, path: str | None, size: int) -> Model:
    from openrknn.container import mini_graph, mini_text

    regions = mini_text.split(parts.payload, parts.payload_offset)

    def text(name: str) -> str:
        return str(regions.names.get(name, ""))

    chip = chip_for(text("target"), text("target_platform"))
    return Model(
        path=path,
        size_bytes=size,
        container_version=parts.container_version,
        flavour=parts.flavour,
        format_version=0,
        target=text("target"),
        platform=text("target_platform"),
        chip=chip,
        toolkit_number=0,
        toolkit_text=text("toolkit_version"),
        framework=text("framework_name"),
        framework_layout=0,
        custom_string=text("custom_string"),
        batch_text="",
        shape_mode="",
        dynamic_inputs=(),
        shared_weights=(),
        memory=regions.memory,
        custom_operators="",
        input_json="",
        output_json="",
        notes_text=text("description"),
        json_bytes=parts.json,
        graphs=(mini_graph.read_graph(regions, chip),),
        trailing_bytes=parts.trailing_bytes,
    )


def _reader(root: Table, generation: Generation) -> TableReader:
    slots = generation.model
    root.buffer.section = "model"
    chip = chip_for(root.text(slots["target"]), root.text(slots["platform"]))
    reader = TableReader(generation, chip)
    reader.note_unknown(root, slots, "the model", *generation.empty_model)
    reader.note_filled(root, generation.empty_model, "the model")
    return reader


def _model(
    parts: Outer,
    path: str | None,
    size: int,
    *,
    root: Table,
    reader: TableReader,
    graphs: tuple[Graph, ...],
    memory: MemoryPlan,
) -> Model:
    slots = reader.generation.model
    root.buffer.section = "model"
    if not graphs:
        raise BadTableError("the model has no graph", offset=root.file_offset, section="model")

    def text(name: str) -> str:
        return root.text(slots[name]) if name in slots else ""

    return Model(
        path=path,
        size_bytes=size,
        container_version=parts.container_version,
        flavour=parts.flavour,
        format_version=root.i32(slots["format_version"]),
        target=text("target"),
        platform=text("platform"),
        chip=reader.chip,
        toolkit_number=root.i32(slots["toolkit_number"]),
        toolkit_text=text("toolkit_text"),
        framework=text("framework"),
        framework_layout=root.u8(slots["framework_layout"]) if "framework_layout" in slots else 0,
        custom_string=text("custom_string"),
        batch_text=text("batch_text"),
        shape_mode=text("shape_mode"),
        dynamic_inputs=tuple(reader.dynamic_input(entry) for entry in root.tables(slots["dynamic_inputs"]))
        if "dynamic_inputs" in slots
        else (),
        shared_weights=root.texts(slots["shared_weights"]) if "shared_weights" in slots else (),
        memory=memory,
        custom_operators=root.text(slots["custom_operators"], wide=True) if "custom_operators" in slots else "",
        input_json=text("input_json"),
        output_json=text("output_json"),
        notes_text=text("notes"),
        json_bytes=parts.json,
        graphs=graphs,
        unknown=tuple(dict.fromkeys(reader.unknown)),
        trailing_bytes=parts.trailing_bytes,
    )
