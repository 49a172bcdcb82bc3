"""Commands on a model in parts: each shows both kinds of parts, or says which file to give. Witness: ONNX Runtime."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.analysis.parted.report import describe_parts, operator_types
from openrknn.container.bundle import write_bundle
from openrknn.errors import FormatError
from openrknn.pages.parted.page import parted_page
from tests.cli.run import run
from tests.parted_file import feed, parted_bundle, parted_bytes, parted_onnx

pytest.importorskip("onnxruntime", reason="parts of the CPU run in ONNX Runtime")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("parted")
    (place / "m.rknnz").write_bytes(parted_bytes())
    (place / "m.onnx").write_bytes(parted_onnx().SerializeToString())
    np.savez(place / "in.npz", **feed())
    np.save(place / "image.npy", feed()["image"])
    (place / "number.bin").write_bytes(feed()["number"].tobytes())
    return place


def said(capsys: Capture, *words: object) -> dict[str, Any]:
    result = run(capsys, *words, "--json")
    assert result.err == ""
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_inspect(capsys: Capture, folder: Path) -> None:
    found = said(capsys, "inspect", folder / "m.rknnz")
    assert [part["kind"] for part in found["parts"]] == ["npu", "cpu", "npu", "cpu"]
    assert found["parts"][1]["types"] == {"Cast": 2, "Gather": 1, "CumSum": 1}
    assert found["parts"][0]["report"]["graphs"][0]["totals"]["macs"] == found["parts"][0]["macs"]
    assert found["npu_share"] == 1.0
    assert found["kind"] == "parts"
    text = run(capsys, "inspect", folder / "m.rknnz", "--all").out
    for words in ("2 on the NPU, 2 on the CPU", "'number' is int64", "ConvRelu", "CumSum", "Internal memory"):
        assert words in text
    assert run(capsys, "inspect", folder / "m.rknnz", "--graph", 0).code != 0


def test_inspect_of_a_damaged_part(capsys: Capture, tmp_path: Path) -> None:
    whole = parted_bundle()
    files = {**whole.files, whole.parts[1].file: b"\x3a\xff\xff\xff\xff\x0f"}
    (tmp_path / "bad.rknnz").write_bytes(write_bundle(dataclasses.replace(whole, files=files)))
    result = run(capsys, "inspect", tmp_path / "bad.rknnz", "--quiet")
    assert result.code == 2
    assert f"part 1 ({whole.parts[1].file}) of" in result.err
    assert "field 7 of 4294967295 bytes" in result.err
    with pytest.raises(FormatError):
        operator_types(b"\x3a" + b"\xff" * 11)


def test_run_takes_arrays_in_the_models_types(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    model = folder / "m.rknnz"
    first = said(capsys, "run", model, "--input", folder / "in.npz", "-o", tmp_path / "out")
    assert [entry["dtype"] for entry in first["outputs"]] == ["float32", "bool"]
    files = ("--input", f"image={folder / 'image.npy'}", "--input", f"number={folder / 'number.bin'}")
    again = said(capsys, "run", model, *files)
    assert again["outputs"][0]["mean"] == first["outputs"][0]["mean"]
    for words, message in (
        ((), "image: float 1x16x8x8; number: int64 1"),
        (("--input", folder / "image.npy"), "no --input for 'number'"),
        (("--input", "other=x.npy"), "no input 'other'"),
        (("--input", "cat.jpg"), "takes arrays"),
        (("--input", f"number={folder / 'image.npy'}", "--input", f"image={folder / 'image.npy'}"), "float32 numbers"),
        (("--input", folder / "in.npz", "--raw"), "--raw"),
    ):
        result = run(capsys, "run", model, *words)
        assert result.code != 0
        assert message in result.err


def test_bench_and_profile(capsys: Capture, folder: Path) -> None:
    bench = said(capsys, "bench", folder / "m.rknnz", "--runs", 1, "--warmup", 0, "--seconds", "0.001")
    assert bench["macs"] == 2 * 16 * 16 * 9 * 64
    assert bench["memory"]["device"]["weights_bytes"] > 0
    profile = said(capsys, "profile", folder / "m.rknnz", "--runs", 1)
    assert [part["profile"] is None for part in profile["parts"]] == [False, True, False, True]
    assert profile["total"]["here_us"] == pytest.approx(sum(part["here_us"] for part in profile["parts"]))
    text = run(capsys, "profile", folder / "m.rknnz", "--runs", 1, "--sort", "here").out
    assert "Part 2 on the NPU" in text
    assert "ConvSigmoid" in text
    assert "CPU" in text


def test_compare_says_which_part_is_to_blame(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    words = ("compare", folder / "m.rknnz", folder / "m.onnx", "--input", folder / "in.npz")
    good = said(capsys, *words)
    assert not good["is_bad"]
    borders = {entry["value"]: entry for entry in good["borders"]}
    assert list(borders) == ["r0", "row", "s0", "scores", "mask"]
    assert borders["s0"]["alone"]["snr_db"] == 200  # ONNX Runtime on the same numbers
    assert 50 < borders["scores"]["free"]["snr_db"] < 110  # fp16
    # Another kernel in part 0: that part is named, and the outputs are bad.
    other = parted_onnx()
    kernel = next(item for item in other.graph.initializer if item.name == "w0")
    kernel.raw_data = (-np.frombuffer(kernel.raw_data, np.float32)).tobytes()
    (tmp_path / "other.onnx").write_bytes(other.SerializeToString())
    result = run(capsys, "compare", folder / "m.rknnz", tmp_path / "other.onnx", "--input", folder / "in.npz")
    assert result.code == 1
    assert "part 0 (NPU) adds most: 'r0'" in result.out
    page = tmp_path / "page.html"
    assert run(capsys, *words, "--html", page).code == 0
    assert "Accuracy at the borders" in page.read_text("utf-8")
    assert run(capsys, *words, "--reference", "quantized").code != 0


def test_extract_and_the_commands_for_one_file(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    result = run(capsys, "extract", folder / "m.rknnz", "-o", tmp_path / "parts")
    assert result.code == 0
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        "00.rknn", "01.onnx", "02.rknn", "03.onnx", "index.json",
    ]  # fmt: skip
    assert openrknn.load(tmp_path / "parts" / "00.rknn").inputs[0].name == "image"
    for command in ("disasm", "lint", "coverage", "edit"):
        words = ["-o", tmp_path / "x.rknn", "--custom-string", "x"] if command == "edit" else []
        result = run(capsys, command, folder / "m.rknnz", *words)
        assert result.code != 0, command
        assert "openrknn extract" in result.err, command
    result = run(capsys, "diff", folder / "m.rknnz", folder / "m.rknnz")
    assert "openrknn extract" in result.err


def test_the_page(folder: Path) -> None:
    page = parted_page(parted_bundle(), name="speech.rknnz")
    assert page.count('class="piece npu"') == page.count('class="piece cpu"') == 4  # two strips
    for words in ("speech.rknnz", "id=\"part3\"", "&#x27;number&#x27; is int64", "ConvSigmoid", "id=\"g2-all\""):
        assert words in page
    hostile = dataclasses.replace(
        parted_bundle(), made_by="<script>alert(1)</script>", notes=("<b>x</b>: <i>y</i>",)
    )  # fmt: skip
    shown = parted_page(hostile)
    assert "<script>alert" not in shown
    assert "<b>x</b>" not in shown
    assert "&lt;b&gt;x" in shown
    assert describe_parts(hostile).chip == "RK3588"


@pytest.mark.parametrize(
    "change", [{"npu_us": float("nan")}, {"cpu_us": float("inf")}, {"macs": -1}, {"operators": 10**30}]
)
def test_numbers_that_cannot_be_are_refused(capsys: Capture, tmp_path: Path, change: dict[str, Any]) -> None:
    whole = parted_bundle()
    parts = (dataclasses.replace(whole.parts[0], **change), *whole.parts[1:])
    (tmp_path / "bad.rknnz").write_bytes(write_bundle(dataclasses.replace(whole, parts=parts)))
    result = run(capsys, "inspect", tmp_path / "bad.rknnz", "--json")
    assert (result.code != 0, result.out) == (True, "")
    assert "part 0" in result.err


def test_inputs_that_nobody_could_hold_are_not_made_up(capsys: Capture, tmp_path: Path) -> None:
    whole = parted_bundle()
    plans = tuple(dataclasses.replace(plan, shapes={"image": (1 << 40, 16, 8, 8)}) for plan in whole.plans)
    (tmp_path / "huge.rknnz").write_bytes(write_bundle(dataclasses.replace(whole, plans=plans)))
    result = run(capsys, "bench", tmp_path / "huge.rknnz")
    assert (result.code != 0, "too many numbers to make up" in result.err) == (True, True)
