"""One rule for every output of every command: what an option names is checked before the command runs.

The options come from the parsers, so that one that is new and not declared fails here.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from openrknn.cli.common import outputs as policy
from openrknn.cli.common.outputs import OutputFile, OutputFolder
from tests.cli.run import run
from tests.cli.writing import MODEL, NOT_WRITTEN, outputs, valued_options, words_for

Capture = pytest.CaptureFixture[str]
FILES, FOLDERS = outputs(OutputFile), outputs(OutputFolder)


def _id(value: object) -> str:
    return max(value.option_strings, key=len, default=value.dest) if isinstance(value, argparse.Action) else str(value)


each_file = pytest.mark.parametrize(("command", "option"), FILES, ids=_id)
each_folder = pytest.mark.parametrize(("command", "option"), FOLDERS, ids=_id)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A model to read."""
    return Path(shutil.copyfile(MODEL, tmp_path / "given.rknn"))


def refused(capsys: Capture, words: list[str], message: str) -> None:
    done = run(capsys, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert message in done.err


def test_each_option_is_declared() -> None:
    """An option that takes a value writes nothing, or is an OutputFile or OutputFolder."""
    unknown = [
        (command, name)
        for command, name, action in valued_options()
        if not isinstance(action, OutputFile | OutputFolder) and name not in NOT_WRITTEN
    ]
    assert unknown == []
    assert {name for _, name, _ in valued_options()} | {"--color"} >= NOT_WRITTEN
    assert len(FILES) >= 20
    assert len(FOLDERS) >= 14


def test_commands_write_through_one_module() -> None:
    """No `open(..., "w")`, `write_text`, `write_bytes`, `copyfile` or `ZipFile(..., "w")` in the commands."""
    root = Path(policy.__file__).parents[1]
    wrong = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            modes = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            writes = name in {"open", "ZipFile"} and any(set(mode) & set("wxa+") and len(mode) < 4 for mode in modes)
            copies = isinstance(node.func, ast.Attribute) and name in {"write_bytes", "copyfile", "copy", "copytree"}
            if writes or copies:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}: {name}")
    assert wrong == []


@each_file
def test_never_an_input(command: str, option: OutputFile, given: Path, tmp_path: Path, capsys: Capture) -> None:
    """Not by its name, not by a link, not by a hard link, not with --force."""
    if command in {"cdi", "models"}:
        pytest.skip("reads no file")
    (tmp_path / "link").symlink_to(given)
    os.link(given, tmp_path / "hard")
    before = given.read_bytes()
    for name in (given, tmp_path / "link", tmp_path / "hard"):
        words = words_for(command, option, name, given)
        refused(capsys, [words[0], "--force", *words[1:]], "this is an input of the command")
    assert given.read_bytes() == before


