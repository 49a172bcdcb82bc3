"""The open library in packages: Debian moves the vendor's files aside and back, the container's commands exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from shipping import deb

from openrknn.cli.main import build_parser

FOLDER = Path(__file__).parents[2] / "deploy"
DEBIAN = FOLDER / "debian/debian"
COMMAND = re.compile(r"openrknn(?:\.cli)? (library --.*?)(?:\s*&&.*)?$", re.MULTILINE)
FILES = ("lib/librknnrt.so", "lib/librknnmrt.so", "include/rknn_api.h")


def script(name: str, action: str, root: Path) -> None:
    """A maintainer script, as dpkg calls it for a system below another root."""
    environment = {**os.environ, "DPKG_ROOT": str(root), "DPKG_ADMINDIR": str(root / "var/lib/dpkg")}
    path = DEBIAN / f"openrknn-librknnrt.{name}"
    done = subprocess.run(["sh", path, action], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system where somebody has copied the vendor's files to /usr."""
    if shutil.which("dpkg-divert") is None:
        pytest.skip("dpkg-divert is not here: this is not Debian")
    for name in ("var/lib/dpkg", "usr/lib", "usr/include"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("status", "diversions"):
        (tmp_path / "var/lib/dpkg" / name).touch()
    for name in FILES:
        (tmp_path / "usr" / name).write_text("theirs")
    return tmp_path


def test_the_vendors_files_are_moved_aside_and_come_back(root: Path) -> None:
    script("preinst", "install", root)
    for name in FILES:
        assert (root / f"usr/{name}.vendor").read_text() == "theirs"
        assert not (root / "usr" / name).exists()
        (root / "usr" / name).write_text("openrknn's")  # dpkg unpacks
    script("preinst", "upgrade", root)  # nothing is moved twice
    assert (root / "usr/lib/librknnrt.so").read_text() == "openrknn's"
    for name in FILES:  # dpkg removes
        (root / "usr" / name).unlink()
    script("postrm", "remove", root)
    assert [(root / "usr" / name).read_text() for name in FILES] == ["theirs"] * len(FILES)
    assert list(root.rglob("*.vendor")) == []


def test_their_commands_exist() -> None:
    (words,) = [shlex.split(line) for line in COMMAND.findall((FOLDER / "container/Containerfile").read_text())]
    for arguments in (words, [*deb.INSTALL, "/usr"]):
        build_parser((arguments[0],)).parse_args(arguments)


def test_the_container_without_a_target_is_the_server() -> None:
    stages = re.findall(r"^FROM \S+ AS (\S+)", (FOLDER / "container/Containerfile").read_text(), re.MULTILINE)
    assert stages == ["build", "library", "server"]


def test_the_debian_package_starts_the_engine_of_its_own_folder() -> None:
    text = (DEBIAN / "openrknn-engine.sh").read_text()
    assert "/usr/lib/openrknn" in text
    assert "openrknn.capi.engine" in text
    assert deb.INSTALL[1:3] == ("--engine", "/usr/bin/openrknn-engine")
