"""Mini files: what the writer makes of them is the same image, and models that make no sense are refused by name."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import openrknn
from openrknn import errors
from openrknn.container import mini, outer
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.parts import Graph, Kind, MemoryPlan, RelocationGroup
from openrknn.container.writer import encode
from tests.container.mutate import mutated
from tests.container.places import GOLDENS, golden, head, need_corpus

MINI = [path for path in GOLDENS if head(path).container_version == 0x1004]


def image(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The sizes in the head without that of the names, and all that lies before the names."""
    payload = outer.split(memoryview(data)).payload
    names, *sizes = mini.HEAD.unpack_from(payload)
    return tuple(sizes), bytes(payload[mini.HEAD_BYTES : len(payload) - names])


def changed(model: Model, graph: Graph) -> Model:
    return replace(model, graphs=(graph,))


@pytest.mark.parametrize("path", MINI, ids=lambda path: path.stem)
def test_the_image_is_equal_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert image(encode(openrknn.load(data))) == image(data)


def test_the_image_of_the_whole_corpus_is_equal() -> None:
    found = 0
    for path in need_corpus():
        model = openrknn.load(path)
        if model.container_version == 0x1004:
            assert image(encode(model)) == image(path.read_bytes()), path
            found += 1
    assert found > 35


def test_writing_twice_gives_the_same_bytes() -> None:
    once = encode(openrknn.load(golden("residual_rv1106_i8")))
    assert encode(openrknn.load(once)) == once


def test_addresses_are_made_of_the_plan() -> None:
    """What the places in the commands hold before does not matter."""
    model = openrknn.load(golden("residual_rv1106_i8"))
    graph = model.graphs[0]
    words = list(graph.commands)
    for group in graph.relocations:
        for entry in group:
            words[entry.command] &= 0xFFFF_0000_0000_FFFF
    blank = memoryview(b"".join(word.to_bytes(8, "little") for word in words)).cast("Q")
    assert encode(changed(model, replace(graph, commands=blank))) == encode(model)


def test_rewritten_files_give_the_same_numbers() -> None:
    path = golden("residual_rv1106_i8")
    with openrknn.Session(path) as first, openrknn.Session(encode(openrknn.load(path))) as second:
        shape = first.inputs[0].shape
        values = random.Random(1).randbytes(shape[0] * shape[1] * shape[2] * shape[3])
        numbers = np.frombuffer(values, np.uint8).astype(np.float32).reshape(shape) / 255
        for left, right in zip(first.run([numbers]), second.run([numbers]), strict=True):
            assert np.array_equal(left, right)


def test_models_that_no_mini_file_can_hold_are_refused() -> None:
    model = openrknn.load(golden("residual_rv1106_i8"))
    graph = model.graphs[0]
    with pytest.raises(errors.UnsupportedError, match="one graph"):
        encode(replace(model, graphs=(graph, graph)))
    with pytest.raises(errors.BadTensorError, match="outside its region"):
        encode(replace(model, memory=MemoryPlan(64, model.memory.internal_bytes, model.memory.constant_bytes)))
    with pytest.raises(errors.BadTensorError, match="32-bit"):
        encode(replace(model, memory=replace_internal(model.memory, 2**32 - 64)))
    nowhere = RelocationGroup("nothing", graph.relocations[0].entries, graph.relocations[0].cores)
    with pytest.raises(errors.BadRelocationError, match="no tensor"):
        encode(changed(model, replace(graph, relocations=(nowhere,))))
    cut = replace(graph, commands=graph.commands[:4])
    with pytest.raises(errors.BadRelocationError, match="there are 4"):
        encode(changed(model, cut))
    far = tuple(
        replace(tensor, offset=2**31) if tensor.kind is Kind.WEIGHT and tensor.data else tensor
        for tensor in graph.tensors
    )
    with pytest.raises(errors.BadTensorError, match="outside its region"):
        encode(changed(model, replace(graph, tensors=far)))


def replace_internal(memory: MemoryPlan, size: int) -> MemoryPlan:
    return memory._replace(internal_bytes=size)


def test_damaged_files_that_load_can_be_written_or_are_refused_by_name() -> None:
    """A file that passes the reader's check comes out as a file that passes it too."""
    rng = random.Random(20261116)
    data = golden("residual_rv1106_i8").read_bytes()
    written = 0
    for _ in range(400):
        try:
            model = openrknn.load(mutated(data, rng))
        except openrknn.RknnError:
            continue
        if model.flavour is not Flavour.MINI:
            continue
        try:
            again = openrknn.load(encode(model, drop_unknown=True))
        except openrknn.RknnError:
            continue
        written += 1
        assert again.graphs[0].tasks == model.graphs[0].tasks
    assert written > 20
