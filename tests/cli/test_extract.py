"""`openrknn extract`: everything comes out, in files whose names nobody outside chooses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.cli.common.folder import safe_name
from tests.cli.hostile import NAMES, hostile_model
from tests.cli.run import messages, program, run
from tests.container.places import CORPUS, GOLDENS, golden, need_corpus
from tests.onnx_file import constants

Capture = pytest.CaptureFixture[str]


def extracted(folder: Path) -> dict[str, dict[str, Any]]:
    """The index by path, after making sure that it and the folder agree."""
    index = json.loads((folder / "index.json").read_text())
    entries = {entry["path"]: entry for entry in index["files"]}
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {*entries, "index.json"}
    for path, entry in entries.items():
        assert (folder / path).stat().st_size == entry["size_bytes"]
    return entries


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_golden(path: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "parts"
    result = run(capsys, "extract", path, "-o", folder, "--float")
    assert (result.code, result.err) == (0, "")
    entries = extracted(folder)
    assert result.out.endswith(f"wrote {len(entries) + 1} files to {folder}; index.json describes them\n")
    assert not unexplained(entries)


def unexplained(entries: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The network's own weights that could only be written as stored.

    Of what the compiler makes for itself (softmax, layer norm), some forms are not known.
    """
    return [entry for entry in entries.values() if "problem" in entry and entry["kind"] == "weight"]


def test_weights_are_those_of_the_source(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "extract", golden("residual_rk3588_i8"), "-o", tmp_path / "parts", "--float", "--only", "weights")
    source = constants(golden("residual_rk3588_i8").parent / "residual.onnx")
    entries = extracted(tmp_path / "parts")
    checked = 0
    for path, entry in entries.items():
        if not path.endswith(".float.npy"):
            continue
        real, wanted = np.load(tmp_path / "parts" / path), source[entry["tensor"]]
        assert (real.dtype, real.shape) == (np.float32, wanted.shape)
        assert np.abs(real - wanted).max() < 0.01 * np.abs(wanted).max()
        stored = entries[path.replace(".float", "")]
        if entry["what"].startswith("weights"):
            assert (stored["dtype"], stored["axis"], len(stored["scale"])) == ("int8", 0, wanted.shape[0])
        checked += 1
    assert checked == 10


def test_depthwise_and_transposed_have_the_order_of_onnx(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "extract", golden("deconv_rk3588_i8"), "-o", tmp_path / "deconv", "--only", "weights")
    (weights,) = [entry for entry in extracted(tmp_path / "deconv").values() if entry["what"] == "weights"]
    assert (weights["order"], weights["shape"], weights["axis"]) == ("IOHW", [16, 8, 2, 2], 1)


