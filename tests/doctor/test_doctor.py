"""The command: one screen, JSON, exit codes, the bundle and the printed fixes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from openrknn.doctor.bundle import scrub
from openrknn.doctor.fixes import UDEV_RULES
from tests.cli.run import run
from tests.machines import Machine, rknpu_board

GOLDENS = Path(__file__).parents[1] / "goldens"
REPOSITORY = Path(__file__).parents[2]


def test_no_npu_is_one_screen_with_what_works_anyway(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Machine(tmp_path)
    result = run(capsys, "doctor", "--root", tmp_path)
    assert result.code == 0
    assert "this machine has no Rockchip NPU" in result.out
    assert "openrknn run MODEL.rknn" in result.out
    assert len(result.out.splitlines()) <= 24


def test_this_machine_fits_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(capsys, "doctor")
    assert len(result.out.splitlines()) <= 60
    assert "software NPU works here" in result.out


def test_errors_make_the_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path, version="0.8.2")
    result = run(capsys, "doctor", "--root", tmp_path)
    assert result.code == 1
    assert "older than 0.9.6" in result.out
    assert "1 error" in result.out
    assert run(capsys, "doctor", "--root", tmp_path, "--quiet").out.startswith("error: rknpu 0.8.2")


def test_json_has_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    result = run(capsys, "doctor", "--root", tmp_path, "--json", GOLDENS / "conv_rk3566_i8.rknn")
    answer = json.loads(result.out)
    assert (result.code, answer["soc"]) == (1, "rk3588")
    worst = answer["findings"][0]
    assert (worst["code"], worst["severity"]) == ("model-other-chip", "error")
    assert set(worst) == {"code", "severity", "what", "why", "fix", "source"}


def test_fixes_are_printed_and_nothing_is_done(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    machine = Machine(tmp_path).soc("rk3588").write({"/proc/sys/kernel/osrelease": "6.18.2\n"})
    machine.link("/dev/rknpu", "dri/renderD129")
    before = sorted(tmp_path.rglob("*"))
    result = run(capsys, "doctor", "--root", tmp_path, "--fix")
    assert result.code == 0
    for text in ("70-openrknn-npu.rules", "usermod -aG render,video", "modprobe rocket", "rm /dev/rknpu", UDEV_RULES):
        assert text in result.out
    assert sorted(tmp_path.rglob("*")) == before
    assert json.loads(run(capsys, "doctor", "--root", tmp_path, "--fix", "--json").out)["script"] == result.out


def test_the_bundle_has_nothing_private(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path / "root").process(77, "secret-app", "/dev/dri/renderD129")
    machine.write({"/etc/hostname": "workbench7\n"})
    machine.log("RKNPU on workbench7: job from 192.168.7.31", "wlan0: associated with aa:bb:cc:dd:ee:ff")
    bundle = tmp_path / "bug.zip"
    model = tmp_path / "my_customer.rknn"
    model.write_bytes((GOLDENS / "conv_rk3588_i8.rknn").read_bytes())
    result = run(capsys, "doctor", model, "--root", machine.root, "--report", bundle)
    assert f"wrote {bundle}" in result.out
    with zipfile.ZipFile(bundle) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert "RKNPU driver: v0.9.8" in texts["files/sys/kernel/debug/rknpu/version"]
    assert json.loads(texts["npus.json"])["npus"][0]["clients"] == 1
    assert "job from" in texts["kernel.log"]
    for secret in ("workbench7", "secret-app", "192.168", "aa:bb", "my_customer"):
        assert not any(secret in text for text in texts.values()), secret


def test_scrubbing() -> None:
    assert scrub("/home/anna/models/x.rknn and Serial: 4711") == "/home/USER/models/FILE.rknn and Serial: SERIAL"
    assert scrub("on box at boxes", ["box"]) == "on HOST at boxes"


@pytest.mark.parametrize(("name", "words"), [("nope", "no such folder"), (".", "there is no Linux system in this")])
def test_where_nothing_is_there_is_nothing_to_check(
    name: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """FINDINGS 26: "nothing is wrong"."""
    result = run(capsys, "doctor", "--root", tmp_path / name)
    assert result.code == 2
    assert words in result.err


def test_a_model_in_parts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.parted_file import parted_bytes

    rknpu_board(tmp_path)
    (tmp_path / "m.rknnz").write_bytes(parted_bytes())
    answer = json.loads(run(capsys, "doctor", "--root", tmp_path, "--json", tmp_path / "m.rknnz").out)
    found = {finding["code"]: finding["what"] for finding in answer["findings"]}
    assert found["model-in-parts"].startswith("m.rknnz: 2 parts for rk3588 and 2 for the CPU")
    assert "model-other-chip" not in found
    (tmp_path / "m.rknnz").write_bytes(parted_bytes()[:-400])
    answer = json.loads(run(capsys, "doctor", "--root", tmp_path, "--json", tmp_path / "m.rknnz").out)
    assert answer["findings"][0]["severity"] == "error"
