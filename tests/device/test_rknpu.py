"""The vendor's driver reports success for jobs whose results did not reach memory: openrknn does not.

A kernel in this process stands in for the real one.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.container.parts import TASK, Task
from openrknn.device.rknpu import RknpuDevice
from openrknn.errors import DeviceError, UnsupportedError
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.runtime.session import Session
from openrknn.uapi import drm, rknpu
from openrknn.uapi.rknpu import Action
from tests.container.places import GOLDENS

MODELS = [path for path in GOLDENS if path.with_suffix(".npz").exists() and path.stem.split("_")[-2] in CHIPS]
UNKNOWN = {"nearest_rk3588_i8"}
"""Of their results only one byte is known to be written: that is too little for a mark."""
SOME = [path for path in MODELS if path.stem in {"residual_rk3588_i8", "conv_rk3588_i8", "softmax_rk3588_fp"}]


class VendorKernel:
    """`works`: whether jobs do anything. `stops`: the core that leaves out its last task."""

    def __init__(self, chip: str) -> None:
        self.chip = CHIPS[chip]
        self.works = True
        self.stops: int | None = None
        self.jobs = 0
        self.version = 908
        self.domains: list[int] = []
        """Of memory and jobs, in order."""
        self.is_full = False
        self._memory = Memory()
        self._buffers: list[Buffer] = []

    def open(self, path: str) -> int:
        return 5

    def close(self, descriptor: int) -> None:
        pass

    def nodes(self, folder: str) -> Iterator[str]:
        yield "/dev/dri/card0"

    def map(self, descriptor: int, size_bytes: int, offset: int) -> Any:
        return self._buffers[offset].data

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> None:
        for ioctl in (*rknpu.DRM_IOCTLS, drm.VERSION):
            if ioctl.request == request:
                values = ioctl.argument.unpack(argument)
                getattr(self, f"_{ioctl.name.lower()}")(values)
                argument[:] = ioctl.argument.pack(values)
                return
        raise OSError(errno.ENOTTY, "unknown")

    def _version(self, values: dict[str, int]) -> None:
        ctypes.memmove(values["name"], b"rknpu\0", 6)

    def _action(self, values: dict[str, int]) -> None:
        answers = {Action.GET_HW_VERSION: self.chip.hw_version or 0, Action.GET_IOMMU_DOMAIN_ID: 0}
        values["value"] = answers.get(Action(values["flags"]), self.version)

    def _mem_create(self, values: dict[str, int]) -> None:
        if self.is_full:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        self.domains.append(values["iommu_domain_id"])
        address = self._buffers[-1].end if self._buffers else 0x1000
        self._buffers.append(self._memory.add(Buffer(address, np.zeros(values["size"], np.uint8))))
        values["handle"] = values["obj_addr"] = len(self._buffers)
        values["dma_addr"] = address

    def _mem_map(self, values: dict[str, int]) -> None:
        values["offset"] = values["handle"] - 1

    def _mem_destroy(self, values: dict[str, int]) -> None:
        pass

    _mem_sync = _mem_destroy

    def _submit(self, values: dict[str, int]) -> None:
        self.jobs += 1
        self.domains.append(values["iommu_domain_id"])
        raw = self._buffers[values["task_obj_addr"] - 1].data.tobytes()
        tasks = [Task(*TASK.unpack_from(raw, number * TASK.size)) for number in range(values["task_number"])]
        pairs = [(values[f"subcore{at}"], values[f"subcore{at + 1}"]) for at in range(0, 2 * rknpu.MAX_RANGES, 2)]
        ranges = [range(first, first + count) for first, count in pairs if count] or [range(len(tasks))]
        lists = [[TaskRef(number, tasks[number].address, tasks[number].amount) for number in one] for one in ranges]
        left_out = None if self.stops is None or self.stops >= len(ranges) else ranges[self.stops][-1]
        for step in Machine(self.chip, self._memory).prepare(lists).steps:
            if self.works and step.task != left_out:
                step.run()


def run(kernel: VendorKernel, model: Any, cores: int = 1) -> tuple[Any, Any]:
    """On the driver and on the software NPU."""
    answers = np.load(model.with_suffix(".npz"))
    inputs = [answers[name] for name in sorted(answers) if name.startswith("x")]
    with Session(model, device="software") as session:
        wanted = session.run(inputs, outputs="raw")
    with (
        RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel) as device,
        Session(model, device=device, cores=cores) as session,
    ):
        found = session.run(inputs, outputs="raw")
    return [found[name].tobytes() for name in wanted], [wanted[name].tobytes() for name in wanted]


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_a_job_is_an_error_if_nothing_was_written_and_only_then(model: Any) -> None:
    kernel = VendorKernel(model.stem.split("_")[-2])
    found, wanted = run(kernel, model)
    assert found == wanted
    kernel.works = False
    if kernel.jobs and model.stem not in UNKNOWN:
        with pytest.raises(DeviceError, match="last results are not in memory"):
            run(kernel, model)


@pytest.mark.parametrize("model", SOME, ids=lambda path: path.stem)
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_a_last_task_whose_result_is_not_in_memory_is_an_error(model: Any, cores: int) -> None:
    kernel = VendorKernel("rk3588")
    found, wanted = run(kernel, model, cores)
    assert found == wanted
    errors = 0
    for kernel.stops in range(cores):
        try:
            assert run(kernel, model, cores)[0] == wanted  # some lists end with a task that writes nothing
        except DeviceError as error:
            errors += 1
            assert "last results are not in memory" in str(error)  # noqa: PT017
    assert errors == cores or "residual" not in model.stem


def test_a_job_of_very_many_tasks_has_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding it would take too long."""
    monkeypatch.setattr("openrknn.device.rknpu._MOST_TASKS", 0)
    kernel = VendorKernel("rk3588")
    kernel.works = False
    run(kernel, SOME[0])
    assert kernel.jobs


@pytest.mark.parametrize("domain", [0, 15])
def test_memory_and_jobs_are_of_the_domain_of_the_device(domain: int) -> None:
    kernel, model = VendorKernel("rk3588"), SOME[0]
    answers = np.load(model.with_suffix(".npz"))
    with (
        RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel, domain=domain) as device,
        Session(model, device=device) as session,
    ):
        session.run([answers[name] for name in sorted(answers) if name.startswith("x")])
        assert ("domain 15" in device.name) == (domain == 15)
    assert kernel.jobs == 1
    assert set(kernel.domains) == {domain}


def test_domains_that_a_driver_does_not_have_are_refused() -> None:
    kernel = VendorKernel("rk3588")
    for wrong in (-1, 16):
        with pytest.raises(ValueError, match=f"no IOMMU domain {wrong}"):
            RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel, domain=wrong)
    kernel.version = 802
    with pytest.raises(UnsupportedError, match=r"no IOMMU domains: they need a driver of version 0\.9"):
        RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel, domain=1)
    RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel).close()


def test_a_kernel_that_ignores_domains_is_named_when_memory_runs_out() -> None:
    """It takes every number, and puts all memory into the domain that it has."""
    kernel = VendorKernel("rk3588")
    kernel.is_full = True
    for domain, is_explained in ((0, False), (1, True)):
        with (
            RknpuDevice(kernel.chip, "/dev/dri/card0", kernel=kernel, domain=domain) as device,
            pytest.raises(DeviceError, match="MEM_CREATE failed") as caught,
        ):
            device.allocate(4096, "weights")
        assert caught.value.errno == errno.ENOMEM
        assert ("takes IOMMU domains and ignores them" in str(caught.value)) == is_explained
