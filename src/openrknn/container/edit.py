"""Changes to a model that leave its meaning alone: new names for tensors, another custom string.

A tensor's name stands in many places, because the vendor's runtime finds things by name: in the tensor itself, in the
relocations and register patches, in the list of output tasks, in the shared weights of dynamic shapes, in the names of
the InputOperator and OutputOperator, in two small JSON texts, in the converter's notes and in the trailing JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openrknn.container import notes
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Kind, Node, OutputTask, sorted_groups
from openrknn.errors import BadTextError

LONGEST_NAME_BYTES = 255
"""The C API has 256 bytes for a name, with a zero at the end."""
LONGEST_CUSTOM_STRING_BYTES = 1023
"""The C API has 1024 bytes for it."""

_ENDS = {"InputOperator", "OutputOperator"}
_FIXED = {Kind.COMMANDS, Kind.TASKS}


def with_custom_string(model: Model, text: str) -> Model:
    """The model with another custom string (`RKNN_QUERY_CUSTOM_STRING`)."""
    size = len(text.encode())
    if size > LONGEST_CUSTOM_STRING_BYTES or "\0" in text:
        raise ValueError(
            f"a custom string has at most {LONGEST_CUSTOM_STRING_BYTES} bytes and no zero byte; this has {size} bytes"
        )
    return replace(model, custom_string=text)


def rename_tensors(model: Model, names: Mapping[str, str], *, check_names: bool = True) -> Model:
    """The model with tensors called differently; all at once, so that two can swap their names.

    Raises `ValueError` for a name that no tensor has, for one that would not be unique, and, with `check_names`, for
    one that the C API cannot hold.
    """
    if check_names:
        for name in names.values():
            _check_name(name)
    _check_unique(model, names)
    return replace(
        model,
        graphs=tuple(_graph(graph, names) for graph in model.graphs),
        shared_weights=tuple(names.get(name, name) for name in model.shared_weights),
        input_json=_keys(model.input_json, names, "the inputs' JSON"),
        output_json=_keys(model.output_json, names, "the outputs' JSON"),
        notes_text=_notes(model.notes_text, names),
        json_bytes=memoryview(_trailing(bytes(model.json_bytes), names)),
    )


def _check_name(name: str) -> None:
    size = len(name.encode())
    if not 0 < size <= LONGEST_NAME_BYTES or not name.isprintable():
        raise ValueError(f"{name!r} is no name: 1 to {LONGEST_NAME_BYTES} bytes of printable characters are")


def _check_unique(model: Model, names: Mapping[str, str]) -> None:
    known = {tensor.name: tensor for graph in model.graphs for tensor in graph.tensors if tensor.name}
    for old in names:
        if old not in known:
            raise ValueError(f"no tensor is called {old!r}")
        if known[old].kind in _FIXED:
            raise ValueError(f"{old!r} is where the runtime looks for the {known[old].kind.name.lower()}; it must stay")
    for graph in model.graphs:
        taken: set[str] = set()
        for tensor in graph.tensors:
            name = names.get(tensor.name, tensor.name)
            if name in taken:
                raise ValueError(f"two tensors would be called {name!r}")
            if name:
                taken.add(name)


def _graph(graph: Graph, names: Mapping[str, str]) -> Graph:
    return replace(
        graph,
        tensors=tuple(replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in graph.tensors),
        nodes=tuple(_node(node, names) for node in graph.nodes),
        relocations=sorted_groups(
            replace(group, tensor=names.get(group.tensor, group.tensor)) for group in graph.relocations
        ),
        image_patches=tuple(replace(patch, input=names.get(patch.input, patch.input)) for patch in graph.image_patches),
        convert_patches=tuple(
            replace(patch, input=names.get(patch.input, patch.input)) for patch in graph.convert_patches
        ),
        output_tasks=tuple(OutputTask(names.get(entry.name, entry.name), entry.tasks) for entry in graph.output_tasks),
    )


def _node(node: Node, names: Mapping[str, str]) -> Node:
    """ "OutputOperator:y" is named after its tensor; other operators keep their own names."""
    kind, colon, name = node.name.partition(":")
    return replace(node, name=f"{kind}:{names[name]}") if colon and kind in _ENDS and name in names else node


# -------------------------------------------------------------------------------------------------- texts


def _mentions(text: str, names: Mapping[str, str]) -> bool:
    """Whether a text can hold one of the names; JSON and Python may write it with escapes."""
    return any(name in text or not name.isascii() or not name.isprintable() for name in names)


def _renamed_keys(value: Any, names: Mapping[str, str]) -> Any:
    return {names.get(key, key): entry for key, entry in value.items()} if isinstance(value, dict) else value


def _keys(text: str, names: Mapping[str, str], what: str) -> str:
    """Tensor name -> what a program sees of it."""
    if not _mentions(text, names):
        return text
    return json.dumps(_renamed_keys(_parsed(text, what), names), ensure_ascii=False)


def _notes(text: str, names: Mapping[str, str]) -> str:
    """Tensor names are the keys of each part, and `name` in the quantisation table."""
    if not _mentions(text, names):
        return text
    parts = notes.parse(text)
    for part in ("attrs", "quant_tab", "dynamic_shapes"):
        if part in parts:
            parts[part] = _renamed_keys(parts[part], names)
    table = parts.get("quant_tab")
    for entry in table.values() if isinstance(table, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            entry["name"] = names.get(str(entry["name"]), entry["name"])
    return repr(parts)


def _trailing(data: bytes, names: Mapping[str, str]) -> bytes:
    """The legacy graph names inputs and outputs in `url`."""
    text = data.decode("utf-8", "replace")
    if not _mentions(text, names):
        return data
    value = _parsed(text, "the trailing JSON")
    for part in ("norm_tensor", "const_tensor", "virtual_tensor"):
        for entry in value.get(part) or () if isinstance(value, dict) else ():
            if isinstance(entry, dict) and isinstance(entry.get("url"), str):
                entry["url"] = names.get(entry["url"], entry["url"])
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise BadTextError(f"{what} cannot be read, so the names in it cannot be changed: {error}") from None
