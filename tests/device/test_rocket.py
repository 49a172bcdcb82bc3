"""The mainline driver's silent failures: dropped and timed-out jobs are errors, and lists are as the kernel wants them.

A kernel in this process stands in for the real one: it follows drivers/accel/rocket (a buffer that is named twice, and
500 ms for a job), on a clock that tasks advance by what each is said to take.
"""

from __future__ import annotations

import ctypes
import errno
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openrknn.device.rocket as module
import openrknn.device.rocket_jobs as jobs
from openrknn.chips import CHIPS
from openrknn.device.rocket import RocketDevice
from openrknn.errors import DeviceError
from openrknn.fakekernel.faults import FaultKind, Faults, parse_fault
from openrknn.isa.words import TAIL_WORDS
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.runtime.session import Session
from openrknn.uapi import drm, emulated, rocket
from tests.container.places import GOLDENS

MODELS = [path for path in GOLDENS if "_rk3588_" in path.stem and path.with_suffix(".npz").exists()]
MODEL = next(path for path in MODELS if path.stem.startswith("projection"))


class MainlineKernel:
    """`seconds`: of each task. `drops`: jobs whose numbers are in it never run. `faults`: of the NPU.

    `queue_seconds`: that each job waits for those of other programs. `limit`: seconds after which a job is stopped.
    """

    def __init__(self, seconds: float = 0.0001) -> None:
        self.seconds = seconds
        self.limit = 0.5
        self.queue_seconds = 0.0
        self.drops: set[int] = set()
        self.faults = Faults()
        self.jobs: list[tuple[int, list[int], list[int]]] = []
        self.clock = 0.0
        self.buffers: dict[int, Buffer] = {}
        self._memory = Memory()

    def monotonic_ns(self) -> int:
        return int(self.clock * 1e9)

    def open(self, path: str) -> int:
        return 5

    def close(self, descriptor: int) -> None:
        pass

    def nodes(self, folder: str) -> Iterator[str]:
        yield "/dev/accel/accel0"

    def map(self, descriptor: int, size_bytes: int, offset: int) -> Any:
        return next(one.data for one in self.buffers.values() if one.address == offset)

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> None:
        for ioctl in (*rocket.IOCTLS, drm.VERSION, drm.GEM_CLOSE):
            if ioctl.request == request:
                values = ioctl.argument.unpack(argument)
                getattr(self, f"_{ioctl.name.lower()}")(values)
                argument[:] = ioctl.argument.pack(values)
                return
        raise OSError(errno.ENOTTY, "unknown")

    def _version(self, values: dict[str, int]) -> None:
        ctypes.memmove(values["name"], b"rocket\0", 7)

    def _create_bo(self, values: dict[str, int]) -> None:
        address = max((one.end for one in self.buffers.values()), default=0x1000)
        values["handle"], values["dma_address"], values["offset"] = len(self.buffers) + 1, address, address
        self.buffers[values["handle"]] = self._memory.add(Buffer(address, np.zeros(values["size"], np.uint8)))

    def _gem_close(self, values: dict[str, int]) -> None:
        pass

    _prep_bo = _fini_bo = _gem_close

    def _submit(self, values: dict[str, int]) -> None:
        job = rocket.JOB.unpack(ctypes.string_at(values["jobs"], rocket.JOB.size))
        raw = ctypes.string_at(job["tasks"], job["task_count"] * rocket.TASK.size)
        tasks = [rocket.TASK.unpack(raw, at) for at in range(0, len(raw), rocket.TASK.size)]
        read, written = (
            list((ctypes.c_uint32 * job[f"{name}_count"]).from_address(job[f"{name}s"])) if job[f"{name}_count"] else []
            for name in ("in_bo_handle", "out_bo_handle")
        )
        self.jobs.append((len(tasks), read, written))
        if len({*read, *written}) < len(read) + len(written) or len(self.jobs) in self.drops:
            return
        self.clock += self.queue_seconds
        begun = self.clock
        references = [
            TaskRef(number, task["regcmd"], task["regcmd_count"] - TAIL_WORDS) for number, task in enumerate(tasks)
        ]
        for step in Machine(CHIPS["rk3588"], self._memory).prepare([references]).steps:
            self.clock += self.seconds
            if self.clock - begun >= self.limit:
                self.clock = begun + self.limit + 0.001
                return
            fault = self.faults.next(0)
            if fault is None or fault.kind == FaultKind.MISSING_INTERRUPT:
                step.run()
            if fault is not None and not fault.ends:
                self.clock = begun + 0.501
                return


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> MainlineKernel:
    made = MainlineKernel()
    monkeypatch.setattr(module, "time", made)
    return made


