"""A `Model` back into a file: container 6, or the mini container (`mini_writer`).

`load(encode(model)) == model` up to the path and the file's size. What the reader did not understand
(`Model.unknown`) would be lost, so such a model is refused unless the caller says that it may be.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from openrknn.container import mini_writer
from openrknn.container.builder import Slot
from openrknn.container.model import Model
from openrknn.container.outer import HEADER_BYTES, MAGIC, Flavour
from openrknn.container.parts import DynamicInput
from openrknn.container.schema import V6
from openrknn.container.table_writer import TableWriter
from openrknn.errors import UnsupportedError

_CONTAINER_VERSION = 6
_FORMAT_VERSION = 6
_IDENTIFIER = b"RKNN"


def encode(model: Model, *, drop_unknown: bool = False) -> bytes:
    """The bytes of a `.rknn` with this content.

    Raises `UnsupportedError` for models of toolkits before 1.5.2, and, unless `drop_unknown`, for models with parts
    that are not understood.
    """
    return b"".join(encode_pieces(model, drop_unknown=drop_unknown))


def encode_pieces(model: Model, *, drop_unknown: bool = False) -> list[bytes | memoryview]:
    """The same, one piece behind the other: constants are not copied."""
    if model.format_version != _FORMAT_VERSION:
        raise UnsupportedError(
            "only the containers 6 and 0x1004 (mini) can be written; this is a "
            f"{model.flavour} file with container {model.container_version:#x} and model format {model.format_version}"
        )
    if model.unknown and not drop_unknown:
        raise UnsupportedError(f"writing would lose what is not understood: {'; '.join(model.unknown[:3])}")
    is_mini = model.flavour is Flavour.MINI
    payload = [mini_writer.payload(model)] if is_mini else _payload(model)
    version = mini_writer.CONTAINER_VERSION if is_mini else _CONTAINER_VERSION
    header = MAGIC + struct.pack("<QQ", version, sum(map(len, payload)))
    json = bytes(model.json_bytes)
    return [header.ljust(HEADER_BYTES, b"\0"), *payload, struct.pack("<Q", len(json)) + json]


def _payload(model: Model) -> list[bytes | memoryview]:
    writer = TableWriter(V6, _IDENTIFIER)
    build, slots = writer.build, V6.model
    return build.root_pieces(
        [
            *writer.numbers(slots, "i", format_version=model.format_version, toolkit_number=model.toolkit_number),
            *writer.numbers(slots, "B", framework_layout=model.framework_layout),
            *writer.texts(
                slots,
                target=model.target,
                notes=model.notes_text,
                toolkit_text=model.toolkit_text,
                platform=model.platform,
                framework=model.framework,
                custom_string=model.custom_string,
                input_json=model.input_json,
                output_json=model.output_json,
                batch_text=model.batch_text,
                shape_mode=model.shape_mode,
            ),
            build.tables(slots["graphs"], (writer.graph(graph) for graph in model.graphs)),
            build.numbers(V6.empty_model[-1], "i", ()),
            build.tables(slots["dynamic_inputs"], (_dynamic(writer, entry) for entry in model.dynamic_inputs)),
            build.texts(slots["shared_weights"], model.shared_weights),
            build.table_slot(
                slots["memory"],
                [build.scalar(number, "Q", value) for number, value in enumerate(model.memory) if number < 2 or value],
            ),
            build.tables(slots["blobs"], _blobs(writer, model)),
            build.text(slots["custom_operators"], model.custom_operators, wide=True),
        ]
    )


def _blobs(writer: TableWriter, model: Model) -> Iterator[list[Slot]]:
    data = {
        tensor.blob: tensor.data
        for graph in model.graphs
        for tensor in graph.tensors
        if tensor.blob and tensor.data is not None
    }
    for number in range(max(data, default=0) + 1):
        yield [writer.build.blob(0, data[number])] if number in data else []


def _dynamic(writer: TableWriter, entry: DynamicInput) -> list[Slot]:
    build = writer.build
    return [build.tables(0, ([build.numbers(0, "i", shape)] for shape in entry.shapes))]
