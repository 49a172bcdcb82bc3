"""Work and memory of a run: known before it runs, bounded, far above what real models ask for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from openrknn import Model, Session, load
from openrknn.container.parts import Kind
from openrknn.errors import BudgetError, RknnError
from openrknn.npu.budget import MEMORY_VARIABLE, WORK_VARIABLE, Budget, demand
from openrknn.npu.native import accelerate
from openrknn.npu.task import Convolution, Flying, Pooling, Program, Step

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = sorted((ROOT / "tests/goldens").glob("*.rknn"))
MODELS = sorted((ROOT.parent / "shared/models").rglob("*.rknn"))
KINDS = ("conv_rk3588_i8", "conv_rk3588_fp", "average_pool_rk3588_i8", "silu_rk3588_fp", "conv_rk3566_i8",
         "depthwise40_rk3576_i8", "nearest_rk3588_i8", "transpose_rk3588_i8", "softmax_rk3562_i8")  # fmt: skip


@contextmanager
def recorded() -> Iterator[list[Program]]:
    """The programs that sessions prepare."""
    programs: list[Program] = []

    def noting(program: Program, *rest: object, **options: object) -> object:
        programs.append(program)
        return accelerate(program, *rest, **options)  # type: ignore[arg-type]

    with mock.patch("openrknn.npu.native.accelerate", noting):
        yield programs


def run(model: Model | Path, **options: int) -> list[Step]:
    with recorded() as programs, Session(model, "software", **options) as session:  # type: ignore[arg-type]
        session.run({spec.name: np.zeros(spec.shape, np.float32) for spec in session.inputs})
    return [step for program in programs for step in program.steps]


def golden(name: str) -> Path:
    return ROOT / "tests/goldens" / f"{name}.rknn"


@pytest.mark.parametrize("name", KINDS)
def test_a_task_takes_no_more_memory_than_it_asked_for(name: str) -> None:
    with recorded() as programs, Session(golden(name), "software") as session:
        session.run({spec.name: np.zeros(spec.shape, np.float32) for spec in session.inputs})
        for step in programs[0].steps:
            tracemalloc.start()
            step.perform()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak <= demand(step).memory + 50_000, step.kind  # and what Python itself needs


def test_real_models_stay_far_below_their_budget() -> None:
    """A tenth of the work and half of the memory at the most, with NumPy alone."""
    for path in [*GOLDENS, *MODELS]:
        try:
            steps = run(path)
        except RknnError:  # what the software NPU cannot run at all
            continue
        except TypeError:  # an input of indices
            continue
        limits = Budget.for_file(path.stat().st_size)
        assert limits.work is not None
        assert limits.memory is not None
        assert sum(demand(step).work for step in steps) < limits.work / 10, path
        assert max((demand(step).memory for step in steps), default=0) < limits.memory / 2, path


def enlarged(step: Step) -> Step:
    """The same registers with the largest numbers in the fields of sizes."""
    if isinstance(step, Convolution):
        return replace(step, source=replace(step.source, out_height=8191, out_width=8191, kernels=8192))
    if isinstance(step, Flying):
        return replace(step, reader=replace(step.reader, height=8192, width=8192, repeat_x=8, repeat_y=8))
    assert isinstance(step, Pooling)
    return replace(step, config=replace(step.config, out_height=8192, out_width=8192, kernel_height=16))


@pytest.mark.parametrize("name", ["conv_rk3588_i8", "average_pool_rk3588_i8", "nearest_rk3588_i8"])
@pytest.mark.parametrize("natively", [False, True])
def test_registers_that_ask_for_hours_are_refused(name: str, natively: bool) -> None:
    limits = Budget.for_file(58_000)
    steps = [enlarged(step) for step in run(golden(name)) if step.kind != "table load"]
    with pytest.raises(BudgetError, match=r"asked for|needed") as caught:
        limits.check(steps, natively=natively)
    assert caught.value.task == steps[0].task
    assert "OPENRKNN_MAX_" in str(caught.value)


def test_the_parts_of_a_run_are_counted_together() -> None:
    steps = run(golden("conv_rk3588_i8"))
    each = [demand(step).work for step in steps]
    assert Budget(work=sum(each)).check(steps) == sum(each)
    with pytest.raises(BudgetError, match="operations"):
        Budget(work=sum(each) - 1).check([*steps])


def test_internal_memory_is_bounded_before_it_is_allocated() -> None:
    model = load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    tensors = tuple(
        replace(tensor, size_bytes=3_000_000_000) if tensor.kind is Kind.INTERNAL else tensor
        for tensor in graph.tensors
    )
    if tensors == graph.tensors:
        tensors = tuple(
            replace(tensor, offset=3_000_000_000) if tensor.kind.is_activation else tensor for tensor in tensors
        )
    hostile = replace(model, graphs=(replace(graph, tensors=tensors),))
    tracemalloc.start()
    with pytest.raises(BudgetError, match="internal memory"):
        run(hostile)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_limits_are_given_or_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden("conv_rk3588_i8")
    with pytest.raises(BudgetError, match=r"operations asked for, 1,000 allowed"):
        run(path, max_work=1000)
    with pytest.raises(BudgetError, match=r"needed, 1,000 allowed"):
        run(path, max_memory=1000)
    monkeypatch.setenv(WORK_VARIABLE, "1K")
    with pytest.raises(BudgetError, match=r"1,000 allowed"):
        run(path)
    assert run(path, max_work=10**9)
    monkeypatch.setenv(WORK_VARIABLE, "1.5G")
    monkeypatch.setenv(MEMORY_VARIABLE, "64M")
    assert Budget.for_file(1) == Budget(1_500_000_000, 64_000_000)
    for wrong in ("many", "0", "-1", "1X", "1e400", "G"):
        monkeypatch.setenv(WORK_VARIABLE, wrong)
        with pytest.raises(ValueError, match=WORK_VARIABLE):
            Budget.for_file(1)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)])
def test_limits_are_whole_numbers(value: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_work"):
        run(golden("conv_rk3588_i8"), max_work=value)
