"""`openrknn examples`: the folder that the guides speak of, for people without a clone."""

import json
from pathlib import Path

import pytest

from openrknn.cli.common import examples
from tests.cli.run import run
from tests.container.places import ROOT

Capture = pytest.CaptureFixture[str]
SMALL = {"models/efficientnet_lite0_rk3588_i8.rknn": b"a model", "images/cat.jpg": b"a cat", "coco.py": b"print()\n"}


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of examples with little in it, and where to work."""
    source = tmp_path / "source"
    for name, data in {**SMALL, "__pycache__/coco.cpython-310.pyc": b"left by Python"}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("OPENRKNN_EXAMPLES", str(source))
    monkeypatch.chdir(tmp_path / "here")
    return source


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_they_are_laid_where_the_guides_look(few: Path, capsys: Capture) -> None:
    result = run(capsys, "examples")
    assert (result.code, result.err) == (0, "")
    assert "examples: 3 files" in result.out
    assert files(Path("examples")) == SMALL
    again = run(capsys, "examples")
    assert (again.code, again.err) == (0, "")
    assert "all 3 files were there already" in again.out


def test_what_is_missing_is_added(few: Path, capsys: Capture) -> None:
    run(capsys, "examples", "there")
    Path("there/images/cat.jpg").unlink()
    report = json.loads(run(capsys, "examples", "there", "--json").out)
    assert report["directory"] == "there"
    assert report["written"] == ["images/cat.jpg"]
    assert {entry["path"]: entry["size_bytes"] for entry in report["files"]} == {k: len(v) for k, v in SMALL.items()}
    assert files(Path("there")) == SMALL


def test_nothing_of_others_is_overwritten(few: Path, tmp_path: Path, capsys: Capture) -> None:
    Path("examples/images").mkdir(parents=True)
    Path("examples/images/cat.jpg").write_bytes(b"my own cat")
    result = run(capsys, "examples")
    assert result.code == 2
    assert "examples/images/cat.jpg is there, and is not the example" in result.err
    assert files(Path("examples")) == {"images/cat.jpg": b"my own cat"}
    Path("examples/images/cat.jpg").unlink()
    (tmp_path / "mine").write_bytes(b"elsewhere")
    Path("examples/images/cat.jpg").symlink_to(tmp_path / "mine")
    assert run(capsys, "examples").code == 2
    assert run(capsys, "examples", "--force").code == 0
    assert files(Path("examples")) == SMALL
    assert (tmp_path / "mine").read_bytes() == b"elsewhere"


def test_a_file_in_the_way_is_named(few: Path, capsys: Capture) -> None:
    Path("examples").write_text("a file")
    result = run(capsys, "examples")
    assert result.code == 2
    assert "examples" in result.err


def test_a_list_writes_nothing(few: Path, capsys: Capture) -> None:
    assert run(capsys, "examples", "--list", "--quiet").out.split() == sorted(SMALL)
    assert list(Path.cwd().iterdir()) == []


def test_in_a_clone_they_are_there(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert examples.find_examples() == ROOT / "examples"
    assert "were there already" in run(capsys, "examples").out


def test_in_a_wheel_they_are_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = tmp_path / "openrknn" / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
    proof.parent.mkdir(parents=True)
    proof.write_bytes(b"a model")
    monkeypatch.setattr(examples, "__file__", str(tmp_path / "openrknn" / "cli" / "common" / "examples.py"))
    assert examples.find_examples() == tmp_path / "openrknn" / "examples"
