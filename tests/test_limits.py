"""A test that waits for ever fails, says so, and those after it run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.container.places import ROOT

TESTS = """
import subprocess, threading
import pytest

def test_waits_for_a_thread(): threading.Event().wait()
def test_waits_for_a_program(): subprocess.run(["sleep", "1000"])

@pytest.fixture
def stuck(): threading.Event().wait()
def test_waits_in_a_fixture(stuck): pass
def test_does_not_wait(): pass
"""


def test_tests_that_wait_for_ever_fail(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "--limit", "2", "--rootdir", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)], cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert re.search(r"2 failed, 1 passed,.* 1 error", result.stdout), result.stdout + result.stderr
    said = re.findall(r"^E +Failed: took longer than 2 s \(the limit for one test", result.stdout, re.MULTILINE)
    assert len(said) == 3  # with CI=true the summary below has them whole once more
