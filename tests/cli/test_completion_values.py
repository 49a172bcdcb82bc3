"""Values of options and arguments, in the shells themselves: what a user types, and what the command is given."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.cli.common.examples import find_examples
from openrknn.cli.completing.complete import complete
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


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("openrknn insp", [("inspect", "")]),
        ("openrknn inspect --gr", [("--graph", "")]),
        ("openrknn completion ", [("bash", ""), ("zsh", ""), ("fish", "")]),
        ("openrknn --debug completion b", [("bash", "")]),
        ("openrknn inspect --color=al", [("--color=always", "")]),
        ("openrknn inspect x.rknn", [(":files", "rknn rknnz")]),
        ("openrknn check --record ", [(":folders", "")]),
        ("FOO=1 /usr/bin/openrknn speak --output 'my ", [(":files", "wav")]),
        ("openrknn bench --runs ", []),
        ("openrknn nothing ", []),
        ("openrknn voice --family pip", [("piper", "")]),
    ],
)
def test_what_can_follow(line: str, rows: list[tuple[str, str]]) -> None:
    assert [(value, text if value.startswith(":") else "") for value, text in complete(line)] == rows


def test_an_answer_never_complains(folder: Path) -> None:
    (folder / "broken.rknn").write_bytes(b"RKNN\0broken")
    assert complete("openrknn disasm broken.rknn --op ") == []
    assert complete(f"openrknn disasm {folder / 'broken.rknn'} --op ") == []
    assert complete("") != []
    # In a list, what is there already stays.
    assert complete(f"openrknn compile {folder / 'plain.onnx'} --fp16-layers first,se") == [("first,second", "")]


def test_names_of_a_strangers_model_are_not_run(tmp_path: Path, capsys: Capture) -> None:
    """bash expands the words that `compgen -W` is given: the name of a node could be a command."""
    from onnx import TensorProto, helper, save

    entry, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1,)) for name in ("x", "y"))
    node = helper.make_node("Neg", ["x"], ["y"], name="n$(touch${IFS}run)")
    save(helper.make_model(helper.make_graph([node], "graph", [entry], [end])), str(tmp_path / "net.onnx"))
    script = tmp_path / "openrknn.bash"
    script.write_text(run(capsys, "completion", "bash").out)
    shell = TypingShell("bash", script, tmp_path)
    shell.complete("openrknn compile net.onnx --fp16-layers n")
    shell.close()
    assert not (tmp_path / "run").exists()
