"""Files that are there completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openrknn.wholefiles import write_atomically


def test_permissions_are_those_asked_for_or_those_of_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "ä\n", mode=0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == ("ä\n".encode(), 0o640)
    write_atomically(path, b"\xff")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\xff", 0o640)


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "new")
    assert ((tmp_path / "real").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)


def test_what_fails_changes_nothing_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    halves: list[str] = []

    def full(descriptor: int) -> None:
        halves.extend(name for name in os.listdir(tmp_path) if name != "a")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new", half=".half-")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["a"])
    assert [name[:6] for name in halves] == [".half-"]