def test_commands_and_tasks(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "parts"
    run(capsys, "extract", golden("conv_rk3588_i8"), "-o", folder, "--only", "commands")
    assert len(np.fromfile(folder / "commands" / "commands.bin", "<u8")) > 100
    assert "CNA.CONV_CON1 conv_mode=direct" in (folder / "commands" / "commands.txt").read_text()
    tasks = json.loads((folder / "commands" / "tasks.json").read_text())
    assert tasks[0]["operator_type"] == "Conv"
    assert len((folder / "commands" / "tasks.csv").read_text().splitlines()) == len(tasks) + 1


def test_tables(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "parts"
    run(capsys, "extract", golden("sigmoid_rk3588_i8"), "-o", folder, "--only", "tables")
    negative, positive = (np.load(next(folder.rglob(f"*.{half}.npy"))) for half in ("negative", "positive"))
    x = np.linspace(0, 6.31, 513)
    assert np.abs(positive - 32767 / (1 + np.exp(-x))).max() <= 1
    assert np.abs(negative - 32767 / (1 + np.exp(x[::-1]))).max() <= 1


def test_texts(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "parts"
    run(capsys, "extract", golden("image_rk3588_i8_custom_string"), "-o", folder, "--only", "texts")
    assert (folder / "texts" / "custom_string.txt").read_text("utf-8") == "made for openrknn, äöü 中文"
    assert json.loads((folder / "texts" / "notes.json").read_text())["attrs"]
    assert json.loads((folder / "texts" / "graph.json").read_text())["target_platform"] == ["rk3588"]


def test_graphs_of_dynamic_shapes_share_weights(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "extract", golden("dynamic_rk3588_i8"), "-o", tmp_path / "parts")
    paths = list(extracted(tmp_path / "parts"))
    assert sum(path.startswith("graph0/weights/") for path in paths) == 2
    assert not [path for path in paths if path.startswith("graph1/weights/")]
    assert "graph2/commands/commands.bin" in paths


def test_json_is_the_index(tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "extract", golden("conv_rk3588_i8"), "-o", tmp_path / "parts", "--json")
    assert json.loads(result.out) == json.loads((tmp_path / "parts" / "index.json").read_text())
    result = run(capsys, "extract", golden("conv_rk3588_i8"), "-o", tmp_path / "more", "-q")
    assert result.out.count("\n") == 1


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    assert run(capsys, "extract", golden("conv_rk3588_i8"), "-o", folder).code == 0
    before = (folder / "index.json").read_bytes()
    result = run(capsys, "extract", golden("silu_rk3588_i8"), "-o", folder)
    assert (result.code, messages(result.err)) == (2, 1)
    assert "--force" in result.err
    assert (folder / "index.json").read_bytes() == before
    assert run(capsys, "extract", golden("silu_rk3588_i8"), "-o", folder, "--force").code == 0
    assert (folder / "index.json").read_bytes() != before


def test_places_where_nothing_can_be_written(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("here")
    for target in (tmp_path / "file", tmp_path / "file" / "below"):
        result = run(capsys, "extract", golden("conv_rk3588_i8"), "-o", target)
        assert (result.code, messages(result.err)) == (2, 1)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)
    result = run(capsys, "extract", golden("conv_rk3588_i8"), "-o", tmp_path / "parts")
    assert (result.code, messages(result.err)) == (2, 1)
    assert "permission denied" in result.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = run(capsys, "extract", golden("conv_rk3588_i8"), "-o", tmp_path / "locked" / "parts")
    assert (result.code, messages(result.err)) == (2, 1)


def test_wrong_files(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty.rknn").write_bytes(b"")
    (tmp_path / "picture.rknn").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for name in ("none.rknn", "empty.rknn", "picture.rknn", "."):
        result = run(capsys, "extract", tmp_path / name, "-o", tmp_path / "parts")
        assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_names_cannot_leave_the_folder(name: str, tmp_path: Path, capsys: Capture) -> None:
    model = tmp_path / "in" / "hostile.rknn"
    model.parent.mkdir()
    hostile_model(model, name)
    folder = tmp_path / "out" / "parts"
    result = run(capsys, "extract", model, "-o", folder)
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    entries = extracted(folder)
    assert any(entry.get("tensor") == name for entry in entries.values())
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}
    assert [path.name for path in folder.parent.iterdir()] == ["parts"]
    assert all(len(path.name) < 100 for path in folder.rglob("*"))


@pytest.mark.parametrize("name", [*NAMES, "", ".", "///", "nul.npy", "COM1"])
def test_safe_names(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert os.path.basename(safe) == safe
    assert not safe.startswith((".", "-")) or name == "-rf"
    assert safe.upper() not in {"CON", "NUL.NPY", "COM1"}


def test_as_a_program(tmp_path: Path) -> None:
    result = program("extract", golden("conv_rk3588_fp"), "-o", tmp_path / "parts", "--only", "weights")
    assert (result.code, result.err) == (0, "")


def test_the_corpus(tmp_path: Path, capsys: Capture) -> None:
    """Every eighth file, to keep it short."""
    need_corpus()
    problems = []
    for number, path in enumerate(CORPUS[::8]):
        folder = tmp_path / str(number)
        result = run(capsys, "extract", path, "-o", folder, "--only", "weights", "--only", "tables")
        assert result.code == 0, path
        problems += unexplained(extracted(folder))
    assert not problems
