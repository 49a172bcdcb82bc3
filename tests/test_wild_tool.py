"""`tools/wild`: a folder of files, each in a process of its own, and what stopped by cause.

With OPENRKNN_WILD=FOLDER the same runs on files in the wild (docs/wild.md says how to gather some); none of them is in
this repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "wild.py"
GOLDENS = ROOT / "tests" / "goldens"


def run(folder: Path, *options: str, seconds: int = 300) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    answer = folder.parent / "answer.json"
    command = [sys.executable, str(TOOL), str(folder), "--json", str(answer), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    outcomes = json.loads(answer.read_text()) if answer.exists() else []
    return done, {outcome["file"]: outcome for outcome in outcomes}


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """One file of every kind."""
    folder = tmp_path / "zoo"
    (folder / "deeper").mkdir(parents=True)
    shutil.copy(GOLDENS / "conv_rk3588_i8.rknn", folder / "deeper" / "good.rknn")
    whole = (GOLDENS / "conv_rk3566_i8.rknn").read_bytes()
    (folder / "cut.rknn").write_bytes(whole[: len(whole) // 2])
    (folder / "picture.rknn").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    (folder / "secret.rknn").write_bytes(b"CYPTRKNN" + bytes(64))
    (folder / "older.rknn").write_bytes(b"RKNN\0\0\0\0" + (1).to_bytes(8, "little") + bytes(64))
    return folder


def test_one_file_of_every_kind(zoo: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.tsv"
    sources.write_text("good\tsomebody/models\tnets/conv.rknn\n")
    done, outcomes = run(zoo, "--sources", str(sources), "--files")
    assert {name: outcome["category"] for name, outcome in outcomes.items()} == {
        "good.rknn": "runs",
        "cut.rknn": "refused",
        "picture.rknn": "not an rknn",
        "secret.rknn": "encrypted",
        "older.rknn": "other family",
    }
    assert (outcomes["good.rknn"]["chip"], outcomes["good.rknn"]["toolkit"]) == ("rk3588", "2.5.0")
    assert outcomes["cut.rknn"]["cause"].startswith("TruncatedError: the header announces # bytes")
    assert "somebody/models: nets/conv.rknn" in done.stdout
    assert "2 for this family and not encrypted: 1 run (50.0 %)" in done.stdout
    assert done.returncode == 0


def test_limits_of_time_and_memory(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    shutil.copy(GOLDENS / "conv_rk3588_i8.rknn", folder)
    assert run(folder, "--seconds", "0.001")[1]["conv_rk3588_i8.rknn"]["category"] == "time-out"


def test_a_folder_is_needed(tmp_path: Path) -> None:
    done, _ = run(tmp_path / "nothing")
    assert done.returncode == 2
    assert "give a folder" in done.stderr


def test_files_in_the_wild() -> None:
    """None ends in a traceback or a crash, at least 95 of 100 run, and at most 5 of 100 give one answer."""
    folder = os.environ.get("OPENRKNN_WILD")
    if not folder:
        pytest.skip("OPENRKNN_WILD names no folder of .rknn files")
    done, outcomes = run(Path(folder), seconds=6 * 3600)
    family = [one for one in outcomes.values() if one["category"] not in {"other family", "encrypted", "not an rknn"}]
    faults = [one for one in family if one["category"] in {"traceback", "crash"}]
    assert not faults, faults
    same = sum(one["category"] == "one answer" for one in family)
    assert same + sum(one["category"] == "runs" for one in family) >= 0.95 * len(family), done.stdout
    assert same <= 0.05 * len(family), done.stdout
