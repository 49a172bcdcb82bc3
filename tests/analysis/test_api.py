"""`openrknn.analysis` as a library: documented names, loaded when used, equal to what the commands say."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import openrknn
from openrknn import analysis
from openrknn.analysis.differences.difference import Difference
from openrknn.analysis.reports import Severity, as_json
from openrknn.errors import ComparisonError, UnsupportedError
from tests.cli.run import run
from tests.container.places import golden

RESIDUAL = golden("residual_rk3588_i8")
EXPORTED = [
    "Comparison", "CoverageReport", "Difference", "EstimateReport", "Finding", "ModelReport", "Severity", "compare",
    "comparison_as_json", "coverage", "diff", "estimate", "profile_rows", "report",
]  # fmt: skip


def loaded_after(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*(name for name in sys.modules if name.startswith('openrknn')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_names_are_there_and_documented() -> None:
    assert dir(analysis) == sorted(analysis.__all__) == EXPORTED
    page = (Path(__file__).parents[2] / "docs" / "analysis.md").read_text(encoding="utf-8")
    for name in EXPORTED:
        assert getattr(analysis, name) is not None
        if name.islower():
            assert f"analysis.{name}(" in page
    with pytest.raises(AttributeError, match="nonsense"):
        _ = analysis.nonsense


def test_the_report_is_what_inspect_says(capsys: pytest.CaptureFixture[str]) -> None:
    ours: Any = as_json(analysis.report(openrknn.load(RESIDUAL)))
    theirs = json.loads(run(capsys, "inspect", str(RESIDUAL), "--json").out)
    assert ours["findings"] == theirs["findings"]
    assert ours["estimate"] == theirs["estimate"]
    assert ours["estimate"] == dataclasses.asdict(analysis.estimate(openrknn.load(RESIDUAL)))


def test_commands_are_decoded_once_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.npu import Machine

    calls = []
    prepare = Machine.prepare

    def counted(self: Machine, lists: object) -> object:
        calls.append(lists)
        return prepare(self, lists)  # type: ignore[arg-type]

    monkeypatch.setattr(Machine, "prepare", counted)
    model = openrknn.load(RESIDUAL)
    report = analysis.report(model)
    assert report.estimate is not None
    on_npu = [operator for operator in model.operators if operator.tasks]
    assert 0 < len(calls) <= len(on_npu)


def test_a_damaged_file_gets_neither_estimate_nor_lint() -> None:
    model = openrknn.load(RESIDUAL)
    graph = model.graphs[0]
    task = graph.tasks[0]._replace(amount=graph.tasks[0].amount + 1)
    damaged = dataclasses.replace(model, graphs=(dataclasses.replace(graph, tasks=(task, *graph.tasks[1:])),))
    report = analysis.report(damaged)
    assert report.estimate is None
    assert {finding.code for finding in report.findings if finding.severity is Severity.ERROR} == {"damaged"}


def test_diff_and_coverage_take_models() -> None:
    one, other = openrknn.load(RESIDUAL), openrknn.load(golden("image_rk3588_i8"))
    assert list(analysis.diff(one, one)) == []
    assert all(isinstance(item, Difference) for item in analysis.diff(one, other))
    coverage = analysis.coverage(one, other)
    assert [row.chip for row in coverage.files] == ["rk3588", "rk3588"]
    assert not coverage.problems


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="dynamic shapes"):
        analysis.compare(openrknn.load(golden("dynamic_rk3588_i8")), tmp_path / "x.onnx", {})
    (tmp_path / "x.onnx").write_bytes(b"nonsense")
    with pytest.raises(ComparisonError, match="not an ONNX file"):
        analysis.compare(openrknn.load(RESIDUAL), tmp_path / "x.onnx", {})


def test_register_tables_are_loaded_when_they_are_needed() -> None:
    assert "openrknn.chip.rk3588.cna" not in loaded_after("import openrknn.analysis.findings, openrknn.container.load")
    assert not {"openrknn.isa.registers", "openrknn.isa.blocks"} & loaded_after("import openrknn.isa.words")
