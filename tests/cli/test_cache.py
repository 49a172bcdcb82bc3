"""`openrknn cache`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two kinds of files in it."""
    monkeypatch.setenv("OPENRKNN_CACHE", str(tmp_path))
    place = tmp_path / "openrknn"
    for kind in ("programs", "packages"):
        (place / kind).mkdir(mode=0o700, parents=True)
        (place / kind / "file").write_bytes(bytes(1000))
    place.chmod(0o700)
    return place


def test_it_says_where_and_how_large(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "cache", "--json").out)
    assert found["folder"] == str(folder)
    assert found["kinds"]["programs"] == {"files": 1, "bytes": 1000}
    assert found["kinds"]["parts"] == {"files": 0, "bytes": 0}
    assert str(folder) in run(capsys, "cache").out.replace("\n", "")
    assert run(capsys, "cache", "--quiet").out == "2000\n"


def test_clear_leaves_downloads_unless_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "cache", "--clear", "--json").out)["freed_bytes"] == 1000
    assert [path.name for path in folder.iterdir()] == ["packages"]
    assert "freed 1" in run(capsys, "cache", "--clear", "packages").out
    assert not list(folder.iterdir())


def test_links_are_not_followed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("1")
    (folder / "programs" / "link").symlink_to(tmp_path / "precious")
    (folder / "parts").symlink_to(tmp_path / "precious")
    run(capsys, "cache", "--clear", "all")
    assert (tmp_path / "precious" / "file").read_text() == "1"


def test_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENRKNN_CACHE", "off")
    assert "nothing is cached" in run(capsys, "cache").out
    assert json.loads(run(capsys, "cache", "--json").out)["folder"] is None
