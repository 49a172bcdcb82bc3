"""`openrknn coverage`: what models use, and what the software NPU makes of it."""

import json
from pathlib import Path

import pytest

import openrknn
from openrknn.analysis.register_use.scan import scan
from openrknn.analysis.register_use.summary import Status, summarize
from tests.cli.run import run
from tests.container.places import golden

Capture = pytest.CaptureFixture[str]
CONV = golden("conv_rk3588_i8")


def report_of(capsys: Capture, *words: object) -> tuple[int, dict[str, list[dict[str, object]]]]:
    result = run(capsys, "coverage", *words, "--json")
    return result.code, json.loads(result.out)


def status_of(report: dict[str, list[dict[str, object]]], register: str, field: str) -> object:
    block, name = register.split(".")
    row = next(row for row in report["registers"] if (row["block"], row["name"]) == (block, name))
    fields = row["fields"]
    assert isinstance(fields, list)
    return next(item["status"] for item in fields if item["name"] == field)


@pytest.mark.parametrize(
    ("register", "field", "status"),
    [
        ("CNA.CONV_CON1", "conv_mode", "computed"),
        ("DPU.BS_CFG", "bs_bypass", "computed"),
        ("CNA.DMA_CON0", "data_burst_len", "no effect"),
        ("CNA.FC_CON0", "fc_skip_en", "zero only"),
        ("DPU.FEATURE_MODE_CFG", "burst_len", "not looked at"),
        ("DPU.FEATURE_MODE_CFG", "surf_len", "never set"),
        ("DPU.S_POINTER", "pointer_pp_en", "computed"),
        ("PC.REGISTER_AMOUNTS", "pc_data_amount", "no effect"),
    ],
)
def test_the_state_of_a_field(register: str, field: str, status: str, capsys: Capture) -> None:
    code, report = report_of(capsys, CONV)
    assert code == 0
    assert report["problems"] == []
    assert status_of(report, register, field) == status


def test_counts_and_modes_are_those_of_the_streams(capsys: Capture) -> None:
    model = openrknn.load(CONV)
    _, report = report_of(capsys, CONV)
    (row,) = report["files"]
    assert row["tasks"] == len(model.graphs[0].tasks)
    assert row["commands"] == sum(task.amount + 4 for task in model.graphs[0].tasks)
    scanned = summarize([scan(model, "x")])
    mode = next(item for use in scanned.registers for item in use.fields if item.name == "conv_mode")
    assert mode.is_mode
    assert set(mode.values) == {"direct"}


def with_fc_con0(folder: Path) -> Path:
    """A file whose convolutions set FC_CON0, which is not implemented on RK3588."""
    data = golden("residual_rk3588_i8").read_bytes()
    fc_con0 = (0x0201 << 48 | 0x1060).to_bytes(8, "little")
    assert data.count(fc_con0) > 1
    path = folder / "changed.rknn"
    path.write_bytes(data.replace(fc_con0, fc_con0[:2] + b"\x01" + fc_con0[3:]))
    return path


def test_what_is_missing_has_file_task_operator_and_register(tmp_path: Path, capsys: Capture) -> None:
    path = with_fc_con0(tmp_path)
    code, report = report_of(capsys, path, CONV)
    assert code == 1
    first = report["problems"][0]
    assert (first["path"], first["task"], first["register"]) == (str(path), 0, "FC_CON0")
    assert str(first["operator"]).startswith("1 ConvRelu")
    assert status_of(report, "CNA.FC_CON0", "fc_skip_en") == "missing"
    assert [row["problems"] for row in report["files"]] == [len(report["problems"]), 0]
    result = run(capsys, "coverage", path, "-q")
    assert result.code == 1
    assert result.out.splitlines()[0].startswith(f"{path}, task 0, operator 1 ConvRelu")


def test_every_mode_that_is_refused_is_found_in_one_pass(tmp_path: Path, capsys: Capture) -> None:
    """Two tasks of one file each use something unknown: the first one does not hide the second."""
    code, report = report_of(capsys, with_fc_con0(tmp_path))
    assert code == 1
    assert len({problem["task"] for problem in report["problems"]}) > 1
    assert {problem["register"] for problem in report["problems"]} == {"FC_CON0"}


def test_a_chip_that_is_not_implemented_is_listed_all_the_same(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(chip: openrknn.Chip) -> None:
        raise openrknn.UnsupportedError(f"the software NPU does not implement {chip.title} yet")

    monkeypatch.setattr("openrknn.npu.machine.family_of", refuse)
    code, report = report_of(capsys, golden("conv_rk3562_i8"))
    assert code == 1
    assert "does not implement RK3562" in str(report["problems"][0]["text"])
    assert {row["status"] for row in report["registers"]} == {Status.OTHER_CHIP}
    assert "RK3562" in run(capsys, "coverage", golden("conv_rk3562_i8")).out


@pytest.mark.parametrize("width", ["60", "120"])
def test_text(width: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = run(capsys, "coverage", CONV, golden("dynamic_rk3588_i8")).out
    assert text.startswith("2 models, ")
    assert "Nothing is missing" in text
    everything = run(capsys, "coverage", CONV, "--all").out
    assert "CNA.CONV_CON1" in everything
    assert "Set, but not used by any block" in everything
    assert max(map(len, everything.splitlines())) <= int(width)


def test_bad_input_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "coverage", tmp_path / "none.rknn")
    assert (result.code, result.err.count("\n")) == (2, 1)
