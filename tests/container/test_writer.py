"""The writer: what it writes reads back equal, and the vendor's runtime takes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import openrknn
from openrknn.container.model import Model
from openrknn.container.outer import Flavour
from openrknn.container.parts import Parameters
from openrknn.container.writer import encode
from tests.container.old_mini import as_old_mini
from tests.container.places import GOLDENS, chip_of, golden, head, sample_of_corpus
from tests.witness.witness import HARDWARE_VERSIONS, Witness

FLATBUFFERS = [path for path in GOLDENS if head(path).flavour is Flavour.FLATBUFFER]
WITNESSED = [path for path in FLATBUFFERS if chip_of(path) in HARDWARE_VERSIONS]


def reread(model: Model) -> Model:
    """The model after a trip through the writer, with the two facts that a trip must change put back."""
    return replace(openrknn.load(encode(model)), path=model.path, size_bytes=model.size_bytes)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_rewritten_goldens_are_equal(path: Path) -> None:
    model = openrknn.load(path)
    assert reread(model) == model


def test_the_rewritten_corpus_is_equal() -> None:
    written = 0
    paths = sample_of_corpus(4)
    for path in paths:
        model = openrknn.load(path)
        if model.format_version == 6:
            assert reread(model) == model, path
            written += 1
    assert written > 0.4 * len(paths)


def test_writing_is_deterministic() -> None:
    model = openrknn.load(golden("two_inputs_rk3588_i8"))
    assert encode(model) == encode(model)
    assert encode(openrknn.load(encode(model))) == encode(model)


def test_blobs_are_aligned() -> None:
    model = openrknn.load(encode(openrknn.load(golden("residual_rk3588_i8"))))
    whole = model.graphs[0].commands.obj
    assert isinstance(whole, bytes)
    for tensor in model.graphs[0].tensors:
        if tensor.data:
            assert (whole.index(bytes(tensor.data)) - 64) % 64 == 0


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(openrknn.UnsupportedError, match="0x1003 and model format 0"):
        encode(openrknn.load(as_old_mini(openrknn.load(golden("residual_rv1106_i8")))))
    model = openrknn.load(golden("conv_rk3588_i8"))
    strange = replace(model, unknown=("graph 0 has 3 entries in slot 13",))
    with pytest.raises(openrknn.UnsupportedError, match="slot 13"):
        encode(strange)
    assert openrknn.load(encode(strange, drop_unknown=True)).graphs == model.graphs


def test_unknown_parameters_are_dropped_only_on_request() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    nodes = tuple(replace(node, parameters=Parameters(200, None)) if node.parameters else node for node in graph.nodes)
    strange = replace(model, graphs=(replace(graph, nodes=nodes),), unknown=("operator 1 has parameters of type 200",))
    with pytest.raises(openrknn.UnsupportedError, match="type 200"):
        encode(strange)
    kept = openrknn.load(encode(strange, drop_unknown=True))
    assert {node.parameters for node in kept.graphs[0].nodes} == {None}


@pytest.mark.sample(3)
@pytest.mark.witness
@pytest.mark.parametrize("path", WITNESSED, ids=lambda path: path.stem)
def test_the_vendors_runtime_takes_rewritten_files(path: Path, witness: Witness) -> None:
    """Stands on the vendor's runtime: it loads the rewritten file, and submits the same work as for the original."""
    model = openrknn.load(path)
    original = witness.run(path, chip=model.chip.name, dumps=False, run=not model.is_dynamic)
    rewritten = witness.run(encode(model), chip=model.chip.name, dumps=False, run=not model.is_dynamic)
    assert rewritten.code("rknn_init") == 0 == original.code("rknn_init")
    assert rewritten.calls == original.calls
    assert rewritten.tensors == original.tensors
    assert [submit.ranges for submit in rewritten.submits] == [submit.ranges for submit in original.submits]
