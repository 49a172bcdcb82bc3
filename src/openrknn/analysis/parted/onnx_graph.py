"""The operators of an `.onnx` part, without the onnx package: a walk over the few fields of its protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.errors import FormatError

__all__ = ["operator_types"]

_MODEL_GRAPH, _GRAPH_NODE, _NODE_TYPE, _NODE_DOMAIN = 7, 1, 4, 7
_PLAIN = {"", "ai.onnx"}
_LONGEST_VARINT = 10
_MOST_CHARACTERS = 200
_FIXED = {1: 8, 5: 4}
"""Wire type -> bytes."""


def operator_types(data: bytes) -> list[str]:
    """The type of every node of the outermost graph, in the order of the file; other domains stand in front."""
    return [
        _type(node)
        for number, graph in _messages(memoryview(data)) if number == _MODEL_GRAPH
        for inner, node in _messages(graph) if inner == _GRAPH_NODE
    ]  # fmt: skip


def _type(node: memoryview) -> str:
    texts = {_NODE_TYPE: "", _NODE_DOMAIN: ""}
    for number, value in _messages(node):
        if number in texts:
            texts[number] = bytes(value[:_MOST_CHARACTERS]).decode("utf-8", "replace")
    domain = texts[_NODE_DOMAIN]
    return texts[_NODE_TYPE] if domain in _PLAIN else f"{domain}.{texts[_NODE_TYPE]}"


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and bytes of each field that has a length; the others are stepped over."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise FormatError(f"an .onnx part is damaged: a field of the kind {kind}", offset=at)
        if size > len(data) - at:
            raise FormatError("an .onnx part ends inside a field", offset=at)
        if kind == 2:
            yield key >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise FormatError("an .onnx part has a number without an end", offset=at)
