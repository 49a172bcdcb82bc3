"""Runs the command line: in this process, where that is enough, or as a program of its own."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from openrknn.cli.main import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *words: object) -> Result:
    """Run a command in this process."""
    capsys.readouterr()
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def program(*words: object, **environment: str) -> Result:
    """Run it as a program, with these environment variables on top."""
    command = [sys.executable, "-W", "error", "-m", "openrknn.cli", *map(str, words)]
    clean = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    done = subprocess.run(
        command, env={**clean, "PYTHONUTF8": "1", **environment}, capture_output=True, text=True, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr)


def messages(text: str) -> int:
    """How many messages were printed: lines without those that name the page about an error."""
    return sum(not line.startswith("see: ") for line in text.splitlines())
