"""Flattened device trees: read one, change it, write it again (Devicetree Specification, chapter 5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from openrknn.errors import DeviceError

__all__ = ["Node", "cells", "parse_tree", "text"]

_MAGIC = 0xD00DFEED
_HEADER = struct.Struct(">10I")
_VERSION, _COMPATIBLE = 17, 16
_BEGIN, _END, _PROPERTY, _NOP, _FINISH = 1, 2, 3, 4, 9


@dataclass
class Node:
    """A node: properties as bytes, and the nodes below it."""

    name: str
    properties: dict[str, bytes] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def add(self, name: str, **properties: bytes) -> Node:
        """A node below this one. In the names of properties, `_` stands for `-` and `__` for `#`."""
        named = {key.replace("__", "#").replace("_", "-"): value for key, value in properties.items()}
        self.children.append(Node(name, named))
        return self.children[-1]

    def highest_phandle(self) -> int:
        """Of this node and all below it."""
        own = int.from_bytes(self.properties.get("phandle", b""), "big")
        return max([own, *(child.highest_phandle() for child in self.children)])

    def to_bytes(self) -> bytes:
        """The whole tree as a file."""
        names: dict[str, int] = {}
        strings = bytearray()
        body = bytearray()
        self._write(body, names, strings)
        body += struct.pack(">I", _FINISH)
        reserved = bytes(16)
        start = _HEADER.size + len(reserved)
        header = _HEADER.pack(
            _MAGIC, start + len(body) + len(strings), start, start + len(body), _HEADER.size, _VERSION, _COMPATIBLE, 0,
            len(strings), len(body),
        )  # fmt: skip
        return header + reserved + bytes(body) + bytes(strings)

    def _write(self, body: bytearray, names: dict[str, int], strings: bytearray) -> None:
        body += struct.pack(">I", _BEGIN) + _padded(self.name.encode() + b"\0")
        for name, value in self.properties.items():
            if name not in names:
                names[name] = len(strings)
                strings += name.encode() + b"\0"
            body += struct.pack(">III", _PROPERTY, len(value), names[name]) + _padded(value)
        for child in self.children:
            child._write(body, names, strings)
        body += struct.pack(">I", _END)


def cells(*numbers: int) -> bytes:
    """32-bit numbers."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def text(*texts: str) -> bytes:
    """Texts, each with its NUL."""
    return b"".join(entry.encode() + b"\0" for entry in texts)


def parse_tree(data: bytes) -> Node:
    """The root of a tree."""
    try:
        magic, _, start, strings, *_ = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("it does not begin as one")
        return _parse(data, start, strings)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise DeviceError(f"this is no device tree: {error}") from error


def _parse(data: bytes, place: int, strings: int) -> Node:
    top = Node("")
    open_nodes = [top]
    while True:
        (token,) = struct.unpack_from(">I", data, place)
        place += 4
        if token == _BEGIN:
            end = data.index(b"\0", place)
            node = Node(data[place:end].decode())
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
            place += len(_padded(data[place : end + 1]))
        elif token == _PROPERTY:
            size, name = struct.unpack_from(">II", data, place)
            place += 8
            key = data[strings + name : data.index(b"\0", strings + name)].decode()
            open_nodes[-1].properties[key] = data[place : place + size]
            place += size + -size % 4
        elif token == _END:
            open_nodes.pop()
        elif token == _FINISH:
            return top.children[0]
        elif token != _NOP:
            raise ValueError(f"token {token} at {place - 4:#x}")


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
