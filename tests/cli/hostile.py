"""Models with names that want to hurt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import openrknn
from openrknn.container.edit import rename_tensors
from openrknn.container.writer import encode
from tests.container.places import golden

NAMES = [
    "../../../../../../evil",
    "/etc/passwd",
    "..",
    "C:\\windows\\system32",
    "con",
    "a\nb\x1b[31mred",
    "x" * 5000,
    "名前",
    "\u202egnp.exe",
    "-rf",
    ".hidden",
    "=cmd|' /C calc'!A0",
]


def hostile_model(path: Path, name: str) -> None:
    """A golden whose weight, custom string and operators have such a name."""
    model = rename_tensors(openrknn.load(golden("conv_rk3588_i8")), {"const0": name}, check_names=False)
    graph = model.graphs[0]
    nodes = tuple(replace(node, name=name) if node.type == "Conv" else node for node in graph.nodes)
    path.write_bytes(encode(replace(model, custom_string=name, graphs=(replace(graph, nodes=nodes),))))