def run(kernel: MainlineKernel, model: Any = MODEL) -> tuple[Any, Any]:
    """On the driver and on the software NPU."""
    answers = np.load(model.with_suffix(".npz"))
    inputs = [answers[name] for name in sorted(answers) if name.startswith("x")]
    with Session(model, device="software") as session:
        wanted = session.run(inputs, outputs="raw")
    with RocketDevice(CHIPS["rk3588"], kernel=kernel) as device, Session(model, device=device) as session:
        found = session.run(inputs, outputs="raw")
    return [found[name].tobytes() for name in wanted], [wanted[name].tobytes() for name in wanted]


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_a_kernel_that_drops_jobs_with_double_buffers_runs_ours(kernel: MainlineKernel, model: Any) -> None:
    found, wanted = run(kernel, model)
    assert found == wanted
    for _, read, written in kernel.jobs:
        assert not set(read) & set(written)
        assert len(set(read)) == len(read)
        assert len(set(written)) == len(written)


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_a_dropped_job_is_an_error(kernel: MainlineKernel, model: Any) -> None:
    run(kernel, model)
    jobs = len(kernel.jobs)
    if not jobs:
        pytest.skip("all of its tasks are the software's")
    for number in {1, jobs}:
        kernel.jobs.clear()
        kernel.drops = {number, number + 1}  # a job with a tiny result is tried twice
        with pytest.raises(DeviceError, match="dropped a job"):
            run(kernel, model)


def test_a_job_that_times_out_is_an_error(kernel: MainlineKernel) -> None:
    kernel.seconds = 0.6
    with pytest.raises(DeviceError, match=r"no evidence that it ended|dropped a job"):
        run(kernel)


