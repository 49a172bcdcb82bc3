"""`openrknn edit`: the changed file is there completely, or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import openrknn
from tests.cli.run import messages, program, run
from tests.container.old_mini import as_old_mini
from tests.container.places import golden

Capture = pytest.CaptureFixture[str]
MODEL = golden("image_rk3588_i8")


def test_custom_string_and_names(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new.rknn"
    words = ["--custom-string", "release 7", "--rename", "image=photo", "--rename", "features=y"]
    assert run(capsys, "edit", MODEL, "-o", out, *words) == (0, f"wrote {out}\n", "")
    model = openrknn.load(out)
    assert model.custom_string == "release 7"
    assert (model.inputs[0].name, model.outputs[0].name) == ("photo", "y")
    assert list(tmp_path.iterdir()) == [out]


def test_json(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new.rknn"
    result = run(capsys, "edit", MODEL, "-o", out, "--rename", "image=photo", "--json")
    assert json.loads(result.out) == {
        "written": str(out),
        "size_bytes": out.stat().st_size,
        "renamed": {"image": "photo"},
        "custom_string": "",
    }


def test_in_place_keeps_rights_and_follows_links(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(MODEL.read_bytes())
    path.chmod(0o640)
    link = tmp_path / "link.rknn"
    link.symlink_to(path)
    assert run(capsys, "edit", link, "--in-place", "--custom-string", "x").code == 0
    assert link.is_symlink()
    assert openrknn.load(path).custom_string == "x"
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(capsys, "edit", path, "--in-place", "--custom-string", "").code == 0
    assert openrknn.load(path).custom_string == ""


def test_the_model_is_not_overwritten_by_accident(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(MODEL.read_bytes())
    os.link(path, tmp_path / "same.rknn")
    for out in (path, tmp_path / "." / "model.rknn", tmp_path / "same.rknn"):
        for force in ([], ["--force"]):
            result = run(capsys, "edit", path, "-o", out, "--custom-string", "x", *force)
            assert (result.code, result.out, messages(result.err)) == (2, "", 1)
            assert "--in-place" in result.err
    assert path.read_bytes() == MODEL.read_bytes()


def test_other_files_need_force(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "other"
    out.write_text("precious")
    result = run(capsys, "edit", MODEL, "-o", out, "--custom-string", "x")
    assert (result.code, out.read_text()) == (2, "precious")
    assert run(capsys, "edit", MODEL, "-o", out, "--custom-string", "x", "--force").code == 0
    assert openrknn.load(out).custom_string == "x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to change"),
        (["--rename", "image"], "takes OLD=NEW"),
        (["--rename", "imagee=x"], "did you mean image"),
        (["--rename", "image=features"], "two tensors would be called"),
        (["--rename", "image=a", "--rename", "image=b"], "renamed twice"),
        (["--rename", "image="], "is no name"),
        (["--rename", "regcmd=x"], "must stay"),
        (["--custom-string", "x" * 2000], "at most"),
        (["--custom-string", "x", "--in-place"], "cannot be combined"),
    ],
)
def test_what_is_not_possible(words: list[str], said: str, tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "edit", MODEL, "-o", tmp_path / "new.rknn", *words)
    assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    assert said in result.err
    assert not list(tmp_path.iterdir())


def test_somewhere_to_write_is_needed(capsys: Capture) -> None:
    assert "give -o OUT" in run(capsys, "edit", MODEL, "--custom-string", "x").err


def test_names_with_an_equals_sign(tmp_path: Path, capsys: Capture) -> None:
    first, second = tmp_path / "1.rknn", tmp_path / "2.rknn"
    assert run(capsys, "edit", MODEL, "-o", first, "--rename", "image=a=b").code == 0
    assert openrknn.load(first).inputs[0].name == "a=b"
    assert run(capsys, "edit", first, "-o", second, "--rename", "a=b=c=d").code == 0
    assert openrknn.load(second).inputs[0].name == "c=d"


def test_mini_files_are_edited_too(tmp_path: Path, capsys: Capture) -> None:
    source, target = golden("residual_rv1106_i8"), tmp_path / "new.rknn"
    before = openrknn.load(source)
    name = before.outputs[0].name
    assert run(capsys, "edit", source, "-o", target, "--custom-string", "x", "--rename", f"{name}=score").code == 0
    after = openrknn.load(target)
    assert (after.flavour, after.custom_string, after.outputs[0].name) == (before.flavour, "x", "score")
    assert bytes(after.graphs[0].commands) == bytes(before.graphs[0].commands)


def test_files_that_cannot_be_written_again(tmp_path: Path, capsys: Capture) -> None:
    old = tmp_path / "old.rknn"
    old.write_bytes(as_old_mini(openrknn.load(golden("residual_rv1106_i8"))))
    result = run(capsys, "edit", old, "-o", tmp_path / "x", "--custom-string", "x")
    assert (result.code, messages(result.err)) == (2, 1)
    assert "only the containers 6 and 0x1004 (mini) can be written" in result.err


def test_wrong_files_and_places(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture.rknn").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for name in ("none.rknn", "picture.rknn", "."):
        result = run(capsys, "edit", tmp_path / name, "-o", tmp_path / "out", "--custom-string", "x")
        assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    for place in (tmp_path, tmp_path / "no" / "folder", tmp_path / "picture.rknn" / "below"):
        result = run(capsys, "edit", MODEL, "-o", place, "--custom-string", "x")
        assert (result.code, result.out, messages(result.err)) == (2, "", 1)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", denied)
    result = run(capsys, "edit", MODEL, "-o", tmp_path / "out", "--custom-string", "x")
    assert (result.code, result.out) == (2, "")
    assert "permission denied" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["picture.rknn"]


def test_as_a_program(tmp_path: Path) -> None:
    out = tmp_path / "new.rknn"
    assert program("edit", MODEL, "-o", out, "--custom-string", "x", "-q") == (0, f"wrote {out}\n", "")
