"""The Debian packages' fields, changelog and files. Building them needs a registry, so packaging/prove does."""

import shutil
import subprocess
from pathlib import Path

import pytest
from packing.errors import PackingError
from shipping import deb, site
from shipping.tree import Tree

ROOT = Path(__file__).parents[2]
WORDS = {
    "Version": "1.0+deb12", "Architecture": "arm64", "Homepage": "https://example.org", "Python": "3.11",
    "NextPython": "3.12",
}  # fmt: skip


def test_each_package_has_its_fields_and_no_place_is_left_open() -> None:
    text = (ROOT / "deploy/debian/debian/control.in").read_text()
    program = deb.fields(text, "openrknn", {**WORDS, "Size": "1"})
    assert program.startswith("Package: openrknn\n")
    assert "python3 (>= 3.11), python3 (<< 3.12)" in program
    library = deb.fields(text, "openrknn-librknnrt", {**WORDS, "Size": "1"})
    assert "Depends: openrknn (= 1.0+deb12)" in library
    with pytest.raises(PackingError, match="@Size@"):
        deb.fields(text, "openrknn", WORDS)
    with pytest.raises(PackingError, match="no package other"):
        deb.fields(text, "other", WORDS)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_package_is_the_same_twice_and_dpkg_reads_it(tmp_path: Path) -> None:
    made = []
    for number in "12":
        (tmp_path / number).mkdir()
        tree = Tree(1_700_000_000)
        tree.file("usr/bin/openrknn", b"#!/bin/sh\n", 0o755)
        made.append(deb._write(ROOT, "openrknn", WORDS, tree, work=tmp_path / number / "work", out=tmp_path / number))
    assert made[0].read_bytes() == made[1].read_bytes()
    assert made[0].name == "openrknn_1.0+deb12_arm64.deb"
    listed = subprocess.run(["dpkg-deb", "--contents", str(made[0])], capture_output=True, text=True, check=True).stdout
    assert "-rwxr-xr-x root/root" in next(line for line in listed.splitlines() if "usr/bin/openrknn" in line)
    assert "usr/share/doc/openrknn/changelog.gz" in listed
    said = subprocess.run(["dpkg-deb", "--info", str(made[0])], capture_output=True, text=True, check=True).stdout
    assert {"control", "md5sums", "postinst", "prerm", "postrm"} <= set(said.split())


def test_the_changelog_is_debians() -> None:
    lines = deb.changelog("1.0+deb12", 0).splitlines()
    assert lines[0] == "openrknn (1.0+deb12) unstable; urgency=medium"
    assert lines[-1].startswith(" -- openrknn developers <")
    assert lines[-1].endswith(">  Thu, 01 Jan 1970 00:00:00 -0000")


@pytest.mark.parametrize(
    ("path", "left_out"),
    [
        ("openrknn-1.0.dist-info/RECORD", True), ("openrknn-1.0.dist-info/METADATA", False), ("bin/openrknn", True),
        ("numpy/linalg/tests/test_x.py", True), ("numpy/testing/__init__.py", False), ("openrknn/examples/a", False),
        ("rich/__pycache__/x.pyc", True),
    ],
)  # fmt: skip
def test_what_says_how_it_was_installed_is_left_out(path: str, left_out: bool) -> None:
    assert site.unwanted(path) is left_out


def test_native_wheels_are_found_by_architecture(tmp_path: Path) -> None:
    with pytest.raises(PackingError, match="no native wheel"):
        site.wheels_in(tmp_path, "1.0")
    name = "openrknn-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    (tmp_path / name).touch()
    (tmp_path / "openrknn-1.0-py3-none-any.whl").touch()
    assert {key: path.name for key, path in site.wheels_in(tmp_path, "1.0").items()} == {"amd64": name}
