"""Valid tasks of every kind give the same bytes with native kernels and with NumPy.

Evidence: NumPy is the specification (exact rules of the blocks), native kernels are compared with it bit for bit.
`tasks.json` has the tasks that failed once: a crash, a read beyond the input or a difference.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from openrknn.compute import native
from tools.fuzzing.build import build
from tools.fuzzing.campaign import Limits, Worker
from tools.fuzzing.judge import DIFFERENT, EQUAL, FOREIGN, REFUSED
from tools.fuzzing.valid import judge as judging
from tools.fuzzing.valid.judge import judge_task
from tools.fuzzing.valid.pairs import covering
from tools.fuzzing.valid.spaces import KINDS, Tasks

ROOT = Path(__file__).resolve().parents[2]
CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tasks.json").read_text())
pytestmark = pytest.mark.skipif(native.find() is None, reason="no native library: there is nothing to compare")


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_KERNELS", "auto")
    warnings.simplefilter("ignore", RuntimeWarning)


def test_what_failed_once_does_not_fail_again() -> None:
    """In a process of its own: the first of them read a surface that is not there, and died of it."""
    with contextlib.closing(Worker(None, Limits(seconds=300))) as worker:
        for case in CASES:
            verdict = worker.ask(case["task"])["verdict"]
            assert not verdict.failed, f"{case['was']}: {verdict.detail}"


def test_rows_cover_all_pairs() -> None:
    space = {"a": range(5), "b": range(4), "c": range(3), "d": "xyz"}
    rows = list(covering(space, random.Random(1), lambda row: (row["a"], row["b"]) != (4, 3)))
    for first, second in itertools.combinations(space, 2):
        wanted = set(itertools.product(space[first], space[second]))
        if (first, second) == ("a", "b"):
            wanted.remove((4, 3))
        assert {(row[first], row[second]) for row in rows} == wanted
    assert len(rows) < 35


def test_the_same_seed_gives_the_same_tasks() -> None:
    first, again = (list(itertools.islice(Tasks(5), 30)) for _ in range(2))
    assert first == again
    assert first != list(itertools.islice(Tasks(6), 30))


def test_differences_and_foreign_errors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(task for task in Tasks(5, ["pooling"]) if judge_task(task).features == {"pooling: native"})
    with monkeypatch.context() as patch:
        patch.setattr("openrknn.npu.blocks.ppu.encode", lambda cube, _: cube.astype("u1").view("u1") * 0 + 1)
        assert judge_task(task).outcome in (DIFFERENT, FOREIGN)
    monkeypatch.setattr(judging, "build", lambda _: 1 // 0)
    assert judge_task(task).outcome == FOREIGN


def test_a_few_tasks_of_each_kind_are_equal() -> None:
    found: set[str] = set()
    kinds = [kind for kind in KINDS if kind != "network" or importlib.util.find_spec("onnx") is not None]
    for kind in kinds:
        for task in itertools.islice(Tasks(28, [kind]), 10 if kind == "network" else 50):
            verdict = judge_task(task)
            assert verdict.outcome in (EQUAL, REFUSED), (task, verdict.detail)
            found |= verdict.features
    assert {f"{kind}: native" for kind in kinds} <= found


def test_channels_that_are_no_whole_blocks_are_refused_by_name() -> None:
    """DepthToSpace of 97 channels ended in an IndexError of the compiler."""
    pytest.importorskip("onnx", reason="the extra `compile` is not installed")
    task = {"kind": "network", "seed": 7, "chip": "rk3576", "format": "fp16", "operator": "DepthToSpace",
            "channels": 97, "kernels": 1, "height": 28, "width": 32, "kernel": 2, "stride": 2, "dilation": 1, "pad": 1,
            "broadcast": "channel", "threads": 1}  # fmt: skip
    verdict = judge_task(task)
    assert verdict.outcome == REFUSED
    assert "97 channels are not whole blocks of 2x2" in verdict.detail


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="builds a library with sanitizers: only with CI=true")
def test_tasks_under_sanitizers(tmp_path: Path) -> None:
    if build(ROOT / "build" / "fuzz") is None:
        pytest.skip("gcc's sanitizers are not installed")
    fuzz = [sys.executable, str(ROOT / "tools" / "fuzz.py")]
    command = [*fuzz, "--valid", "300", "--seed", "29", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("place", ["apart", "same", "shifted"])
def test_atoms_that_move_are_read_before_they_are_written(place: str) -> None:
    """NumPy wrote a part of its result over rows that it still had to read, where input and output overlap."""
    task = {"kind": "move", "seed": 2, "chip": "rk3588", "move": "atoms", "precision": "fp16", "channels": 97,
            "height": 1, "width": 29, "repeat_x": 2, "repeat_y": 3, "main": "alone", "gap": 0, "per_pixel": 2,
            "counters": "grid", "data": "usual", "place": place, "threads": 1}  # fmt: skip
    assert judge_task(task).outcome == EQUAL
