"""`openrknn inspect`, for people and for programs."""

import dataclasses
import io
import json
import os
import re
import time
from pathlib import Path

import pytest

import openrknn
from openrknn import analysis
from openrknn.analysis.explain import describe
from openrknn.analysis.reports import SCHEMA_VERSION
from openrknn.cli.common.output import Output
from openrknn.cli.inspect.text import overview
from tests.cli.report_schema import problems, schema
from tests.cli.run import program, run
from tests.container.places import GOLDENS, ROOT, golden, sample_of_corpus

Capture = pytest.CaptureFixture[str]
MISCOMPILED = {"softmax_rv1106_i8", "oww_embedding_rk3588_i8"}
"""Files of the corpus with a mistake of the converter: see docs/lint.md."""
PARTS = 2
"""The corpus is cut, so that it spreads over processors."""
EXAMPLE = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_overview_of_every_golden(path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command once; for terminals of other widths the same report is only drawn again."""
    report = analysis.report(openrknn.load(path, strict=False))
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        for show_all in (False, True):
            if width == 80:
                result = run(capsys, "inspect", path, *(["--all"] if show_all else []))
                assert (result.code, result.err) == (0, "")
                text = result.out
            else:
                overview(report, Output(stream=(drawn := io.StringIO())), show_all=show_all)
                text = drawn.getvalue()
            assert max(map(len, text.splitlines())) <= width
            assert all(title in text for title in ("Inputs", "Outputs", "Operators", "built for"))


def test_what_a_newcomer_reads(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = " ".join(run(capsys, "inspect", golden("image_rk3588_i8")).out.split())
    for words in (
        "built for RK3588 (RKNPU v2, 3 cores)",
        "built by rknn-toolkit2 2.5.0 from ONNX",
        "librknnrt 1.5.2 and newer load it (tested); the vendor advises 2.5.0 and newer",
        "raw uint8 pixels 0..255, [1,16,16,3] NHWC",
        "the model computes (x - mean) / std itself, do not normalize before",
        "mean 123.675 116.28 103.53",
        "std 58.395 57.12 57.375",
        "(q + 128) * 0.0188871",
    ):
        assert words in text


def test_a_long_table_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    model = openrknn.load(golden("residual_rk3588_i8"))
    graph = model.graphs[0]
    nodes = tuple(dataclasses.replace(graph.nodes[1 + index % 7], index=index) for index in range(5000))
    long = dataclasses.replace(model, graphs=(dataclasses.replace(graph, nodes=nodes),))
    stream = io.StringIO()
    start = time.process_time()
    overview(describe(long), Output(stream=stream), show_all=True)
    assert time.process_time() - start < 5
    assert re.search(r"^  4999 +ConvRelu +npu +Conv:conv2 +1x16x8x8 ", stream.getvalue(), re.M)


def test_graphs_of_dynamic_shapes(capsys: Capture) -> None:
    path = golden("dynamic_rk3588_i8")
    assert "Operators of graph 0" in run(capsys, "inspect", path).out
    assert "Operators of graph 2" in run(capsys, "inspect", path, "--graph", "2").out
    assert "1x8x8x3" in run(capsys, "inspect", path, "--graph", "2").out
    result = run(capsys, "inspect", path, "--graph", "3")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "there is no graph 3" in result.err


def test_quiet_prints_warnings_only(capsys: Capture) -> None:
    assert run(capsys, "inspect", golden("conv_rk3588_i8"), "-q") == (0, "", "")
    result = run(capsys, "inspect", golden("cpu_sin_rk3588_i8"), "--quiet")
    assert result.out.startswith("warning: 1 of ")
    assert result.out.count("\n") == 1


def test_html(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "page.html"
    result = run(capsys, "inspect", golden("residual_rk3588_i8"), "--html", out)
    assert (result.code, result.out) == (0, f"wrote {out}\n")
    assert "<html" in out.read_text()[:2000].lower()
    result = run(capsys, "inspect", golden("residual_rk3588_i8"), "--html", tmp_path / "no" / "page.html")
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_a_damaged_file_is_described_with_its_damage(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "damaged.rknn"
    data = golden("conv_rk3588_i8").read_bytes()
    sync = (0x0041 << 48).to_bytes(8, "little")
    path.write_bytes(data.replace(sync, sync[:-1] + b"\x01", 1))
    result = run(capsys, "inspect", path)
    assert result.code == 1
    assert "error" in result.out
    assert "its four closing commands are not the ones that start it" in " ".join(result.out.split())
    assert run(capsys, "inspect", path, "-q").out.startswith("error: ")


def test_the_schema_in_the_documents_is_that_of_the_code() -> None:
    """If this fails on purpose: `python -m tests.cli.report_schema > docs/inspect.schema.json`."""
    assert json.loads((ROOT / "docs" / "inspect.schema.json").read_text()) == schema()
    assert f"`schema_version` is {SCHEMA_VERSION}" in (ROOT / "docs" / "inspect-json.md").read_text()


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_json_of_every_golden_fits_the_schema(path: Path, capsys: Capture) -> None:
    result = run(capsys, "inspect", path, "--json")
    assert result.code == 0
    report = json.loads(result.out)
    root = schema()
    assert problems(report, root, root) == []
    assert report["graph_count"] == len(report["graphs"])


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 1}, {"extra": 1}, {"batch_size": "1"}, {"is_dynamic": 1}, {"inputs": [{}]}, {"graphs": None}],
    ids=str,
)
def test_the_validator_sees_mistakes(change: dict[str, object], capsys: Capture) -> None:
    report = json.loads(run(capsys, "inspect", golden("conv_rk3588_i8"), "--json").out)
    root = schema()
    assert problems({**report, **change}, root, root) != []


@pytest.mark.parametrize("part", range(PARTS))
def test_the_corpus(part: int, capsys: Capture) -> None:
    root = schema()
    for path in sample_of_corpus(12)[part::PARTS]:
        result = run(capsys, "inspect", path, "--json")
        code = int(path.stem in MISCOMPILED)
        assert (result.code, result.err) == (code, ""), path
        assert problems(json.loads(result.out), root, root) == [], path
        assert run(capsys, "inspect", path, "--all").code == code, path


def test_five_megabytes_take_less_than_two_seconds() -> None:
    """With everything: the estimate and lint decode every task."""
    assert EXAMPLE.stat().st_size > 5e6
    used = []
    for _ in range(3):
        before = os.times()
        assert program("inspect", EXAMPLE).code == 0
        after = os.times()
        used.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(used) < 2  # processor time: a busy machine must not fail the test
