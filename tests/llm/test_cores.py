"""Task lists of three cores that are one job: equal bytes, whichever core is first between two meetings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from openrknn.chips import CHIPS, TaskList
from openrknn.container.load import load
from openrknn.device.base import Work
from openrknn.device.protocol import Job
from openrknn.device.software import SoftwareBuffer, SoftwareDevice
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES, Tail
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.limits import joined_cores
from openrknn.llm.npu import NpuEngine
from openrknn.llm.quantise.model import quantise_language
from openrknn.runtime.program.program import Program
from openrknn.runtime.program.steps import core_lists, is_joined
from tests.llm.quantise.sources import MemorySource
from tests.llm.test_npu_engine import CHANGES, PROGRAM, TOKENS

RK3588 = CHIPS["rk3588"]


@pytest.fixture(scope="module", params=["fp16", "w8a8"])
def compiled(request: pytest.FixtureRequest) -> CompiledLanguage:
    source = MemorySource(**CHANGES)
    given = source if request.param == "fp16" else quantise_language(source, [TOKENS], online=True)
    return compile_language(given, capacity=64, prefill=(32,), few=8, batch=2, cores=3)


class Shuffled(SoftwareDevice):
    """Between two meetings each core does all it can before the next one begins, in this order of cores."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__(RK3588)
        self.order, self.meetings = order, [0, 0, 0]

    def _prepare(self, job: Job) -> Work[SoftwareBuffer]:
        tasks = list(job.tasks)
        for core, numbers in enumerate(job.lists):
            round_ = 0
            for number in numbers:
                task = tasks[number]
                tasks[number] = task._replace(op_index=round_ * len(self.order) + self.order.index(core))
                place = task.address + task.amount * WORD_BYTES
                words = self._memory.view(place, TAIL_WORDS * WORD_BYTES, "tail").view(np.uint64)
                round_ += Tail(*words.tolist()).barrier > 0
            self.meetings[core] = round_
        return super()._prepare(replace(job, tasks=tasks))


def run(engine: NpuEngine) -> list[bytes]:
    cache = engine.new_cache()
    found = [engine.forward(cache, TOKENS).tobytes(), engine.forward(cache, [5]).tobytes()]
    found.append(engine.forward(cache, [6, 7, 8], all_logits=True).tobytes())
    other = engine.new_cache()
    engine.forward(other, [9])
    found.append(engine.forward_batch([cache, other], [10, 11]).tobytes())
    return [*found, engine.rows_of(cache).tobytes(), engine.rows_of(other).tobytes()]


@pytest.fixture(scope="module")
def wanted(compiled: CompiledLanguage) -> list[bytes]:
    with NpuEngine(compiled.data, "software", cores=1, batch=2) as engine:
        return run(engine)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_cores_need_nothing_of_each_other_between_meetings(
    compiled: CompiledLanguage, wanted: list[bytes], order: tuple[int, ...]
) -> None:
    with Shuffled(order) as device:
        with NpuEngine(compiled.data, device, cores=3, batch=2) as engine:
            assert run(engine) == wanted
        assert len(set(device.meetings)) == 1
        assert device.meetings[0] > 10


def test_a_token_is_one_job_of_all_cores(compiled: CompiledLanguage) -> None:
    with NpuEngine(compiled.data, "software", cores=3) as engine:
        for bound in engine.graphs.values():
            program = bound.program
            assert isinstance(program, Program)
            assert len(program._steps(frozenset(), singly=False)) == 1
    assert {cost.submits for cost in compiled.shared_costs.values()} == {1}


def test_every_task_leads_to_the_next_one_of_its_core(compiled: CompiledLanguage) -> None:
    model = load(b"".join(bytes(piece) for piece in compiled.pieces["step.rknn"]))
    for graph in model.graphs:
        assert is_joined(graph, core_lists(graph, RK3588, 3))
        assert TaskList(2, 0) not in graph.task_lists
    assert joined_cores(model) == 3
    for graph in model.graphs:
        for core in range(3):
            numbers = graph.task_lists[TaskList(3, core)]
            assert all(graph.tasks[a].op_index <= graph.tasks[b].op_index for a, b in pairwise(numbers))


def test_rk3576_has_no_joined_lists() -> None:
    """Its lists for two cores are jobs of single operators."""
    made = compile_language(MemorySource(**CHANGES), "rk3576", capacity=64, prefill=())
    model = load(b"".join(bytes(piece) for piece in made.pieces["step.rknn"]))
    assert TaskList(2, 0) in model.graphs[0].task_lists
    assert joined_cores(model) == 1
    assert made.shared_costs[1] is made.costs[1]


def test_a_small_model_has_no_lists_unless_one_asks() -> None:
    """Cores that meet cost more than they save."""
    made = compile_language(MemorySource(**CHANGES), capacity=64, prefill=())
    model = load(b"".join(bytes(piece) for piece in made.pieces["step.rknn"]))
    assert TaskList(3, 0) not in model.graphs[0].task_lists
    assert made.shared_costs[1] is made.costs[1]


@pytest.mark.parametrize("compiled", ["w8a8"], indirect=True)
def test_the_vendors_driver_runs_all_cores(compiled: CompiledLanguage, tmp_path: Path) -> None:
    path = tmp_path / "tiny.rknnz"
    path.write_bytes(compiled.data)
    program = PROGRAM + "\nassert engine.session.cores == 3, engine.session.cores\n"
    command = [sys.executable, "-m", "openrknn.cli", "exec", "--driver", "rknpu", "--", sys.executable, "-c", program]
    done = subprocess.run([*command, "rknpu", str(path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "same"
