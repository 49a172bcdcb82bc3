"""The layout of images, against the specification's rules and a second reader."""

import gzip
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from packing.errors import PackingError
from shipping import image, oci
from shipping.tree import Tree, clean_path

ROOT = Path(__file__).parents[2]
TIME = 1_700_000_000


def tree() -> Tree:
    made = Tree(TIME)
    made.file("lib/x/libthing.so", b"thing")
    made.link("lib", "usr/lib")
    made.folder("home/user", 0o700, 65532)
    made.file("usr/bin/tool", b"#!/bin/sh\n", 0o755)
    return made


def layout(path: Path) -> str:
    made = oci.Layout()
    manifests = [
        made.image(oci.Platform(name, [("files", tree().tar())]), {"User": "1:1"}, {"a": "b"}, TIME)
        for name in ("amd64", "arm64")
    ]
    digest = made.finish(manifests, "openrknn:1.0", {"a": "b"})
    made.write(path, TIME)
    return digest


def read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isreg()}  # type: ignore[union-attr]


def test_two_layouts_of_the_same_files_are_equal_in_every_byte(tmp_path: Path) -> None:
    first, second = layout(tmp_path / "a.tar"), layout(tmp_path / "b.tar")
    assert first == second
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_every_descriptor_leads_to_a_blob_of_its_digest_and_size(tmp_path: Path) -> None:
    layout(tmp_path / "image.tar")
    files = read(tmp_path / "image.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]

    def follow(descriptor: dict[str, Any]) -> bytes:
        data = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert len(data) == descriptor["size"]
        return data

    (top,) = json.loads(files["index.json"])["manifests"]
    assert top["mediaType"] == "application/vnd.oci.image.index.v1+json"
    assert top["annotations"]["org.opencontainers.image.ref.name"] == "1.0"
    platforms = []
    for entry in json.loads(follow(top))["manifests"]:
        platforms.append((entry["platform"]["os"], entry["platform"]["architecture"]))
        manifest = json.loads(follow(entry))
        config = json.loads(follow(manifest["config"]))
        assert config["architecture"] == entry["platform"]["architecture"]
        assert len(config["history"]) == len(manifest["layers"])
        for layer, plain in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            assert plain == "sha256:" + hashlib.sha256(gzip.decompress(follow(layer))).hexdigest()
    assert platforms == [("linux", "amd64"), ("linux", "arm64")]


def test_a_layer_has_folders_first_one_time_and_files_below_usr() -> None:
    with tarfile.open(fileobj=io.BytesIO(tree().tar())) as archive:
        members = {member.name: member for member in archive}
    names = list(members)
    assert names == sorted(names)
    assert {"usr", "usr/lib", "usr/lib/x", "home"} <= set(names)
    assert names.index("usr/lib/x") < names.index("usr/lib/x/libthing.so")
    assert {member.mtime for member in members.values()} == {TIME}
    assert members["lib"].issym()
    assert (members["home/user"].uid, members["home/user"].mode) == (65532, 0o700)
    assert members["usr/bin/tool"].mode == 0o755


def test_a_layout_is_unpacked_by_architecture_and_a_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    layout(path)
    config = oci.unpack(path, "arm64", tmp_path / "root")
    assert config["config"]["User"] == "1:1"
    assert (tmp_path / "root/usr/lib/x/libthing.so").read_bytes() == b"thing"
    with pytest.raises(PackingError, match="no image for riscv64"):
        oci.unpack(path, "riscv64", tmp_path / "other")
    files = read(path)
    name = max((name for name in files if name.startswith("blobs/")), key=lambda name: files[name][:2] == b"\x1f\x8b")
    data = bytearray(path.read_bytes())
    data[data.index(files[name]) + len(files[name]) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(PackingError, match="is not what its digest says"):
        oci.unpack(path, "arm64", tmp_path / "changed")


@pytest.mark.parametrize("path", ["../etc/passwd", "usr/../../x", "/", "."])
def test_paths_never_leave_the_root(path: str) -> None:
    with pytest.raises(PackingError, match="no path below the root"):
        clean_path(path)
    assert clean_path("./lib64/ld.so") == "usr/lib64/ld.so"


def test_packages_of_debian_become_entries_without_what_is_skipped() -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind, link in (
            ("./", tarfile.DIRTYPE, ""), ("./lib/", tarfile.DIRTYPE, ""), ("./usr/share/man/x.1", tarfile.REGTYPE, ""),
            ("./usr/lib/a.so", tarfile.REGTYPE, ""), ("./usr/lib/b.so", tarfile.LNKTYPE, "./usr/lib/a.so"),
            ("./usr/lib/c.so", tarfile.SYMTYPE, "a.so"),
        ):  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            entry.size = 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(b"abc"))
    made = Tree(TIME)
    made.tar_of(data.getvalue(), skip=("usr/share/man",))
    assert sorted(made.entries) == ["usr/lib/a.so", "usr/lib/b.so", "usr/lib/c.so"]
    assert made.entries["usr/lib/b.so"][1] == b"abc"  # a hard link is a copy


def test_both_ways_to_an_image_start_the_same() -> None:
    text = (ROOT / "deploy/container/Containerfile").read_text()
    started = image.started()
    for name, key in (("ENTRYPOINT", "Entrypoint"), ("CMD", "Cmd")):
        (line,) = re.findall(rf"^{name} (\[.*\])$", text, re.MULTILINE)
        assert json.loads(line) == started[key]
    assert set(re.findall(r"^USER (\S+)$", text, re.MULTILINE)) == {started["User"]}


def test_what_the_manifests_run_is_in_the_image() -> None:
    wanted = {
        name for path in (ROOT / "deploy/kubernetes").rglob("*.yaml")
        for name in re.findall(r"/opt/openrknn/examples/([\w.]+)", path.read_text())
    }  # fmt: skip
    assert wanted == {Path(name).name for name in image.EXAMPLES}
    assert all((ROOT / "examples" / name).is_file() for name in image.EXAMPLES)
