"""The bash script is really sourced, and asked what it would complete."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.cli.commands import NAMES
from tests.cli.run import run

Capture = pytest.CaptureFixture[str]

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )) COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_openrknn
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path: Path, capsys: Capture) -> Path:
    path = tmp_path / "completion.bash"
    path.write_text(run(capsys, "completion", "bash").out)
    return path


def complete(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    folder = script.parent / "work"
    folder.mkdir(exist_ok=True)
    for name in ("model a.rknn", "parts.rknnz", "other.txt"):
        (folder / name).touch()
    (folder / "deep").mkdir(exist_ok=True)
    done = subprocess.run(
        ["bash", "-u", "-c", ASK, "bash", str(script), "openrknn", *words],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_commands(script: Path) -> None:
    assert complete(script, "ins") == ["inspect"]
    assert {*NAMES, "--help", "--version"} <= set(complete(script, ""))


def test_options(script: Path) -> None:
    assert complete(script, "inspect", "--ht") == ["--html"]
    assert {"--json", "--all", "--graph", "-q"} <= set(complete(script, "inspect", "x.rknn", "-"))


def test_choices(script: Path) -> None:
    assert complete(script, "completion", "") == ["bash", "zsh", "fish"]
    assert complete(script, "inspect", "--color", "a") == ["auto", "always"]
    assert complete(script, "inspect", "--graph", "") == []


def test_model_files_and_directories(script: Path) -> None:
    assert complete(script, "inspect", "") == ["model a.rknn", "parts.rknnz", "deep"]
    assert complete(script, "--debug", "inspect", "mod") == ["model a.rknn"]
    assert complete(script, "inspect", "oth") == ["other.txt"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell: str, tmp_path: Path, capsys: Capture) -> None:
    text = run(capsys, "completion", shell).out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(text)
    subprocess.run([shell, "-n", str(path)], check=True)
