"""udev rules and systemd units, by the tools of those who read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.cli.main import build_parser
from openrknn.doctor.fixes import UDEV_RULES
from tests.deploy.systemd import systemd_analyze, verify

FOLDER = Path(__file__).parents[2] / "deploy"
UNITS = sorted((FOLDER / "systemd").glob("*.service"))
RULES = FOLDER / "udev/70-openrknn-npu.rules"


def test_the_doctor_prints_the_same_rules() -> None:
    assert RULES.read_text() == UDEV_RULES


def test_rules_pass_udevadm() -> None:
    tool = shutil.which("udevadm")
    if tool is None:
        pytest.skip("udevadm is not here")
    version = int(subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.split()[0])
    if version < 254:
        pytest.skip(f"udevadm {version} has no `verify` (254 has)")
    done = subprocess.run([tool, "verify", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_pass_systemd_analyze(path: Path, tmp_path: Path) -> None:
    unit = tmp_path / path.name
    # The program has to exist for the check; any will do.
    unit.write_text(path.read_text().replace("/usr/bin/openrknn", sys.executable))
    verify(unit)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_hardened(path: Path, tmp_path: Path) -> None:
    """systemd's own judgement: 10 is a unit without any protection, 3 and less is called OK."""
    command = [systemd_analyze(), "security", "--offline=true", "--no-pager", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    if match is None:
        pytest.skip("this systemd-analyze cannot judge units offline")
    assert float(match[1]) < 4


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_commands_of_units_exist(path: Path) -> None:
    (line,) = [line for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
    words = [word for word in line.partition("=")[2].split() if not word.startswith("$")]
    build_parser((words[1],)).parse_args(words[1:])
