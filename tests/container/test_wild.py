"""What files in the wild have and the newest toolkit no longer writes: each with a small file of our own.

The originals are other people's and not in this repository; docs/wild.md says where each was met. The rule for every
case is the same: what does not change the result must not stop the file, and what is damage still must.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from collections.abc import Callable

import numpy as np
import pytest

import openrknn
from openrknn.container.parts import Graph, Task
from openrknn.errors import BadTaskError, OtherGenerationError, RknnError, UnsupportedError

from .old_mini import as_old_mini
from .places import golden
from .test_v1 import DESTINATION, FEATURE_ADDRESS, model_bytes

AMOUNTS = 0x0101_0000_0000_0014


def with_words(change: Callable[[Graph], dict[int, int]]) -> bytes:
    """The convolution golden of RK3588 with other command words: index -> word."""
    data = bytearray(golden("conv_rk3588_i8").read_bytes())
    graph = openrknn.load(bytes(data)).graphs[0]
    stored = bytes(graph.commands)
    start = data.index(stored)
    for index, word in change(graph).items():
        struct.pack_into("<Q", data, start + 8 * index, word)
    return bytes(data)


def link(task: Task) -> int:
    """Where a task's link is; the amounts follow it."""
    return task.first_command + task.amount


def linked(graph: Graph) -> Task:
    """A task that is followed by another."""
    return next(task for task in graph.tasks if graph.commands[link(task)])


def test_the_last_task_of_toolkits_1_5_2_and_1_6_0() -> None:
    """Both of its link words are 0 (11 files for RK3566/68 and RV1103/06); newer toolkits leave only the first so."""
    ends = with_words(lambda graph: {link(graph.tasks[-1]) + 1: 0})
    assert openrknn.load(ends).graphs[0].commands[link(openrknn.load(ends).graphs[0].tasks[-1]) + 1] == 0


def test_a_link_without_its_amount_is_still_damage() -> None:
    with pytest.raises(BadTaskError, match="closing commands"):
        openrknn.load(with_words(lambda graph: {link(linked(graph)) + 1: 0}))


@pytest.mark.parametrize("bits", [0x20000000, 0x40000000, 0x60000000])
def test_hints_in_the_amounts_of_toolkits_1_6_1_to_2_1_0(bits: int) -> None:
    """Bits 30:29 (6 files for RK3588 and RK3576): the tasks are the same, and they run in the same order."""
    plain = openrknn.load(golden("conv_rk3588_i8"))
    hinted = openrknn.load(
        with_words(lambda graph: {link(linked(graph)) + 1: graph.commands[link(linked(graph)) + 1] | bits << 16})
    )
    picture = np.random.default_rng(0).normal(size=plain.inputs[0].shape).astype(np.float32)
    answers = []
    for model in (plain, hinted):
        with openrknn.Session(model, device="software") as session:
            answers.append(next(iter(session.run(picture).values())))
    assert np.array_equal(answers[0], answers[1])


def test_another_number_of_commands_is_still_damage() -> None:
    with pytest.raises(BadTaskError, match="fetches"):
        openrknn.load(with_words(lambda graph: {link(linked(graph)) + 1: AMOUNTS | 0x7777 << 16}))


def as_container(version: int) -> bytes:
    """The hand-made file of model format 1 in an older container; the first one has a header of 24 bytes."""
    data = model_bytes()
    header = data[:8] + struct.pack("<Q", version) + data[16:24]
    return header + data[64:] if version == 1 else header + data[24:]


@pytest.mark.parametrize("version", [1, 4])
def test_containers_of_toolkits_1_1_and_1_5_0(version: int) -> None:
    model = openrknn.load(as_container(version))
    assert model.container_version == version
    assert [task.amount for task in model.graphs[0].tasks] == [3, 3, 3, 3]


def test_container_1_of_toolkit_1_is_another_family() -> None:
    """Both generations call their first container 1; only ours has a FlatBuffer with its name in it."""
    data = bytearray(as_container(1))
    data[24:32] = bytes.fromhex("b7150000960d0000")
    with pytest.raises(OtherGenerationError, match=r"RKNN-Toolkit 1 .*RV1126"):
        openrknn.load(bytes(data))


def test_an_unknown_container_says_which_are_known() -> None:
    with pytest.raises(UnsupportedError, match=r"container version 0x9.*0x1003 and 0x1004"):
        openrknn.load(as_container(9))


def test_relocations_that_name_a_first_column() -> None:
    """Tasks of a row longer than 2047 pixels (three files of toolkits 1.3 and 1.4): the word above the addend."""
    graph = openrknn.load(model_bytes([(FEATURE_ADDRESS, 1, 2047 << 32 | 32), (DESTINATION, 2, 16)])).graphs[0]
    places = {group.tensor: {entry.addend for entry in group} for group in graph.relocations}
    assert places == {"x": {32}, "y": {16}}


def test_pictures_of_format_1_have_a_converter() -> None:
    """The lists hold what uint8 pictures need: fed as int8 without a patch, every picture came out wrong.

    Witness: the vendor's multiple-input demo of toolkits 1.3.4 and 1.6.2 for RK3566, whose answers are now equal.
    """
    graph = openrknn.load(model_bytes()).graphs[0]
    assert [patch.input for patch in graph.convert_patches] == ["x"] * 4
    places = [patch.slots[5].command for patch in graph.image_patches if patch.slots[5] is not None]
    assert [graph.commands[place] & 0xFFFF for place in places] == [FEATURE_ADDRESS] * 4


@pytest.mark.parametrize("name", ["residual_rv1106_i8", "image_rv1106_i8", "matmul_rv1106_i8"])
def test_the_first_mini_container(name: str) -> None:
    """0x1003: the same network in the older writing has the same answers."""
    new = openrknn.load(golden(name))
    old = openrknn.load(as_old_mini(new))
    assert (old.container_version, old.chip.name, old.toolkit_version) == (0x1003, "rv1106", new.toolkit_version)
    chance = np.random.default_rng(1)
    feeds = [
        chance.integers(0, 256, spec.shape, np.uint8) if spec.is_image else chance.normal(size=spec.shape)
        for spec in new.inputs
    ]
    answers = []
    for model in (new, old):
        with openrknn.Session(model, device="software") as session:
            answers.append(list(session.run(feeds).values()))
    for one, other in zip(*answers, strict=True):
        assert np.array_equal(one, other)


def junk(value: object, chance: np.random.Generator) -> object:
    """The same names with some values of another type, size or sign."""
    if chance.random() < 0.01:
        return chance.choice(np.array([-1, 0, 2**40, "x", None, 1e30], object))
    if isinstance(value, dict):
        return {key: junk(inner, chance) for key, inner in value.items()}
    if isinstance(value, list):
        return [junk(inner, chance) for inner in value]
    return value


@pytest.mark.parametrize("seed", range(40))
def test_damaged_names_of_the_first_mini_container(seed: int) -> None:
    """Whatever the JSON says, a file loads or is refused by name."""
    data = as_old_mini(openrknn.load(golden("residual_rv1106_i8")))
    size = struct.unpack_from("<I", data, 64)[0]
    names = json.loads(base64.b64decode(data[128 : 128 + size]))
    other = base64.b64encode(json.dumps(junk(names, np.random.default_rng(seed))).encode())
    payload = struct.unpack_from("<Q", data, 16)[0] + len(other) - size
    head = data[:16] + struct.pack("<Q", payload) + data[24:64] + struct.pack("<I", len(other)) + data[68:128]
    with contextlib.suppress(RknnError):
        model = openrknn.load(head + other + data[128 + size :])
        assert model.graphs[0].tasks
