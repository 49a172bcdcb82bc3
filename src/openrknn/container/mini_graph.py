"""The graph of the first mini container: tensors and operators, out of its names."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from openrknn.chips import Chip
from openrknn.container.mini_links import (
    Entry,
    Places,
    addresses,
    claims,
    normalization,
    patches,
    relinked,
    relocations,
)
from openrknn.container.mini_text import SECTION, MiniText
from openrknn.container.parts import DataType, Graph, Kind, Layout, Node, Quantization, Tensor
from openrknn.container.reader import task_lists
from openrknn.errors import BadReferenceError, BadTableError, BadTaskError

_ALIGNMENT = 64
_KINDS = {
    "UNDEFINED": Kind.NONE,
    "INPUT": Kind.INPUT,
    "OUTPUT": Kind.OUTPUT,
    "INTERNAL": Kind.INTERNAL,
    "WEIGHT": Kind.WEIGHT,
    "COEFF": Kind.CPU_CONSTANT,
    "LUT": Kind.LUT,
    "REGCFG": Kind.REGISTER_LIST,
}
_TARGETS = {"CPU": 0, "GPU": 1, "NPU": 2}
_PICTURE_CHANNELS = 4
_REST, _UNNAMED = "(internal memory)", "(constants)"


def read_graph(parts: MiniText, chip: Chip) -> Graph:
    """The one graph of the file."""
    try:
        return _graph(parts, chip)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise BadTableError(f"an entry of the names is missing or of another type: {error}", section=SECTION) from None


def _graph(parts: MiniText, chip: Chip) -> Graph:
    entries = parts.names["subgraph_tensors"]
    operators = parts.names["operators"]
    count = _network_tasks(operators, len(parts.tasks))
    tasks = parts.tasks[:count]
    places = dict(addresses(parts, tasks))
    named = tuple(_tensors(entries, parts, places))
    named += _unnamed_constants(named, parts)
    tensors = (*named, _rest(len(named), parts))
    nodes = tuple(_node(entry, number, len(entries), count) for number, entry in enumerate(operators))
    return Graph(
        index=0,
        tensors=tensors,
        nodes=nodes,
        inputs=tuple(tensor.index for tensor in tensors if tensor.kind is Kind.INPUT),
        outputs=tuple(tensor.index for tensor in tensors if tensor.kind is Kind.OUTPUT),
        normalizations=tuple(normalization(tensor, parts) for tensor in tensors if tensor.kind is Kind.INPUT),
        relocations=relocations(entries, tensors, parts, places),
        image_patches=(),
        convert_patches=tuple(patches(parts, tasks, chip)),
        list_starts=(),
        output_tasks=(),
        commands=relinked(parts, tasks),
        tasks=tasks,
        task_lists=task_lists(nodes, tasks, chip, SECTION),
    )


def _network_tasks(operators: Sequence[Entry], count: int) -> int:
    """How many tasks come before those that write outputs in other layouts."""
    extra = [entry["taskinfo"] for entry in operators if entry["type"] == "OutputOperator"]
    kept = min([count, *(info["task_start"] for info in extra if info["task_number"])])
    if not 0 < kept <= count:
        raise BadTaskError(f"the outputs' own tasks start at {kept} of {count}", section=SECTION)
    return int(kept)


def _tensors(
    entries: Sequence[Entry],
    parts: MiniText,
    places: Places,
) -> Iterator[Tensor]:
    starts = {number: _constant_start(entry, parts, places) for number, entry in enumerate(entries)}
    edges = sorted({start for start in starts.values() if start is not None} | {len(parts.weights)})
    pictures = {entry["name"]: int(entry.get("stride_align_size", 0)) for entry in parts.names["inputs"]}
    for number, entry in enumerate(entries):
        kind = _KINDS[entry["category"]]
        start = starts[number]
        data = None if start is None else parts.weights[start : edges[bisect_right(edges, start)]]
        alignment = pictures.get(entry["name"], 0) if kind is Kind.INPUT else 0
        tensor = _tensor(entry, number, kind, alignment)
        if kind.is_activation:
            yield replace(tensor, offset=_internal_offset(entry, parts))
        elif data is not None:
            yield replace(tensor, offset=start or 0, size_bytes=len(data), blob=1, data=data)
        else:
            yield tensor


def _tensor(entry: Entry, number: int, kind: Kind, alignment: int) -> Tensor:
    """One tensor without its place; `alignment`: how rows of pictures are padded."""
    shape, native = (tuple(map(int, entry[name] or ())) for name in ("orig_shape", "shape"))
    dtype = DataType[entry["dtype"]] if entry["dtype"] != "UNDEFINED" else DataType.NONE
    if len(shape) != 4 or not 1 <= shape[1] <= _PICTURE_CHANNELS:
        alignment = 0
    elements = math.prod(native)
    if alignment:
        elements = math.prod(shape[:3]) * -(-shape[3] // alignment) * alignment
    quant = entry["quantinfo"]
    return Tensor(
        index=number,
        name=entry["name"] if kind is not Kind.REGISTER_LIST else "",
        dtype=dtype,
        layout=Layout[entry["layout"]],
        kind=kind,
        shape=shape,
        native_shape=native,
        quantization=Quantization((float(quant["scale"]),), (int(quant["zp"]),)) if kind.is_activation else None,
        size_bytes=-(-elements * dtype.bits // 8 // _ALIGNMENT) * _ALIGNMENT,
        offset=0,
        row_alignment=alignment,
    )


def _internal_offset(entry: Entry, parts: MiniText) -> int:
    offset = int(entry["offset"]) - parts.internal_start
    if not 0 <= offset <= parts.internal_bytes:
        raise BadReferenceError(f"{entry['name']!r} is outside the internal memory", section=SECTION)
    return offset


def _unnamed_constants(named: Sequence[Tensor], parts: MiniText) -> tuple[Tensor, ...]:
    """Bytes before the first weight, if any: slopes of PRelu, which no entry claims."""
    end = min((tensor.offset for tensor in named if tensor.data is not None), default=len(parts.weights))
    whole = _whole(len(named), _UNNAMED, Kind.WEIGHT, end)
    return (replace(whole, blob=1, data=parts.weights[:end]),) if end else ()


def _rest(number: int, parts: MiniText) -> Tensor:
    """All internal memory as one tensor, for addresses that no entry claims."""
    return _whole(number, _REST, Kind.INTERNAL, parts.internal_bytes)


def _whole(number: int, name: str, kind: Kind, size: int) -> Tensor:
    layout = Layout.UNDEFINED
    return Tensor(number, name, DataType.INT8, layout, kind, (size,), (size,), None, size_bytes=size, offset=0)


def _constant_start(entry: Entry, parts: MiniText, places: Places) -> int | None:
    """Where a weight begins: toolkit 1.4.1 leaves its offset 0, so the commands that read it say it."""
    if _KINDS[entry["category"]] is not Kind.WEIGHT:
        return None
    found = [places[claim][1] - parts.weight_start for claim in claims(entry, len(parts.tasks)) if claim in places]
    return min((start for start in found if 0 <= start < len(parts.weights)), default=None)


def _node(entry: Entry, number: int, tensors: int, tasks: int) -> Node:
    inputs, outputs = (tuple(map(int, entry[name] or ())) for name in ("inputs", "outputs"))
    for index in (*inputs, *outputs):
        if not 0 <= index < tensors:
            raise BadReferenceError(f"tensor {index} is named, but there are {tensors}", section=SECTION)
    info = entry["taskinfo"]
    count = int(info["task_number"]) if int(info["task_start"]) < tasks else 0
    is_end = entry["type"] in {"InputOperator", "OutputOperator"}
    return Node(
        index=number,
        type=entry["type"],
        name=entry["name"],
        target=0 if is_end else _TARGETS[entry["target"]],
        inputs=inputs[:1] if is_end else inputs,
        outputs=outputs,
        attributes=MappingProxyType(entry["params"] or {}),
        attribute_bytes=memoryview(b""),
        task_counts=(count,),
    )
