"""Damaged files through the tools that look deepest: whatever the reader lets through, they must live with."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from openrknn.analysis.differences.models import compare
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader
from openrknn.cli.common.folder import Folder
from openrknn.cli.extract import parts
from openrknn.container import outer
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import RknnError, UnsupportedError
from tests.cli.run import run
from tests.container.mutate import mutated
from tests.container.places import golden

NAMES = ["conv_rk3588_i8", "residual_rk3576_i8", "residual_rv1106b_i8", "dense_rk3576_w4a16", "dynamic_rk3588_i8"]
FILES = 60


def extract_everything(model: Model, folder: Folder) -> None:
    for graph in model.graphs:
        prefix = f"graph{graph.index}/"
        parts.write_constants(model, graph, folder, prefix, {"weights", "constants"}, as_float=True)
        parts.write_tables(graph, folder, prefix)
        parts.write_commands(model, graph, folder, prefix)
    parts.write_texts(model, folder)
    folder.finish()


def read_scales(model: Model) -> None:
    for graph in model.graphs:
        reader = WeightReader(model, graph)
        for operator in model.operators_of(graph):
            use = reader.use(operator)
            try:
                if use is not None:
                    quantization_of(reader, operator, use)
            except UnsupportedError:
                pass


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    data, rng = golden(name).read_bytes(), random.Random(name)
    whole = load(data)
    taken = 0
    for number in range(FILES):
        damaged = mutated(data, rng)
        try:
            read_scales(load(damaged, strict=False))
            model = load(damaged)
        except RknnError:
            continue
        taken += 1
        extract_everything(model, Folder(str(tmp_path / str(number)), force=False))
        for difference in (*compare(whole, model), *compare(model, whole)):
            assert str(difference)
    assert taken > 5


@pytest.mark.parametrize(
    "words",
    [("diff", "{0}", "{0}"), ("extract", "{0}", "-o", "{1}"), ("edit", "{0}", "-o", "{1}", "--custom-string", "x")],
    ids=lambda words: words[0],
)
def test_files_that_may_not_be_read(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says no; root cannot be told so with rights alone."""

    def denied(source: object) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(outer, "open_source", denied)
    out = tmp_path / "out"
    result = run(capsys, *(word.format(golden("conv_rk3588_i8"), out) for word in words))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "permission denied" in result.err
    assert not out.exists()
