"""The tutorials, followed step by step in a copy of the sources: patches fit, programs and commands run.

Evidence: what the pages show, and the results that their programs assert.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.code_blocks import ROOT, Block, collect, commands, compare

pytest.importorskip("onnxruntime", reason="the extra 'compile' (package onnxruntime) is not installed")
PAGES = sorted((ROOT / "docs" / "tutorials").glob("add-*.md"))
COPIED = r"""
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"]
place, program, *words = sys.argv[1:]
sys.path.insert(0, place)
sys.argv[:] = ["openrknn", *words]
import openrknn
assert openrknn.__file__.startswith(place), openrknn.__file__
if program == "openrknn":
    runpy.run_module("openrknn", run_name="__main__", alter_sys=True)
else:
    exec(compile(program, "block", "exec"), {"__name__": "__main__"})
"""
"""Runs a program, or the command, with the package in a folder instead of the installed one."""


def blocks(page: Path) -> list[Block]:
    return collect(page.name, page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with the patches of all tutorials. Each is for the sources as they are; together they fit, too."""
    folder = tmp_path_factory.mktemp("tutorials")
    unwanted = shutil.ignore_patterns("__pycache__", "_native", "examples")
    shutil.copytree(ROOT / "src" / "openrknn", folder / "src" / "openrknn", ignore=unwanted)
    (folder / "examples").symlink_to(ROOT / "examples")
    for page in PAGES:
        patches = [block for block in blocks(page) if block.language == "diff"]
        assert patches, page
        for patch in patches:
            done = subprocess.run(
                ["git", "apply", "--verbose", "--unidiff-zero", "-"],
                input=patch.text,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{patch}: {done.stderr}"
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_the_tutorial_works(copy: Path, page: Path) -> None:
    ran = 0
    for block in (block for block in blocks(page) if block.is_code):
        assert "test_tutorials" in (block.reason or ""), f"{block} is run in the unchanged sources"
        if block.language == "python":
            run(copy, block.text)
            ran += 1
            continue
        for command, expected in commands(block.text):
            name, *words = shlex.split(command)
            assert name == "openrknn"
            compare(command, expected, run(copy, name, *words))
            ran += 1
    assert ran


def run(folder: Path, program: str, *words: str) -> str:
    command = [sys.executable, "-W", "error", "-c", COPIED, str(folder / "src"), program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_three() -> None:
    assert [page.stem for page in PAGES] == ["add-a-chip", "add-a-model-family", "add-an-operator"]
