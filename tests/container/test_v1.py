"""Model format 1 (toolkit 1.4): register lists become commands, tasks, relocations and lists.

No converter that writes this format can be installed any more, so the file here is made by hand, slot by slot, from
what public files of that age show.
"""

from __future__ import annotations

import struct

import pytest

import openrknn
from openrknn.chips import TaskList
from openrknn.container.builder import Builder, Slot
from openrknn.container.check import problems
from openrknn.errors import BadReferenceError, BadRelocationError, BadTaskError, UnsupportedError
from openrknn.isa.words import fetch_amount

FEATURE_ADDRESS, DESTINATION = 0x1070, 0x4020


def word(register: int, value: int) -> int:
    """A register of a list: value in the upper half, register in bits 31:16."""
    return value << 32 | register << 16


def tensor(build: Builder, name: str, kind: int, blob: int = 0, size: int = 64) -> list[Slot]:
    return [
        build.scalar(0, "B", 3),
        build.scalar(2, "B", kind),
        build.numbers(3, "i", (1, 1, 2, 2, 16)),
        build.numbers(4, "i", (1, 16, 2, 2)),
        build.text(5, name),
        build.scalar(12, "I", size),
        build.scalar(18, "i", blob),
    ]


def register_task(
    build: Builder, source: int, relocations: list[tuple[int, int, int]], core: int, cores: int, *, lut: int = 0
) -> list[Slot]:
    packed = b"".join(struct.pack("<IIqII", register, index, addend, 0, 0) for register, index, addend in relocations)
    return [
        build.scalar(0, "i", source),
        build.scalar(1, "i", lut),
        build.scalar(3, "i", 0x1D),
        build.scalar(4, "i", 0x300),
        build.raw(5, packed, 24),
        build.scalar(6, "i", core),
        build.scalar(8, "i", cores),
    ]


def model_bytes(
    relocations: list[tuple[int, int, int]] | None = None,
    *,
    source: int = 3,
    container: int = 2,
    core: int = 0,
    lut: int = 0,
    undivided: bool = False,
) -> bytes:
    """A convolution for one and for two cores; with `undivided` another one that has a list for one core alone."""
    build = Builder(b"RKNN")
    lists = struct.pack("<3Q", word(0x1014, 9), word(FEATURE_ADDRESS, 0), word(DESTINATION, 0))
    relocations = [(FEATURE_ADDRESS, 1, 0), (DESTINATION, 2, 16)] if relocations is None else relocations
    nodes = [
        [build.text(1, "InputOperator"), build.text(2, "InputOperator:x"), build.numbers(5, "i", (1,))],
        [
            build.text(1, "Conv"),
            build.text(2, "Conv:c"),
            build.scalar(3, "B", 2),
            build.numbers(4, "i", (1,)),
            build.numbers(5, "i", (2,)),
            build.tables(
                6,
                [
                    register_task(build, source, relocations, core, 1, lut=lut),
                    register_task(build, source, relocations, 0, 1),
                    register_task(build, source, relocations, 0, 2),
                    register_task(build, source, relocations, 1, 2),
                ],
            ),
        ],
    ]
    if undivided:
        nodes.append(
            [*nodes[1][:1], build.text(2, "Conv:d"), *nodes[1][2:5],
             build.tables(6, [register_task(build, source, relocations, 0, 1)])]
        )  # fmt: skip
    tensors = [
        [build.text(5, "")],
        tensor(build, "x", 1),
        tensor(build, "y", 2),
        tensor(build, "list", 7, blob=1, size=24),
    ]
    graph = [
        build.tables(0, tensors),
        build.tables(1, nodes),
        build.numbers(2, "i", (1,)),
        build.numbers(3, "i", (2,)),
    ]
    blobs: list[list[Slot]] = [[], [build.raw(0, lists, 1)]]
    payload = build.root(
        [
            build.scalar(0, "i", 1),
            build.text(1, "RKNPU v2"),
            build.tables(2, [graph]),
            build.tables(4, blobs),
            build.text(7, "1.3.4-test(compiler 1.4.2b4)"),
            build.text(8, "rk3588"),
        ]
    )
    header = b"RKNN\0\0\0\0" + struct.pack("<QQ", container, len(payload)) + bytes(40)
    return header + payload + struct.pack("<Q2s", 2, b"{}")


def test_register_lists_become_commands() -> None:
    model = openrknn.load(model_bytes())
    assert (model.format_version, model.container_version, model.toolkit_version) == (1, 2, "1.3.4-test")
    assert list(problems(model)) == []
    graph = model.graphs[0]
    expected = {TaskList(1, 0): range(2), TaskList(2, 0): range(2, 3), TaskList(2, 1): range(3, 4)}
    assert dict(graph.task_lists) == expected
    first, second = graph.tasks[:2]
    assert (first.amount, first.address, second.address) == (3, 0, 64)
    words = list(graph.task_words(first))
    assert words[0] == 0x0201_0000_0009_1014
    assert words[3] == 0x0101_0000_0000_0010 | 64 << 16
    assert words[4] == 0x0101_0000_0000_0014 | fetch_amount(3, model.chip.words_per_fetch) << 16
    assert words[6] == 0x0081_0000_0000_0008 | 0x1D << 16
    assert graph.task_words(second)[3] == 0


def test_relocations_point_into_the_assembled_commands() -> None:
    graph = openrknn.load(model_bytes()).graphs[0]
    places = {group.tensor: [(entry.addend, entry.command) for entry in group] for group in graph.relocations}
    assert places == {"x": [(0, 1), (0, 9), (0, 17), (0, 25)], "y": [(16, 2), (16, 10), (16, 18), (16, 26)]}
    for group in graph.relocations:
        for entry in group:
            assert graph.commands[entry.command] & 0xFFFF in {FEATURE_ADDRESS, DESTINATION}


def test_damaged_lists_are_refused() -> None:
    with pytest.raises(BadRelocationError, match="0x1234"):
        openrknn.load(model_bytes([(0x1234, 1, 0)]))
    with pytest.raises(BadRelocationError, match="tensor 77"):
        openrknn.load(model_bytes([(FEATURE_ADDRESS, 77, 0)]))
    with pytest.raises(BadTaskError, match="core 5"):
        openrknn.load(model_bytes(core=5))
    with pytest.raises(BadReferenceError, match="register list"):
        openrknn.load(model_bytes(source=1))


def test_it_cannot_be_written_back() -> None:
    from openrknn.container.writer import encode

    with pytest.raises(UnsupportedError, match="model format 1"):
        encode(openrknn.load(model_bytes()))
