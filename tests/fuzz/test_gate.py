"""The fuzzer finds what it should, and a bounded number of mutants finds nothing.

`cases.json` has the mutants that failed once, as patches of goldens: each was a crash, a hang, memory, an error that is
not ours or a difference between native kernels and NumPy.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from openrknn import load
from openrknn.compute import native
from tools.fuzzing import judge as judging
from tools.fuzzing.anatomy import dissect
from tools.fuzzing.build import build
from tools.fuzzing.campaign import Limits, Worker, WorkerLostError
from tools.fuzzing.judge import HANG, MEMORY, Way, judge
from tools.fuzzing.mutate import mutated

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
CONV = GOLDENS / "conv_rk3588_i8.rknn"
CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cases.json").read_text())
needs_kernels = pytest.mark.skipif(native.find() is None, reason="no native library: there is nothing to compare")


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("OPENRKNN_KERNELS", "auto"), ("OPENRKNN_MAX_WORK", "1G"), ("OPENRKNN_MAX_MEMORY", "500M")):
        monkeypatch.setenv(name, value)
    warnings.simplefilter("ignore", RuntimeWarning)


def patched(case: dict[str, Any]) -> bytes:
    data = bytearray((GOLDENS / case["golden"]).read_bytes())
    for offset, text in case["patches"]:
        data[offset : offset + len(text) // 2] = bytes.fromhex(text)
    return bytes(data)


@needs_kernels
@pytest.mark.parametrize("case", CASES, ids=[f"{case['name']} {case['was'][:40]}" for case in CASES])
def test_what_failed_once_does_not_fail_again(case: dict[str, Any]) -> None:
    way = Way(**case["way"])
    names = {kernels.name.lower() for kernels in native.available()} | {"auto"}
    verdict = judge(patched(case), way if way.kernels in names else Way("auto", way.threads, way.cores, way.pixels))
    assert not verdict.failed, verdict.detail


@needs_kernels
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that ignores a field: the corrections of depthwise weights, say."""
    from openrknn.npu.native import convolutions

    original = convolutions._corrections
    monkeypatch.setattr(convolutions, "_corrections", lambda step, task: original(step, task) + 1)
    assert judge(CONV.read_bytes(), Way()).outcome == judging.DIFFERENT


def test_errors_that_are_not_ours_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "load", lambda _: 1 // 0)
    assert judge(CONV.read_bytes(), Way()).outcome == judging.FOREIGN


def test_places_are_those_that_the_reader_sees() -> None:
    data = CONV.read_bytes()
    anatomy, model = dissect(data), load(data)
    graph = model.graphs[0]
    assert len(anatomy.tasks) == len(anatomy.words) == len(graph.tasks)
    assert len(anatomy.relocations) >= sum(map(len, graph.relocations))
    found = {struct.unpack_from("<f", data, number.offset)[0] for number in anatomy.numbers if number.format == "f"}
    scales = {scale for tensor in graph.tensors if tensor.quantization for scale in tensor.quantization.scale}
    assert scales
    assert scales <= found


@pytest.mark.parametrize("path", [*sorted(GOLDENS.glob("*_rk3562_i8.rknn"))[:3], CONV], ids=lambda path: path.stem)
def test_mutants_are_the_same_for_the_same_seed(path: Path) -> None:
    data = path.read_bytes()
    anatomy = dissect(data)
    first, again = ([mutated(data, anatomy, random.Random(f"7:{k}")) for k in range(40)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 30
    assert {len(mutant) for mutant in first} == {len(data)}


@pytest.mark.parametrize(("limits", "outcome"), [(Limits(seconds=0.0), HANG), (Limits(memory=1 << 20), MEMORY)])
def test_a_worker_that_takes_too_long_or_too_much_is_ended(limits: Limits, outcome: str) -> None:
    worker = Worker(None, limits if outcome == HANG else Limits(memory=1 << 40))
    if outcome == MEMORY:
        worker.ask((0, CONV.read_bytes(), "", Way()))
        worker._limits = limits
    with pytest.raises(WorkerLostError) as caught:
        worker.ask((0, CONV.read_bytes(), "", Way()))
    worker.close()
    assert caught.value.verdict.outcome == outcome


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--keep", str(tmp_path / "kept"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@needs_kernels
def test_a_bounded_campaign_finds_nothing(tmp_path: Path) -> None:
    small = [str(path) for path in sorted(GOLDENS.glob("*.rknn")) if path.stat().st_size < 25_000]
    done = run(tmp_path, "--no-sanitizers", "--count", "400", "--seed", "14", *small)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {words[0]: int(words[-3]) for words in map(str.split, done.stdout.splitlines()) if words[-1:] == ["%"]}
    assert counts["equal"] > 50
    assert counts["refused"] > 50


@needs_kernels
@pytest.mark.skipif(os.environ.get("CI") != "true", reason="builds a library with sanitizers: only with CI=true")
def test_the_same_under_sanitizers(tmp_path: Path) -> None:
    if build(ROOT / "build" / "fuzz") is None:
        pytest.skip("gcc's sanitizers are not installed")
    small = [str(path) for path in sorted(GOLDENS.glob("*.rknn")) if path.stat().st_size < 25_000]
    done = run(tmp_path, "--count", "300", "--seed", "15", *small)
    assert done.returncode == 0, done.stdout + done.stderr
