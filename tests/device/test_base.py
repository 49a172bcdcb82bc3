"""The base of all devices: its hooks run under the lock, and memory stays while a job uses it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.device import Job, SoftwareDevice
from openrknn.device.base import BaseDevice, Work
from openrknn.device.protocol import Bytes
from openrknn.device.rknpu import RknpuDevice
from openrknn.device.rocket import RocketDevice
from openrknn.errors import DeviceError

PATIENCE = 20
NOTHING = Job((), ((),))


@dataclass(eq=False)
class Plain:
    name: str
    address: int = 0
    array: Bytes = field(default_factory=lambda: np.zeros(1, np.uint8))


class Careless(BaseDevice[Plain]):
    """Fills in the hooks and thinks of nothing else."""

    def __init__(self) -> None:
        super().__init__(CHIPS["rk3588"])
        self.seen: list[tuple[str, bool]] = []
        self.started, self.go_on = threading.Event(), threading.Event()

    @property
    def name(self) -> str:
        return "careless"

    def note(self, what: str) -> None:
        self.seen.append((what, self._lock._is_owned()))  # type: ignore[attr-defined]

    def _allocate(self, size_bytes: int, name: str) -> Plain:
        self.note(f"allocate {name} {size_bytes}")
        return Plain(name)

    def _release(self, buffer: Plain) -> None:
        self.note(f"release {buffer.name}")

    def _prepare(self, job: Job) -> Work[Plain]:
        self.note("prepare")
        return Work(self._wait, (Plain("tasks"),))

    def _shut_down(self) -> None:
        self.note("shut down")

    def _wait(self, buffers: object) -> None:
        self.note("run")
        self.started.set()
        assert self.go_on.wait(PATIENCE)


def names(device: Careless) -> list[str]:
    return [what for what, _ in device.seen]


def test_hooks_are_called_under_the_lock_and_jobs_are_not() -> None:
    device = Careless()
    device.go_on.set()
    with device:
        device.free(device.allocate(5000, "a"))
        device.allocate(1, "b")
        device.prepare(NOTHING).run()
    assert device.seen == [
        ("allocate a 8192", True), ("release a", True), ("allocate b 4096", True), ("prepare", True), ("run", False),
        ("release tasks", True), ("release b", True), ("shut down", True),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["allocate", "free", "prepare", "close", "__exit__"])
def test_no_driver_can_go_past_the_lock(name: str) -> None:
    with pytest.raises(TypeError, match=f"defines {name}; drivers fill in hooks"):
        type("Hasty", (Careless,), {name: lambda self: None})


def test_every_device_is_built_on_the_base() -> None:
    assert all(issubclass(kind, BaseDevice) for kind in (SoftwareDevice, RknpuDevice, RocketDevice))


def test_what_a_job_uses_goes_when_the_job_is_done() -> None:
    device = Careless()
    mine, other = device.allocate(1, "mine"), device.allocate(1, "other")
    prepared = device.prepare(Job((), ((),), buffers=(mine,)))
    thread = threading.Thread(target=prepared.run)
    thread.start()
    assert device.started.wait(PATIENCE)
    for buffer in (mine, other):
        device.free(buffer)
    prepared.close()
    assert names(device)[-1] == "release other"
    device.go_on.set()
    thread.join()
    assert sorted(names(device)[-2:]) == ["release mine", "release tasks"]
    with pytest.raises(DeviceError, match="this job of careless was closed"):
        prepared.run()


def test_a_job_without_its_memory_does_not_start() -> None:
    with Careless() as device:
        mine = device.allocate(1, "mine")
        prepared = device.prepare(Job((), ((),), buffers=(mine,)))
        device.free(mine)
        with pytest.raises(DeviceError, match="'mine', which a job of careless uses, was freed"):
            prepared.run()
        with pytest.raises(ValueError, match="'mine' is not memory of careless"):
            device.prepare(Job((), ((),), buffers=(mine,)))


def test_closing_waits_for_jobs_of_other_threads() -> None:
    device = Careless()
    prepared = device.prepare(NOTHING)
    runner = threading.Thread(target=prepared.run)
    runner.start()
    assert device.started.wait(PATIENCE)
    closer = threading.Thread(target=device.close)
    closer.start()
    assert "shut down" not in names(device)
    device.go_on.set()
    for thread in (runner, closer):
        thread.join(PATIENCE)
    assert names(device)[-2:] == ["release tasks", "shut down"]
    with pytest.raises(DeviceError, match="careless is closed"):
        prepared.run()


class Failing(Careless):
    def _release(self, buffer: Plain) -> None:
        super()._release(buffer)
        raise DeviceError(f"{buffer.name} does not go")


def test_an_error_while_closing_leaves_nothing_open() -> None:
    device = Failing()
    for name in "ab":
        device.allocate(1, name)
    with pytest.raises(DeviceError, match="does not go"):
        device.close()
    assert names(device)[-3:] == ["release b", "release a", "shut down"]
    device.close()


def in_child(work: object) -> int:
    """The exit status of a forked process that does this."""
    process = os.fork()
    if process == 0:
        code = 3
        try:
            code = work()  # type: ignore[operator]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_forked_process_leaves_the_memory_of_its_parent_alone() -> None:
    device = Careless()
    buffer = device.allocate(1, "a")

    def child() -> int:
        with pytest.raises(DeviceError, match="was forked from it; open the device again here"):
            device.allocate(1, "b")
        device.free(buffer)
        device.close()
        return 0 if names(device)[1:] == ["shut down"] else 1

    assert in_child(child) == 0
    device.close()


def test_a_fork_while_others_work_leaves_no_lock_behind() -> None:
    """Threads allocate and run all the time; each child can use its copy of the software NPU."""
    device, over = SoftwareDevice(CHIPS["rk3588"]), threading.Event()

    def work() -> None:
        while not over.is_set():
            device.free(device.allocate(4096, "room"))
            prepared = device.prepare(NOTHING)
            prepared.run()
            prepared.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()

    def child() -> int:
        device.free(device.allocate(4096, "mine"))
        device.close()
        return 0

    try:
        assert [in_child(child) for _ in range(10)] == [0] * 10
    finally:
        over.set()
        for thread in threads:
            thread.join()
    device.close()
