"""`openrknn library`: what it prints, what it refuses. Building and running with it: tests/capi/test_installed.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capi.programs import need_library
from tests.cli.run import messages, run

Capture = pytest.CaptureFixture[str]


def test_where_everything_is(capsys: Capture) -> None:
    need_library()
    shown = run(capsys, "library", "--json")
    facts = json.loads(shown.out)
    assert Path(facts["library"]).name == "librknnrt.so"
    assert Path(facts["library"]).is_file()
    assert (Path(facts["headers"]) / "rknn_api.h").is_file()
    text = run(capsys, "library").out
    assert all(str(facts[name]) in text.replace("\n", "") for name in ("api_version", "machine"))
    assert "cc prog.c $(openrknn library --cflags --libs)" in text


def test_options_for_the_compiler(capsys: Capture) -> None:
    library = need_library()
    assert run(capsys, "library", "--cflags").out.startswith("-I")
    words = run(capsys, "library", "--libs").out.split()
    assert words == [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lrknnrt"]
    assert json.loads(run(capsys, "library", "--libs", "--json").out) == words


def test_install_and_uninstall_say_what_they_did(capsys: Capture, tmp_path: Path) -> None:
    need_library()
    out = run(capsys, "library", "--install", tmp_path / "prefix").out
    assert f"wrote {tmp_path}/prefix/lib/librknnrt.so\n" in out
    assert "find_package(rknnrt)" in out
    assert run(capsys, "library", "--install", tmp_path / "prefix", "--quiet").out == ""
    written = json.loads(run(capsys, "library", "--install", tmp_path / "prefix", "--json").out)["written"]
    assert len(written) == 11  # two of them for language models
    (tmp_path / "prefix/include/rknn_api.h").write_text("theirs")
    out = run(capsys, "library", "--uninstall", tmp_path / "prefix").out
    assert out.count("removed ") == len(written) - 1
    assert "rknn_api.h stays: it is not openrknn's" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--install", "/a", "--uninstall", "/a"], "--install and --uninstall do not go together"),
        (["--status", "--cflags"], "--status and --cflags and --libs do not go together"),
        (["--force"], "--force and --engine belong to --install"),
        (["--engine", "x"], "--force and --engine belong to --install"),
        (["--machine", "riscv"], "invalid choice"),
        (["--uninstall", "/nowhere"], "/nowhere: nothing of openrknn's library is installed there"),
        (["--install", "/dev/null"], "/dev/null: this is not a directory"),
    ],
)
def test_what_is_not_possible_is_one_line(words: list[str], text: str, capsys: Capture) -> None:
    need_library()
    result = run(capsys, "library", *words)
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    assert messages(result.err) == 1


def test_the_vendors_file_stays(capsys: Capture, tmp_path: Path) -> None:
    need_library()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/librknnrt.so").write_bytes(b"\x7fELF vendor")
    result = run(capsys, "library", "--install", tmp_path)
    assert result.code == 2
    assert "librknnrt.so: it is not openrknn's (the vendor's?), so nothing was changed" in result.err
    assert run(capsys, "library", "--install", tmp_path, "--force").code == 0


def test_an_install_without_a_compiler(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("openrknn.capi.parts.package_folders", lambda: [tmp_path])
    monkeypatch.setattr("openrknn.fakekernel.preload.package_folders", lambda: [tmp_path])
    result = run(capsys, "library")
    assert (result.code, result.out) == (2, "")
    assert "installed without a C compiler, so its librknnrt.so was not built; install one" in result.err
