"""Commands with addresses equal those of `container.link`, which equals the vendor's runtime byte for byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from openrknn.container.link import Addresses, link, plan
from openrknn.container.load import load
from openrknn.container.parts import TASK, Kind, RelocationGroup
from openrknn.errors import BadRelocationError
from openrknn.runtime.program.relocate import addresses_of, relocated_tasks, write_commands, write_values
from tests.container.places import head
from tests.runtime.cases import GOLDENS

WEIGHT, INTERNAL, FIRST_END = 0x1000_0000, 0x2000_0000, 0x3000_0000


def linked() -> list[Path]:
    """Every golden that has a linked image of its own (mini files are linked already, format 1 has no commands)."""
    return [path for path in sorted(GOLDENS.glob("*.rknn")) if head(path).flavour == "flatbuffer"]


@pytest.mark.parametrize("path", linked(), ids=lambda path: path.stem)
def test_commands_and_tasks_equal_the_slow_way(path: Path) -> None:
    model = load(path)
    layout = plan(model)
    for graph in model.graphs:
        ends = {graph.tensors[index].name for index in (*graph.inputs, *graph.outputs)}
        tensors = {name: FIRST_END + 0x10_0000 * number for number, name in enumerate(sorted(ends))}
        image = link(model, Addresses(WEIGHT, INTERNAL, tensors))
        if not graph.tasks:
            continue
        offsets = layout.weight_offsets[graph.index]
        home = WEIGHT + offsets[next(tensor.name for tensor in graph.tensors if tensor.kind is Kind.COMMANDS)]
        located = addresses_of(
            graph, commands=home, weights=WEIGHT, weight_offsets=offsets, internal=INTERNAL, tensors=tensors
        )
        words = np.zeros(len(graph.commands), np.uint64)
        write_commands(graph, words, home, located)
        assert words.tobytes() == image.commands(graph).tobytes()
        records = b"".join(TASK.pack(*task) for task in relocated_tasks(graph, home))
        assert records == image.tasks[graph.index]


def test_values_replace_only_the_value() -> None:
    words = np.array([0x0201_1234_5678_1040, 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    write_values(words, {0: 0xCAFE_F00D, 1: 0})
    assert words.tolist() == [0x0201_CAFE_F00D_1040, 0xFFFF_0000_0000_FFFF]
    write_values(words, {})


def test_a_relocation_of_nothing_is_named() -> None:
    graph = load(GOLDENS / "conv_rk3588_i8.rknn").graphs[0]
    strange = dataclasses.replace(graph, relocations=(RelocationGroup("nobody", memoryview(b""), memoryview(b"")),))
    with pytest.raises(BadRelocationError, match="nobody"):
        write_commands(strange, np.zeros(len(graph.commands), np.uint64), 0, {})
