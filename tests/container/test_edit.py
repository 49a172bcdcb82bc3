"""Renaming: the new name everywhere, the old one nowhere, and nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import openrknn
from openrknn.container.edit import rename_tensors, with_custom_string
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.writer import encode
from openrknn.errors import BadTextError
from tests.container.places import GOLDENS, golden, head, sample_of_corpus
from tests.witness.witness import HARDWARE_VERSIONS, Witness

WRITABLE = [path for path in GOLDENS if head(path).flavour is Flavour.FLATBUFFER]


def ends(model: Model) -> dict[str, str]:
    """New names for all inputs and outputs."""
    return {spec.name: f"renamed {number} äöü" for number, spec in enumerate((*model.inputs, *model.outputs))}


def texts(model: Model) -> Iterator[str]:
    """Every text in which a runtime could look for a tensor."""
    for graph in model.graphs:
        yield from (tensor.name for tensor in graph.tensors)
        yield from (group.tensor for group in graph.relocations)
        yield from (patch.input for patch in (*graph.image_patches, *graph.convert_patches))
        yield from (entry.name for entry in graph.output_tasks)
        yield from (node.name.partition(":")[2] for node in graph.nodes if node.type.endswith("putOperator"))
    yield from model.shared_weights
    attributes = model.notes
    for part in ("attrs", "quant_tab", "dynamic_shapes"):
        entries = attributes.get(part)
        if isinstance(entries, dict):
            yield from map(str, entries)
            yield from (str(entry["name"]) for entry in entries.values() if isinstance(entry, dict) and "name" in entry)
    legacy = model.legacy_json
    assert isinstance(legacy, dict)
    yield from (entry["url"] for entry in legacy.get("norm_tensor", ()))
    for text in (model.input_json, model.output_json):
        yield from text.split('"')


@pytest.mark.parametrize("path", WRITABLE, ids=lambda path: path.stem)
def test_renamed_goldens(path: Path) -> None:
    model = openrknn.load(path)
    names = ends(model)
    renamed = rename_tensors(model, names)
    again = openrknn.load(encode(renamed))
    assert [spec.name for spec in (*again.inputs, *again.outputs)] == list(names.values())
    assert [replace(spec, name="") for spec in again.inputs] == [replace(spec, name="") for spec in model.inputs]
    assert not set(texts(again)) & set(names)
    for graph in again.graphs:  # the vendor's runtimes look tensors up in this order
        assert [group.tensor for group in graph.relocations] == sorted(group.tensor for group in graph.relocations)
    assert set(texts(model)) - set(texts(again)) == set(names)
    back = rename_tensors(again, {new: old for old, new in names.items()})
    assert replace(back, path=model.path, size_bytes=model.size_bytes, json_bytes=model.json_bytes) == model
    assert back.legacy_json == model.legacy_json


def test_renamed_corpus() -> None:
    for path in sample_of_corpus(4):
        model = openrknn.load(path)
        if model.flavour is Flavour.FLATBUFFER:
            again = openrknn.load(encode(rename_tensors(model, ends(model))))
            assert not set(texts(again)) & set(ends(model)), path


def test_names_that_are_words_of_the_format() -> None:
    """A tensor may be called like a key of the notes; only the tensor is renamed."""
    model = rename_tensors(openrknn.load(golden("image_rk3588_i8")), {"image": "dtype", "features": "norm_tensor"})
    assert '"dtype": {"dtype": "int8"' in model.input_json
    back = rename_tensors(model, {"dtype": "image", "norm_tensor": "features"})
    original = openrknn.load(golden("image_rk3588_i8"))
    assert (back.notes_text, back.input_json, back.output_json) == (
        original.notes_text,
        original.input_json,
        original.output_json,
    )
    assert back.legacy_json == original.legacy_json


def test_swapping_two_names() -> None:
    model = openrknn.load(golden("two_inputs_rk3588_i8"))
    swapped = rename_tensors(model, {"picture": "features", "features": "picture"})
    assert [spec.name for spec in swapped.inputs] == ["features", "picture"]
    assert [spec.shape for spec in swapped.inputs] == [spec.shape for spec in model.inputs]
    assert openrknn.load(encode(swapped)).inputs == swapped.inputs


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"nothing": "x"}, "no tensor is called 'nothing'"),
        ({"image": "features"}, "two tensors would be called 'features'"),
        ({"image": "x", "features": "x"}, "two tensors would be called 'x'"),
        ({"image": ""}, "is no name"),
        ({"image": "a\nb"}, "is no name"),
        ({"image": "ä" * 128}, "is no name"),
        ({"regcmd": "x"}, "must stay"),
        ({"task": "x"}, "must stay"),
    ],
)
def test_names_that_do_not_work(names: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rename_tensors(openrknn.load(golden("image_rk3588_i8")), names)


def test_texts_that_cannot_be_read() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    for broken in (
        replace(model, notes_text="{'attrs': {'image': "),
        replace(model, input_json='{"image": '),
        replace(model, json_bytes=memoryview(b'{"url": "image"')),
    ):
        with pytest.raises(BadTextError):
            rename_tensors(broken, {"image": "x"})


def test_custom_string() -> None:
    model = openrknn.load(golden("image_rk3588_i8"))
    assert openrknn.load(encode(with_custom_string(model, "änderung"))).custom_string == "änderung"
    for text in ("x" * 1024, "a\0b"):
        with pytest.raises(ValueError, match="at most"):
            with_custom_string(model, text)


@pytest.mark.witness
@pytest.mark.parametrize("name", ["two_inputs_rk3588_i8", "residual_rk3566_i8", "image_rk3588_i8", "cpu_sin_rk3588_i8"])
def test_the_vendor_runs_what_was_renamed(name: str, witness: Witness) -> None:
    model = openrknn.load(golden(name))
    assert model.chip.name in HARDWARE_VERSIONS
    names = ends(model)
    testimony = witness.run(encode(with_custom_string(rename_tensors(model, names), "changed")), chip=model.chip.name)
    assert [call for call in testimony.calls if call.code] == []
    seen = [tensor.name for role in ("input", "output") for tensor in testimony.tensors_of(role)]
    assert seen == list(names.values())
    before = witness.run(golden(name), chip=model.chip.name)
    assert [len(output) for output in testimony.outputs] == [len(output) for output in before.outputs]
    assert [submit.ranges for submit in testimony.submits] == [submit.ranges for submit in before.submits]
