"""The page on CI: pipelines and golden.toml of its blocks are what the programs take."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openrknn.check import load_golden
from openrknn.cli.main import build_parser
from tests.container.places import ROOT
from tests.docs.code_blocks import collect

BLOCKS = collect("docs/ci.md", (ROOT / "docs" / "ci.md").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def pipelines() -> list[Any]:
    return [yaml.safe_load(block.text) for block in BLOCKS if block.language == "yaml"]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from texts(entry)
    elif isinstance(value, str):
        yield value


def test_commands_of_the_pipelines_are_understood() -> None:
    found = [text for text in texts(pipelines()) if text.startswith("openrknn ")]
    assert len(found) == 2
    for text in [*found, *(f"{hook['entry']} model.rknn" for hook in HOOKS)]:
        words = shlex.split(text)[1:]
        build_parser([words[0]]).parse_args(words)


def test_hooks_are_those_of_the_repository() -> None:
    wanted = [hook for page in pipelines() for repo in page.get("repos", ()) for hook in repo["hooks"]]
    known = {hook["id"]: hook for hook in HOOKS}
    assert {hook["id"] for hook in wanted} == set(known)
    for hook in wanted:
        words = [*shlex.split(known[hook["id"]]["entry"])[1:], *hook.get("args", ()), "model.rknn"]
        build_parser([words[0]]).parse_args(words)


def test_what_a_job_uploads_it_wrote() -> None:
    job = pipelines()[0]["jobs"]["check"]["steps"]
    command = next(step["run"] for step in job if step.get("run", "").startswith("openrknn"))
    assert all(step["with"].get("sarif_file", step["with"].get("path", "")) in command
               for step in job if step.get("if"))  # fmt: skip


def test_the_example_of_golden_toml_is_read(tmp_path: Path) -> None:
    block = next(block for block in BLOCKS if block.language == "toml")
    (tmp_path / "golden.toml").write_text(block.text)
    golden = load_golden(tmp_path)
    assert [case.name for case in golden.cases] == ["street", "crossing"]
    assert golden.budget.ms == {"rk3588": 15, "rk3566": 60}
    answer = golden.cases[1].answer
    assert answer is not None
    assert answer.boxes is not None
    assert [box.label for box in answer.boxes] == ["person", "bicycle"]
    assert golden.cases[0].tolerances["scores"].outliers == pytest.approx(0.001)
