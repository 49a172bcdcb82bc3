"""What `openrknn library --install` writes, what it refuses to touch, and what it leaves behind: the layout alone.

Building and running programs with it is in test_installed.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.capi import install as module
from openrknn.capi.install import InstallError, install, is_ours, uninstall
from openrknn.capi.parts import HEADERS, LLM_HEADER, LLM_NAME

EVERYTHING = {
    "lib/librknnrt.so", "lib/librknnmrt.so", "lib/openrknn-engine", "lib/pkgconfig/librknnrt.pc",
    "lib/cmake/rknnrt/rknnrtConfig.cmake", "lib/cmake/rknnrt/rknnrtConfigVersion.cmake",
    "include/rknn_api.h", "include/rknn_matmul_api.h", "include/rknn_custom_op.h",
    "lib/librkllmrt.so", "include/rkllm.h",
}  # fmt: skip


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the place of the built ones: what is in them does not matter here."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in ("librknnrt.so", LLM_NAME, *HEADERS, LLM_HEADER):
        (folder / name).write_bytes(b"\0openrknn " + name.encode())
    monkeypatch.setattr(module, "library_for", lambda machine, name="librknnrt.so": folder / name)
    monkeypatch.setattr(module, "header_path", lambda name: folder / name)


def below(prefix: Path) -> set[str]:
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_everything_is_written_and_removed_again(tmp_path: Path) -> None:
    prefix = tmp_path / "new" / "prefix"
    done = install(prefix)
    assert below(prefix) == EVERYTHING == {str(path.relative_to(prefix)) for path in done.written}
    assert os.readlink(prefix / "lib/librknnmrt.so") == "librknnrt.so"
    assert all(is_ours(prefix / name) for name in EVERYTHING)
    assert os.access(prefix / "lib/openrknn-engine", os.X_OK)
    assert {str(path.relative_to(prefix)) for path in uninstall(prefix).removed} == EVERYTHING
    assert list(prefix.iterdir()) == []


def test_a_second_time_replaces_ours(tmp_path: Path) -> None:
    install(tmp_path / "prefix")
    before = (tmp_path / "prefix/lib/librknnrt.so").stat().st_ino
    install(tmp_path / "prefix")
    assert (tmp_path / "prefix/lib/librknnrt.so").stat().st_ino != before
    assert below(tmp_path / "prefix") == EVERYTHING


@pytest.mark.parametrize("name", ["lib/librknnrt.so", "lib/librknnmrt.so", "lib/librkllmrt.so", "include/rknn_api.h"])
def test_the_vendors_files_are_not_touched(name: str, tmp_path: Path) -> None:
    theirs = tmp_path / "prefix" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(InstallError, match=f"{name}: it is not openrknn's .* --force"):
        install(tmp_path / "prefix")
    assert below(tmp_path / "prefix") == {name}
    install(tmp_path / "prefix", force=True)
    assert is_ours(theirs)
    assert below(tmp_path / "prefix") == EVERYTHING


def test_a_link_to_the_vendors_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.so"
    theirs.write_bytes(b"theirs")
    (tmp_path / "prefix/lib").mkdir(parents=True)
    (tmp_path / "prefix/lib/librknnrt.so").symlink_to(theirs)
    with pytest.raises(InstallError, match="not openrknn's"):
        install(tmp_path / "prefix")
    install(tmp_path / "prefix", force=True)
    assert theirs.read_bytes() == b"theirs"


def test_uninstall_leaves_what_is_not_ours(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    install(prefix)
    (prefix / "include/rknn_api.h").write_text("theirs")
    (prefix / "lib/other.so").touch()
    done = uninstall(prefix)
    assert [path.name for path in done.left] == ["rknn_api.h"]
    assert below(prefix) == {"include/rknn_api.h", "lib/other.so"}
    with pytest.raises(InstallError, match="nothing of openrknn's library is installed there"):
        uninstall(prefix)


def test_a_prefix_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InstallError, match="nothing was changed; --install takes a folder"):
        install(tmp_path / "file")


def test_a_place_that_is_a_folder_leaves_nothing_half_done(tmp_path: Path) -> None:
    (tmp_path / "prefix/include/rknn_custom_op.h").mkdir(parents=True)
    with pytest.raises(InstallError, match="is a folder"):
        install(tmp_path / "prefix", force=True)
    assert below(tmp_path / "prefix") == set()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    prefix.mkdir(mode=0o500)
    with pytest.raises(InstallError, match="run it as root, or choose a folder of your own"):
        install(prefix)


def test_permission_problems_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, who runs tests in containers, may write everywhere."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/usr/lib")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InstallError, match=r"/usr/lib: Permission denied; nothing .* ~/\.local"):
        install(tmp_path / "prefix")


def test_another_engine(tmp_path: Path) -> None:
    install(tmp_path / "prefix", engine="/usr/bin/env echo engine")
    done = subprocess.run([tmp_path / "prefix/lib/openrknn-engine", "word"], capture_output=True, text=True, check=True)
    assert done.stdout == "engine word\n"


def test_a_package_that_is_found_by_pythonpath(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is started by programs that know nothing of it; where Python needs no help, none is written down."""
    package = Path(sys.modules["openrknn"].__file__ or "").parents[1]
    for value, has in ((f"{package}:/other place", True), ("/other place", False), ("", False)):
        monkeypatch.setenv("PYTHONPATH", value)
        install(tmp_path / "prefix")
        text = (tmp_path / "prefix/lib/openrknn-engine").read_text()
        assert (f"PYTHONPATH='{package}:/other place'$" in text) is has


def test_for_another_machine_the_engine_is_that_machines_business(tmp_path: Path) -> None:
    install(tmp_path / "prefix", machine="armhf")
    assert below(tmp_path / "prefix") == EVERYTHING - {"lib/openrknn-engine"}
