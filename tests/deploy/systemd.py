"""systemd's own judgement of units."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def systemd_analyze() -> str:
    """The program; the test is skipped without it."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here (Debian: apt install systemd)")
    return tool


def verify(unit: Path) -> None:
    """A unit whose program exists has to pass without a word."""
    command = [systemd_analyze(), "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, []), done.stderr
