"""The memory image: equal to what the vendor's runtime hands to the NPU, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import openrknn
from openrknn.container.link import Addresses, Image, link, plan
from openrknn.container.model import Model
from openrknn.container.parts import TASK, Normalization
from openrknn.container.patch import converter_for, input_values, row_pixels
from openrknn.container.writer import encode
from tests.container.places import CORPUS, GOLDENS, IS_WHOLE, chip_of, golden, head, need_corpus
from tests.witness import testimony as vendor
from tests.witness.testimony import Input, Submit, Type
from tests.witness.witness import HARDWARE_VERSIONS, Witness

_INT_STATUS = slice(20, 24)
"""The kernel writes the status of a task here."""
_NOT_PLAIN = ("dynamic_rk3588_i8", "image_rk3588_i8_batch2", "residual_rk3588_w16a16i_dfp")
"""Goldens that `witnessed` leaves out for what is inside them."""
PLAIN = [
    path for path in GOLDENS
    if head(path).flavour == "flatbuffer" and chip_of(path) in HARDWARE_VERSIONS and path.stem not in _NOT_PLAIN
]  # fmt: skip


def witnessed(paths: Iterable[Path]) -> list[Path]:
    """Files that runtime 1.5.2 loads and whose memory is one plain image.

    A batch file is cloned per input by the runtime, a dynamic one needs a shape first, and the runtime dies before it
    names the buffers of 16-bit integer models.
    """
    kept = []
    for path in paths:
        model = openrknn.load(path)
        plain = model.chip.name in HARDWARE_VERSIONS and model.flavour == "flatbuffer" and model.batch_size < 2
        if plain and not model.is_dynamic and model.inputs[0].dtype != "int16" and model.graphs[0].tasks:
            kept.append(path)
    return kept


def feed(model: Model, dtype: Type) -> list[Input]:
    """Zeros for every input."""
    inputs = []
    for index in model.graphs[0].inputs:
        tensor = model.graphs[0].tensors[index]
        layout = "nhwc" if len(tensor.shape) == 4 else "undefined"
        inputs.append(Input(bytes(tensor.elements), dtype, layout))  # type: ignore[arg-type]
    return inputs


def image_at(model: Model, testimony: vendor.Testimony, submit: Submit, *, raw_pixels: bool) -> Image:
    """Our image at the addresses that the runtime chose."""
    places: dict[str, set[int]] = {}
    for buffer in submit.buffers:
        places.setdefault(buffer.allocation.name, set()).add(buffer.allocation.address)
    internal = places.get("internal", {0})
    graph = model.graphs[0]
    moved = {
        tensor.name: _used(model, submit, tensor.name, places[tensor.name])
        for tensor in graph.tensors
        if tensor.name in places
    }
    image = link(model, Addresses(testimony.allocation("weight").address, min(internal), moved))
    commands = image.commands(graph)
    fed = {graph.tensors[index].name: raw_pixels for index in graph.inputs}
    for command, value in input_values(model, graph, fed):
        commands[command] = commands[command] & ~(0xFFFFFFFF << 16) | (value & 0xFFFFFFFF) << 16
    return image


def _used(model: Model, submit: Submit, name: str, addresses: set[int]) -> int:
    """An input can have two buffers (one per type it was fed in); the commands say which one is in use."""
    if len(addresses) == 1:
        return min(addresses)
    graph = model.graphs[0]
    group = next(group for group in graph.relocations if group.tensor == name)
    entry = next(iter(group))
    start = plan(model).weight_offsets[0]["regcmd"]
    word: int = struct.unpack_from("<Q", submit.buffer("weight").data, start + 8 * entry.command)[0]
    return ((word >> 16) & 0xFFFFFFFF) - entry.addend


def assert_same_memory(model: Model, testimony: vendor.Testimony, *, raw_pixels: bool) -> None:
    assert testimony.code("rknn_init") == 0
    submit = testimony.submits[0]
    image = image_at(model, testimony, submit, raw_pixels=raw_pixels)
    weight = submit.buffer("weight")
    assert weight.allocation.requested_bytes == image.plan.weight_bytes
    assert bytes(image.weight) == weight.data[: len(image.weight)]
    if image.plan.internal_bytes:
        assert submit.buffer("internal").allocation.requested_bytes == image.plan.internal_bytes
    records = bytearray(submit.tasks.data[: len(image.tasks[0])])
    for start in range(0, len(records), TASK.size):
        records[start + _INT_STATUS.start : start + _INT_STATUS.stop] = bytes(4)
    assert bytes(records) == image.tasks[0]


def test_the_goldens_to_compare_are_those_that_their_contents_allow() -> None:
    assert witnessed(GOLDENS) == PLAIN


@pytest.mark.sample(3)
@pytest.mark.witness
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_goldens_equal_the_vendors_memory(path: Path, dtype: Type, witness: Witness) -> None:
    model = openrknn.load(path)
    testimony = witness.run(path, feed(model, dtype), chip=model.chip.name)
    assert_same_memory(model, testimony, raw_pixels=dtype == "uint8")


@pytest.mark.witness
@pytest.mark.parametrize("std", [(1, 2, 4), (255, 1, 1), (58, 300, 20), (0.017, 0.018, 0.02)], ids=str)
def test_each_channel_has_its_own_shift(std: tuple[float, ...], witness: Witness) -> None:
    """One bit of the model changed at a time: the runtime chooses the shift per channel, not for the picture."""
    model = openrknn.load(golden("image_rk3588_i8"))
    norm = Normalization((123.4, 5.0, 6.0, 123.4), (*map(float, std), float(std[0])), (0, 1, 2, 3))
    changed = openrknn.load(encode(replace(model, graphs=(replace(model.graphs[0], normalizations=(norm,)),))))
    testimony = witness.run(encode(changed), feed(changed, "uint8"))
    assert_same_memory(changed, testimony, raw_pixels=True)


@pytest.mark.witness
def test_the_corpus_equals_the_vendors_memory(witness: Witness) -> None:
    """A tenth of the corpus, or all of it with `./test --all`."""
    need_corpus()
    compared = 0
    for path in witnessed(CORPUS)[:: 1 if IS_WHOLE else 10]:
        model = openrknn.load(path)
        testimony = witness.run(path, feed(model, "int8"), chip=model.chip.name, timeout=120)
        if testimony.code("rknn_init") == 0 and testimony.submits:
            assert_same_memory(model, testimony, raw_pixels=False)
            compared += 1
    assert compared > 10


def test_converter_lanes() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    tensor = model.graphs[0].tensors[model.graphs[0].inputs[0]]
    lanes = converter_for(tensor, model.graphs[0].normalizations[0])
    assert [lane.multiplier for lane in lanes] == [0x757B, 0x781A, 0x7791]
    assert {lane.shift for lane in lanes} == {15}
    assert [lane.offset & 0xFFFF for lane in lanes] == [0xFF80, 0xFF85, 0xFF91]
    assert row_pixels(tensor) == 16


def test_float_inputs_have_no_converter() -> None:
    model = openrknn.load(golden("image_rk3588_fp"))
    tensor = model.graphs[0].tensors[model.graphs[0].inputs[0]]
    with pytest.raises(openrknn.UnsupportedError, match="not quantised"):
        converter_for(tensor, model.graphs[0].normalizations[0])


def test_a_plan_overlaps_nothing() -> None:
    for path in GOLDENS:
        model = openrknn.load(path)
        if model.flavour != "flatbuffer":
            continue
        layout = plan(model)
        spans = sorted(
            (layout.weight_offsets[graph.index][tensor.name], len(tensor.data))
            for graph in model.graphs
            for tensor in graph.tensors
            if tensor.data
        )
        for (start, size), (following, _) in pairwise(spans):
            assert start + size <= following
        assert layout.internal_bytes == model.memory.internal_bytes


def test_mini_files_are_not_linked_again() -> None:
    with pytest.raises(openrknn.UnsupportedError, match="linked already"):
        link(openrknn.load(golden("residual_rv1106_i8")), Addresses(0, 0))
