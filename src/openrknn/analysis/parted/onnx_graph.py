"""The operators of an `.onnx` part, without the onnx package."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.container.onnxdata import message_fields

__all__ = ["operator_types"]

_MODEL_GRAPH, _GRAPH_NODE, _NODE_TYPE, _NODE_DOMAIN = 7, 1, 4, 7
_PLAIN = {"", "ai.onnx"}
_MOST_CHARACTERS = 200


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
    """Number and bytes of each field that has a length."""
    for number, _, value in message_fields(data):
        if isinstance(value, memoryview):
            yield number, value
