"""The user's cache folder: where it is, and when there is none."""

import os
from pathlib import Path

import pytest

from openrknn.folders import cache_base, cache_folder, data_folder, is_private


def test_the_cache_is_below_the_variable_or_xdg_or_home(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert cache_folder("a", "b", environment=home) == tmp_path / ".cache" / "openrknn" / "a" / "b"
    xdg = {**home, "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert cache_folder("a", environment=xdg) == tmp_path / "xdg" / "openrknn" / "a"
    own = {**xdg, "OPENRKNN_CACHE": str(tmp_path / "own")}
    assert cache_folder("a", environment=own) == tmp_path / "own" / "openrknn" / "a"
    assert data_folder("v", environment=home) == tmp_path / ".local" / "share" / "openrknn" / "v"
    assert data_folder("v", environment={"XDG_DATA_HOME": "/data"}) == Path("/data/openrknn/v")


def test_folders_are_the_users_alone(tmp_path: Path) -> None:
    made = cache_folder("a", environment={"XDG_CACHE_HOME": str(tmp_path / "new")})
    assert made is not None
    assert {path.stat().st_mode & 0o777 for path in (made, made.parent, made.parent.parent)} == {0o700}


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_off(tmp_path: Path, word: str) -> None:
    environment = {"HOME": str(tmp_path), "OPENRKNN_CACHE": word}
    assert cache_folder("a", environment=environment) is None
    assert cache_folder("a", may_be_off=False, environment=environment) == tmp_path / ".cache" / "openrknn" / "a"


def test_relative_values_are_ignored(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "OPENRKNN_CACHE": "here", "XDG_CACHE_HOME": "there"}
    assert cache_base(environment) == tmp_path / ".cache"


def test_nothing_is_made_when_not_asked(tmp_path: Path) -> None:
    assert cache_folder("a", make=False, environment={"XDG_CACHE_HOME": str(tmp_path / "x")}) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_what_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = cache_folder("a", environment=environment)
    assert folder is not None
    folder.chmod(mode)
    assert cache_folder("a", environment=environment) is None
    folder.chmod(0o755)
    folder.parent.chmod(mode)
    assert cache_folder("a", environment=environment) is None


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "openrknn").symlink_to(tmp_path / "elsewhere")
    assert cache_folder(environment={"XDG_CACHE_HOME": str(tmp_path)}) is None
    (tmp_path / "openrknn").unlink()
    (tmp_path / "openrknn").write_text("")
    assert cache_folder(environment={"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_folders_of_others_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    made = cache_folder("a", environment=environment)
    assert made is not None
    assert is_private(made)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_private(made)
    assert cache_folder("a", environment=environment) is None
    # as root with the HOME of the user who called sudo
    assert cache_folder("a", environment={"HOME": str(tmp_path)}) is None


def test_no_home_and_homes_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    assert cache_folder("a", environment={"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert cache_folder("a", environment={"HOME": str(tmp_path / "nowhere")}) is None
    assert cache_folder("a", environment={"XDG_CACHE_HOME": "/proc/self/nowhere"}) is None

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert cache_folder("a", environment={}) is None
    assert data_folder("v", environment={}) == Path("/.local/share/openrknn/v")
