"""The repository's furniture: GitHub's files are what GitHub takes, and what they say of openrknn is true.

Witnesses: GitHub's published schemas (inside check-jsonschema), our own parser for the commands that forms ask for.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml

from openrknn.cli.commands import NAMES
from openrknn.cli.main import build_parser

_ROOT = Path(__file__).parents[1]
_GITHUB = _ROOT / ".github"
_WORKFLOWS = sorted((_GITHUB / "workflows").glob("*.yml"))
_FORMS = sorted((_GITHUB / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))
_SCHEMAS: dict[str, list[Path]] = {
    "vendor.github-workflows": _WORKFLOWS,
    "custom.github-workflows-require-timeout": _WORKFLOWS,
    "vendor.github-issue-forms": _FORMS,
    "vendor.github-issue-config": [_GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.dependabot": [_GITHUB / "dependabot.yml"],
    "vendor.citation-file-format": [_ROOT / "CITATION.cff"],
}


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="needs check-jsonschema (the extra `test`)")
@pytest.mark.parametrize("schema", _SCHEMAS)
def test_files_are_what_their_readers_take(schema: str) -> None:
    files = [str(path) for path in _SCHEMAS[schema]]
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: str(path.stem))
def test_workflows_may_little_and_end(path: Path) -> None:
    workflow = _yaml(path)
    assert workflow["permissions"] == {"contents": "read"}, "what a job needs beyond reading, the job asks for"
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert "uses" in job or job["timeout-minutes"] <= 120, name
        assert set(job.get("permissions", {})) <= {"contents", "id-token", "pages", "attestations"}, name
        for step in job.get("steps", ()):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step.get("uses", "a/a@v1")), step
            # An expression inside a script is a hole: whoever names a branch writes commands.
            assert "${{" not in step.get("run", ""), step
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, f"{name}: a token stays in the clone"


def test_only_the_release_may_publish() -> None:
    asking = {
        (path.stem, name, permission)
        for path in _WORKFLOWS
        for name, job in _yaml(path)["jobs"].items()
        for permission, level in job.get("permissions", {}).items()
        if level == "write"
    }
    assert asking == {
        ("docs", "deploy", "pages"), ("docs", "deploy", "id-token"),
        ("release", "attest", "id-token"), ("release", "attest", "attestations"),
        ("release", "pypi", "id-token"), ("release", "draft", "contents"),
    }  # fmt: skip


def test_workflows_run_programs_that_are_there() -> None:
    for path in _WORKFLOWS:
        for program in re.findall(r"(?:^|\s)((?:\./|tools/)[\w./-]+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if program != "./.github/workflows/packages.yml":
                assert (_ROOT / program).exists(), f"{path.name} names {program}"


def _commands(form: Any) -> Iterator[str]:
    """`openrknn ...` in backquotes, and labels that are a command."""
    for entry in form["body"]:
        for text in (entry["attributes"].get(key, "") for key in ("label", "description", "value")):
            yield from re.findall(r"`(openrknn [^`]+)`", text)
            if text.startswith("openrknn "):
                yield text


@pytest.mark.parametrize("path", _FORMS, ids=lambda path: str(path.stem))
def test_forms_ask_for_commands_that_exist(path: Path) -> None:
    for command in _commands(_yaml(path)):
        words = shlex.split(command)[1:]
        if words[0] == "--version":
            continue
        assert words[0] in NAMES, command
        if len(words) > 1:
            build_parser((words[0],)).parse_args(words)


def test_the_bug_form_asks_for_verify_and_a_bundle() -> None:
    labels = [entry["attributes"].get("label") for entry in _yaml(_GITHUB / "ISSUE_TEMPLATE" / "1-bug.yml")["body"]]
    assert {"openrknn verify", "openrknn doctor --bundle"} <= set(labels)


def test_one_address() -> None:
    urls: dict[str, str] = tomli.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    repository = urls["Repository"]
    owner, name = repository.removeprefix("https://github.com/").split("/")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a clone with git")
    named = re.compile(rf"https://(?:github\.com/[\w-]+/{name}\b|[\w-]+\.github\.io/{name}\b)")
    for file in filter(None, listed.stdout.split("\0")):
        path = _ROOT / file
        if path.is_file() and path.stat().st_size < 1_000_000 and path.suffix not in {".rknn", ".onnx", ".npz"}:
            for address in named.findall(path.read_text(encoding="utf-8", errors="ignore")):
                assert address in {repository, f"https://{owner}.github.io/{name}"}, file
    assert urls["Issues"] == f"{repository}/issues"


def test_the_extra_all_has_every_extra_of_users() -> None:
    extras = tomli.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (inner,) = extras["all"]
    has = set(re.findall(r"[\w-]+", inner.partition("[")[2]))
    assert set(extras) - has == {"all", "docs", "ray", "tensorflow", "test", "torch"}