@each_file
def test_only_regular_files(command: str, option: OutputFile, given: Path, tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    (tmp_path / "null").symlink_to("/dev/null")
    places = {"/dev/full": "a device node", "/dev/null": "a device node", tmp_path / "null": "a device node",
              tmp_path / "fifo": "a FIFO", tmp_path / "folder": "a directory", tmp_path / "s": "a socket"}  # fmt: skip
    for place, what in places.items():
        words = words_for(command, option, place, given)
        refused(capsys, [words[0], "--force", *words[1:]], f"this is {what}; give a file name")
    listener.close()
    for place in ("/dev/full", "/dev/null"):
        assert Path(place).is_char_device()
    if not option.stdout:
        assert run(capsys, *words_for(command, option, "/proc/self/fd/0", given)).code == 2


@each_file
def test_foreign_files_need_force(
    command: str, option: OutputFile, given: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "diary.txt"
    other.write_bytes(b"my own\0words\n")
    refused(capsys, words_for(command, option, other, given), "use --force to overwrite it")
    assert other.read_bytes() == b"my own\0words\n"
    empty = "this is a directory" if option.type is Path else "the name is empty"
    refused(capsys, words_for(command, option, "", given), empty)


@each_file
def test_the_folder_is_looked_at_before_the_work(  # noqa: PLR0917
    command: str, option: OutputFile, given: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not option.makes_folder:
        refused(capsys, words_for(command, option, tmp_path / "none" / "out", given), "no such directory")
    refused(capsys, words_for(command, option, given / "out", given), "Not a directory")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    refused(capsys, words_for(command, option, tmp_path / "out", given), "is not writable")
    assert sorted(tmp_path.iterdir()) == [given]


@each_folder
def test_folders_are_folders(  # noqa: PLR0917
    command: str, option: OutputFolder, given: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "fifo")
    for place in (given, tmp_path / "fifo", Path("/dev/null")):
        refused(capsys, words_for(command, option, place, given), "this is not a directory")
    refused(capsys, words_for(command, option, given / "below", given), "is a file; give the name of a directory")
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(capsys, words_for(command, option, tmp_path / "out", given), "is not writable")
    assert given.read_bytes() == MODEL.read_bytes()


def test_two_outputs_are_two_files(given: Path, tmp_path: Path, capsys: Capture) -> None:
    reports = ["--junit", f"{tmp_path}/out", "--sarif", f"{tmp_path}/./out"]
    refused(capsys, ["check", str(given), *reports], "would both write to it")


def _record(tmp_path: Path, capsys: Capture) -> Path:
    golden = tmp_path / "given.golden"
    assert run(capsys, "check", tmp_path / "given.rknn", "--record", golden).code == 0
    return golden


def test_reports_of_openrknn_are_replaced(given: Path, tmp_path: Path, capsys: Capture) -> None:
    """Known by their content: the second run needs no --force, and another report under that name does."""
    _record(tmp_path, capsys)
    page, junit, sarif, verdicts, zipped = (tmp_path / name for name in ("a", "b", "c", "d", "e.zip"))
    reports = ["check", given, "--junit", junit, "--sarif", sarif, "--summary", tmp_path / "f.md"]
    lines = (["inspect", given, "--html", page], reports, ["verify", given, "--report", verdicts],
             ["doctor", "--bundle", zipped], ["cdi", "generate", "--software", "1", "-o", tmp_path / "g"])  # fmt: skip
    for words in lines * 2:
        done = run(capsys, *words)
        assert done.code in {0, 1}, done.err
    for words in (["inspect", given, "--html", junit], ["check", given, "--junit", page]):
        assert "already exists and is not a" in run(capsys, *words).err
        assert run(capsys, *words, "--force").code in {0, 1}
    assert (tmp_path / "f.md").read_text().count("given.rknn") >= 2


_LIMITED = """
import resource, sys
from openrknn.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "given.rknn", "--html", "out"],
        ["check", "given.rknn", "--junit", "out"],
        ["check", "given.rknn", "--summary", "out"],
        ["edit", "given.rknn", "--custom-string", "x", "-o", "out"],
        ["extract", "given.rknn", "-o", "out"],
        ["doctor", "--bundle", "out.zip"],
        ["cdi", "generate", "--software", "1", "-o", "out"],
    ],
    ids=" ".join,
)
def test_a_full_disk_leaves_nothing(words: list[str], given: Path, tmp_path: Path) -> None:
    # -B: what it compiles would be cut off as well, and be found by the next one.
    command = [sys.executable, "-B", "-c", _LIMITED, *words]
    environment = {**os.environ, "OPENRKNN_CACHE": "off", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "File too large" in done.stderr
    left = {path for path in tmp_path.rglob("*") if path.is_file() and "cache" not in path.parts}
    assert left <= {given, tmp_path / "out"}
    assert not (tmp_path / "out").is_file() or (tmp_path / "out").read_bytes() == b""
    assert given.read_bytes() == MODEL.read_bytes()


def test_pictures_that_are_read_are_not_written(tmp_path: Path, capsys: Capture) -> None:
    """`detect MODEL photos --save photos --force`: the annotated pictures have the names of the photos."""
    from openrknn.cli.common.examples import find_examples

    photos = tmp_path / "photos"
    photos.mkdir()
    examples = find_examples()
    shutil.copyfile(examples / "images" / "cat.jpg", photos / "cat.jpg")
    before = (photos / "cat.jpg").read_bytes()
    model = examples / "models" / "efficientnet_lite0_rk3588_i8.rknn"
    for source in (photos, photos / "cat.jpg", f"{photos}/*.jpg"):
        done = run(capsys, "classify", model, source, "--save", photos, "--force")
        assert (done.code, "the command reads this file" in done.err) == (2, True)
    assert (photos / "cat.jpg").read_bytes() == before


def test_links_in_a_folder_are_not_followed(given: Path, tmp_path: Path, capsys: Capture) -> None:
    out, diary = tmp_path / "out", tmp_path / "diary"
    diary.write_text("my own words")
    out.mkdir()
    (out / "index.json").symlink_to(diary)
    done = run(capsys, "run", given, "-o", out, "--force")
    assert (done.code, diary.read_text()) == (2, "my own words")


def test_a_note_of_the_user_beside_a_model_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`models get NAME -o x.rknn` removed x.json."""
    from openrknn.models import fetch
    from openrknn.models.known import KNOWN

    monkeypatch.setattr(fetch, "_files", lambda *_: (tmp_path, "here"))
    monkeypatch.setattr("openrknn.compiler.compile_onnx", lambda *_, **__: None)
    monkeypatch.setattr(fetch, "_save", lambda *_: None)
    known = next(iter(KNOWN.values()))
    monkeypatch.setitem(KNOWN, next(iter(KNOWN)), replace(known, read=lambda _: b""))
    (tmp_path / known.pattern.replace("*", "a")).write_bytes(b"")
    (tmp_path / "x.json").write_text("my own words")
    fetch.get(next(iter(KNOWN)), tmp_path / "x.rknn", precision="fp16")
    assert (tmp_path / "x.json").read_text() == "my own words"


def test_a_voice_does_not_go_into_a_folder_of_the_user(tmp_path: Path) -> None:
    from openrknn.voice.errors import VoiceSetError
    from openrknn.voice.make.fetch import _prepare

    (tmp_path / "config.json").write_text("my own words")
    with pytest.raises(VoiceSetError, match="not empty, and no set"):
        _prepare(tmp_path)
    (tmp_path / "voice.json").write_text("{}")
    _prepare(tmp_path)
    _prepare(tmp_path)  # interrupted before
