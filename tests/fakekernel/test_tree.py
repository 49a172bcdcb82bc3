"""The folder of a device: nothing of anybody else's is ever removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.tree import Tree


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("name", ["thesis.txt", "root", "lock"])
def test_a_folder_with_other_files_is_refused(name: str, tmp_path: Path) -> None:
    """FINDINGS 4: `openrknn device --folder DIR` deleted everything in DIR, and DIR itself at the end."""
    (tmp_path / name).write_text("two years of work")
    with pytest.raises(FileExistsError, match="holds other files; name a new or an empty one"), Device(folder=tmp_path):
        pass
    assert (tmp_path / name).read_text() == "two years of work"
    assert names(tmp_path) == [name]


def test_an_empty_folder_stays_and_a_new_one_goes(tmp_path: Path) -> None:
    for folder, stays in ((tmp_path, True), (tmp_path / "new", False)):
        tree = Tree(folder)
        tree.build([], [], None)
        tree.remove()
        assert folder.exists() == stays
    assert names(tmp_path) == []


def test_what_a_killed_device_left_is_taken_over(tmp_path: Path) -> None:
    killed = Tree(tmp_path / "npu")
    killed.build([], [], "/usr/lib/librknnrt.so")
    os.close(killed._lock)
    tree = Tree(tmp_path / "npu")
    assert names(tree.folder) == ["lock"]
    tree.remove()


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "npu")
    (tree.folder / "notes").write_text("mine")
    (tree.folder / "lib").symlink_to(tmp_path)
    tree.remove()
    assert names(tmp_path / "npu") == ["notes"]
    assert names(tmp_path) == ["npu"]


def test_two_devices_cannot_share_a_folder(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "npu")
    with pytest.raises(FileExistsError, match="another device runs there"):
        Tree(tmp_path / "npu")
    tree.remove()