def test_a_slow_job_of_an_emulated_driver_is_no_error(kernel: MainlineKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit is longer, and a large job takes the software NPU more than half a second."""
    monkeypatch.setenv(emulated.VARIABLE, "/run/board")
    kernel.limit, kernel.seconds = 30.0, 0.6
    monkeypatch.setattr(module, "repeats_of", lambda *_: None)  # no evidence of the end
    model = next(path for path in MODELS if path.stem == "silu_rk3588_fp")
    found, wanted = run(kernel, model)
    assert found == wanted
    monkeypatch.delenv(emulated.VARIABLE)
    with pytest.raises(DeviceError, match="no evidence that it ended"):
        run(kernel, model)


def test_a_job_that_times_out_at_its_last_task_is_an_error(kernel: MainlineKernel) -> None:
    run(kernel)
    most = max(tasks for tasks, _, _ in kernel.jobs)
    assert most > 1
    kernel.seconds = 0.51 / most
    with pytest.raises(DeviceError, match="no evidence that it ended"):
        run(kernel)


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_a_job_that_waits_for_others_and_ends_is_no_error(kernel: MainlineKernel, model: Any) -> None:
    """The time that a job waits in the queue does not count against its limit."""
    kernel.queue_seconds = 2.0
    found, wanted = run(kernel, model)
    assert found == wanted


@pytest.mark.parametrize("bits", [0x00, 0xFF])
def test_a_result_that_equals_its_mark_is_no_error(kernel: MainlineKernel, monkeypatch: Any, bits: int) -> None:
    """Of one byte that is known to be written: a second mark has the opposite bits."""
    monkeypatch.setattr("openrknn.device.proof.secrets.token_bytes", lambda size: bytes([bits]) * size)
    kernel.queue_seconds = 2.0
    found, wanted = run(kernel, next(path for path in MODELS if path.stem.startswith("nearest")))
    assert found == wanted
    assert [tasks for tasks, _, _ in kernel.jobs] == [3]


def test_a_job_without_time_for_evidence_has_its_own_tasks_alone(kernel: MainlineKernel, monkeypatch: Any) -> None:
    monkeypatch.setattr(jobs, "_TASK_SECONDS", 0.2)  # twice more would be too much
    found, wanted = run(kernel, next(path for path in MODELS if path.stem.startswith("nearest")))
    assert found == wanted
    assert {tasks for tasks, _, _ in kernel.jobs} == {1}


def test_tasks_are_split_into_jobs_by_their_time(kernel: MainlineKernel, monkeypatch: Any) -> None:
    run(kernel)
    whole = [tasks for tasks, _, _ in kernel.jobs]
    kernel.jobs.clear()
    monkeypatch.setattr(jobs, "_TASK_SECONDS", 0.1)  # two of them fit into half of the limit
    found, wanted = run(kernel)
    assert found == wanted
    parts = [tasks for tasks, _, _ in kernel.jobs]
    assert sum(parts) == sum(whole)
    assert len(parts) > len(whole)
    assert max(parts) <= 2


@pytest.mark.parametrize("model", ["residual", "softmax", "conv", "silu", "nearest", "bilinear"])
@pytest.mark.parametrize("kind", ["stuck", "missing-interrupt"])
def test_a_task_that_fails_is_an_error_or_does_no_harm(kernel: MainlineKernel, model: str, kind: str) -> None:
    """Whichever task it is: no wrong result, and the next run is right. The time tells nothing: other programs run."""
    kernel.queue_seconds = 2.0
    path = next(path for path in MODELS if path.stem.startswith(model))
    answers = np.load(path.with_suffix(".npz"))
    inputs = [answers[name] for name in sorted(answers) if name.startswith("x")]
    errors = 0
    with RocketDevice(CHIPS["rk3588"], kernel=kernel) as device, Session(path, device=device) as session:
        wanted = session.run(inputs, outputs="raw")
        for start in range(1, sum(tasks for tasks, _, _ in kernel.jobs) + 1):
            kernel.faults = Faults([parse_fault(f"{kind}:start={start}", 1)])
            try:
                found = session.run(inputs, outputs="raw")
            except DeviceError as error:
                errors += 1
                assert re.search("no evidence that it ended|dropped a job", str(error))  # noqa: PT017
                found = session.run(inputs, outputs="raw")
            assert [found[name].tobytes() for name in wanted] == [wanted[name].tobytes() for name in wanted]
            assert kernel.faults.not_met() == []
    assert errors or kind == "missing-interrupt"  # of the last task alone: it wrote its result


@pytest.mark.parametrize("model", ["residual", "softmax", "conv", "nearest", "bilinear", "transpose"])
def test_a_last_task_that_ends_without_a_result_is_an_error(
    kernel: MainlineKernel, monkeypatch: Any, model: str
) -> None:
    """The NPU reports its end after a DMA error, and the driver takes that for success."""
    monkeypatch.setattr("openrknn.device.proof.secrets.token_bytes", lambda size: b"\x5a" * size)  # no result is that
    path = next(path for path in MODELS if path.stem.startswith(model))
    wanted, _ = run(kernel, path)
    tasks = sum(tasks for tasks, _, _ in kernel.jobs)
    errors = 0
    for start in range(max(tasks - 2, 1), tasks + 1):  # two of them may repeat the last one
        kernel.faults = Faults([parse_fault(f"dma-write-error:ends=yes,start={start}", 1)])
        try:
            found, _ = run(kernel, path)
        except DeviceError as error:
            errors += 1
            assert re.search("dropped a job|did not write its result", str(error))  # noqa: PT017
        else:
            assert found == wanted or start < tasks
        assert kernel.faults.not_met() == []
    assert errors
