"""Files from the internet: each way of being wrong has its name, and none crashes, hangs or eats memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

import openrknn
from openrknn import errors
from openrknn.container.builder import Builder, Slot
from openrknn.container.check import check, problems
from openrknn.container.model import Model
from openrknn.container.parts import Graph, RelocationGroup, Task
from openrknn.container.writer import encode
from tests.container.mutate import exercise, mutated
from tests.container.places import GOLDENS, golden

CONV = golden("conv_rk3588_i8").read_bytes()


def with_graph(model: Model, graph: Graph) -> Model:
    return replace(model, graphs=(graph,))


def conv() -> tuple[Model, Graph]:
    model = openrknn.load(CONV)
    return model, model.graphs[0]


# -- the outer file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (b"", errors.EmptyFileError, "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), errors.NotRknnError, "PNG picture"),
        (b"version https://git-lfs.github.com/spec/v1\n", errors.NotRknnError, "git lfs pull"),
        (b"\0" * 64, errors.NotRknnError, "not a .rknn"),
        (b"hello", errors.NotRknnError, "hello"),
        (b"RKNX" + bytes(100), errors.OtherGenerationError, "RKNN3"),
        (b"CYPTRKNN" + bytes(100), errors.EncryptedModelError, "encrypted"),
        (b"RKNN\0\0\0\0", errors.TruncatedError, "header"),
        (CONV[:20], errors.TruncatedError, "header"),
        (CONV[:200], errors.TruncatedError, "cut off"),
        (CONV[:-900], errors.TruncatedError, "JSON"),
        (CONV[:8] + struct.pack("<Q", 9) + CONV[16:], errors.UnsupportedError, "container version 0x9"),
        (CONV[:16] + struct.pack("<Q", 2**60) + CONV[24:], errors.TruncatedError, "announces"),
        (CONV[:64] + b"VPMN" + CONV[68:], errors.OtherGenerationError, "RKNPU1"),
        (CONV[:68] + b"JUNK" + CONV[72:], errors.BadTableError, "identifier"),
        (CONV[:64] + struct.pack("<I", 0xFFFFFFF0) + CONV[68:], errors.OutOfBoundsError, "table"),
    ],
)
def test_damage_of_the_outer_file_has_a_name(data: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        openrknn.load(data)


def test_errors_say_where() -> None:
    with pytest.raises(errors.FormatError) as caught:
        openrknn.load(CONV[:200])
    assert caught.value.section == "header"
    assert caught.value.offset == 200
    assert "byte 0xc8" in str(caught.value)


def test_missing_paths_stay_os_errors() -> None:
    with pytest.raises(FileNotFoundError):
        openrknn.load("no such file.rknn")
    with pytest.raises(IsADirectoryError):
        openrknn.load(golden("conv_rk3588_i8").parent)


# -- the model -------------------------------------------------------------------------------------------------------


def test_a_target_nobody_knows() -> None:
    model, _ = conv()
    with pytest.raises(errors.UnsupportedError, match="RKNPU v9"):
        openrknn.load(encode(replace(model, target="RKNPU v9")))


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (struct.pack("<iI", 0, 10**6), "command 1000000"),
        (struct.pack("<iI", 0x7FFFFFFF, 0), "outside the tensor"),
        (struct.pack("<iI", -64, 0), "outside the tensor"),
    ],
)
def test_relocations_stay_inside(entries: bytes, text: str) -> None:
    model, graph = conv()
    group = replace(graph.relocations[0], entries=memoryview(entries), cores=memoryview(b""))
    with pytest.raises(errors.BadRelocationError, match=text):
        check(with_graph(model, replace(graph, relocations=(group,))))


def test_relocations_name_tensors() -> None:
    model, graph = conv()
    group = RelocationGroup("nobody", memoryview(struct.pack("<iI", 0, 0)), memoryview(b""))
    with pytest.raises(errors.BadRelocationError, match="no tensor"):
        check(with_graph(model, replace(graph, relocations=(group,))))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"amount": 10**6}, "outside the"),
        ({"address": 0x7FFFFFF8}, "outside the"),
        ({"address": 4}, "outside the"),
        ({"op_index": 99}, "operator 99"),
        ({"enable_mask": 0x60}, "enables blocks"),
        ({"amount": 3}, "closing commands"),
    ],
)
def test_tasks_stay_inside(change: dict[str, int], text: str) -> None:
    model, graph = conv()
    tasks: tuple[Task, ...] = (graph.tasks[0]._replace(**change), *graph.tasks[1:])
    found = list(problems(with_graph(model, replace(graph, tasks=tasks))))
    assert {type(problem) for problem in found} == {errors.BadTaskError}
    assert any(text in str(problem) for problem in found)


def test_counts_must_add_up() -> None:
    model, graph = conv()
    nodes = tuple(replace(node, task_counts=(*(count + 1 for count in node.task_counts),)) for node in graph.nodes)
    with pytest.raises(errors.BadTaskError, match="task records"):
        openrknn.load(encode(with_graph(model, replace(graph, nodes=nodes))))


def test_indices_stay_inside() -> None:
    model, graph = conv()
    with pytest.raises(errors.BadReferenceError, match="tensor 9999"):
        openrknn.load(encode(with_graph(model, replace(graph, inputs=(9999,)))))
    tensors = (*graph.tensors[:1], replace(graph.tensors[1], blob=-1), *graph.tensors[2:])
    with pytest.raises(errors.BadReferenceError, match="blob -1"):
        openrknn.load(encode(with_graph(model, replace(graph, tensors=tensors))))


def test_names_are_unique() -> None:
    model, graph = conv()
    tensors = (*graph.tensors[:1], replace(graph.tensors[1], name=graph.tensors[2].name), *graph.tensors[2:])
    with pytest.raises(errors.BadTensorError, match="same name"):
        openrknn.load(encode(with_graph(model, replace(graph, tensors=tensors))))


def test_impossible_shapes() -> None:
    model, graph = conv()
    tensors = (*graph.tensors[:1], replace(graph.tensors[1], shape=(-1, 3)), *graph.tensors[2:])
    with pytest.raises(errors.BadTensorError, match="impossible"):
        openrknn.load(encode(with_graph(model, replace(graph, tensors=tensors))))


# -- amplification ---------------------------------------------------------------------------------------------------


def test_a_small_file_cannot_become_a_huge_model() -> None:
    """A million tensors that are all one and the same table: 4 bytes each in the file, a kilobyte each in memory."""
    build = Builder(b"RKNN")
    once = cache(lambda: build.table([build.text(5, "x")]))
    million: Slot = (0, bytes(4), lambda _: build._write_references([once] * 1_000_000), False)
    payload = build.root(
        [build.scalar(0, "i", 6), build.text(1, "RKNPU v2"), build.tables(2, [[million]]), build.tables(20, [[]])]
    )
    data = b"RKNN\0\0\0\0" + struct.pack("<QQ", 6, len(payload)) + bytes(40) + payload + struct.pack("<Q", 0)
    tracemalloc.start()
    try:
        with pytest.raises(errors.TooComplexError, match="so often"):
            openrknn.load(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(data) + 64 * 2**20


def test_a_rich_file_is_no_attack() -> None:
    """Tens of thousands of tensors that share nothing: a large network, as a vendor-built DeepLab is."""
    model, graph = conv()
    last = len(graph.tensors)
    more = tuple(
        replace(graph.tensors[1], index=last + number, name=f"activation_{number}", data=None, blob=0)
        for number in range(20_000)
    )
    data = encode(with_graph(model, replace(graph, tensors=(*graph.tensors, *more))))
    assert len(data) < 16 * 2**20
    assert len(openrknn.load(data, strict=False).graphs[0].tensors) == last + len(more)


def test_deep_or_long_texts_are_refused() -> None:
    model, _ = conv()
    for text in ("[" * 100_000, "{" * 50, "{'a': " * 40 + "1" + "}" * 40, "{'a' 1}", "{1: open('x')}"):
        changed = openrknn.load(encode(replace(model, notes_text=text)))
        with pytest.raises(errors.BadTextError):
            _ = changed.notes
    for json in (b"[" * 100_000, b"\xff\xfe", b"{"):
        changed = openrknn.load(encode(replace(model, json_bytes=memoryview(json))))
        with pytest.raises(errors.BadTextError):
            _ = changed.legacy_json


# -- fuzzing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_never_crash(seed: int) -> None:
    """A bounded share of what tools/fuzz.py does for hours: only `RknnError`s come out, whatever the damage."""
    rng = random.Random(seed)
    sources = [path.read_bytes() for path in GOLDENS if path.stat().st_size < 40_000]
    outcomes: Counter[str] = Counter()
    for _ in range(500):
        outcomes[exercise(mutated(rng.choice(sources), rng))] += 1
    assert outcomes["refused"] > 100
    assert outcomes["accepted"] > 20
