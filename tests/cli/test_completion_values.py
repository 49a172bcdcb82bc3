"""Values of options and arguments, in the shells themselves: what a user types, and what the command is given."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.cli.common.examples import find_examples
from openrknn.cli.completing.dynamic_values import KINDS, values
from openrknn.cli.completing.parser_tree import parsed_commands
from tests.cli.run import run
from tests.cli.typing_shell import TypingShell

Capture = pytest.CaptureFixture[str]
_LINES = {
    "openrknn compile --target rk357": "compile --target rk3576",
    "openrknn compile --target=rk357": "compile --target=rk3576",
    "openrknn run net.rknn --device ro": "run net.rknn --device rocket",
    "openrknn voice get crep": "voice get crepe-tiny",
    "openrknn inspect ne": "inspect net.rknn",
    "openrknn compile plai": "compile plain.onnx",
    "openrknn disasm net.rknn --op Conv:to": "disasm net.rknn --op Conv:tones",
    "openrknn compile plain.onnx --fp16-layers fir": "compile plain.onnx --fp16-layers first",
    "openrknn transcribe --model tiny beck": "transcribe --model tiny beckett.wav",
}
"""What is typed before the tabulator -> what the command gets."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from onnx import TensorProto, helper, save

    path = tmp_path_factory.mktemp("typed")
    shutil.copy(find_examples() / "models" / "tones_rk3588_fp.rknn", path / "net.rknn")
    for name in ("net.txt", "plain.txt", "beckett.wav", "beckett.txt"):
        (path / name).touch()
    entry, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1,)) for name in ("x", "z"))
    nodes = [helper.make_node("Neg", ["x"], ["y"], name="first"), helper.make_node("Neg", ["y"], ["z"], name="second")]
    save(helper.make_model(helper.make_graph(nodes, "plain", [entry], [end])), str(path / "plain.onnx"))
    return path


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[TypingShell]:
    name = str(request.param)
    script = folder.parent / f"typed.{name}"
    command = [sys.executable, "-m", "openrknn", "completion", name]
    script.write_text(subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout)
    opened = TypingShell(name, script, folder)
    yield opened
    opened.close()


@pytest.mark.parametrize("line", _LINES)
def test_a_line_is_completed_as_it_is_typed(line: str, shell: TypingShell) -> None:
    assert shell.complete(line) == _LINES[line]


def test_fish_offers_the_same(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "openrknn.fish"
    script.write_text(run(capsys, "completion", "fish").out)
    asked = "; ".join(f"complete -C '{line}' | head -n 1" for line in _LINES)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; {asked}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    found = [line.split("\t")[0].rpartition("=")[2] for line in done.stdout.splitlines()]
    wanted = [line.rpartition("=")[2].split(" ")[-1] for line in _LINES.values()]
    assert found == wanted


def test_every_kind_that_a_script_asks_for_is_answered() -> None:
    asked = {
        one.ask
        for command in parsed_commands()
        for one in (*command.arguments, *(option.values for option in command.options))
        if one.ask
    }
    assert asked == set(KINDS)


def test_an_answer_never_complains(folder: Path) -> None:
    (folder / "broken.rknn").write_bytes(b"RKNN\0broken")
    assert values("operators", ["disasm", "broken.rknn", ""]) == []
    assert values("operators", ["disasm", str(folder / "broken.rknn"), ""]) == []
    assert values("nothing", []) == []
    # In a list, what is there already stays.
    assert values("nodes", ["compile", str(folder / "plain.onnx"), "--fp16-layers", "first,se"]) == [
        "first,first", "first,second",
    ]  # fmt: skip
