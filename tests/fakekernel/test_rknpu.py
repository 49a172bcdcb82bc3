"""The vendor's driver: questions, memory, jobs, and every refusal with its errno."""

from __future__ import annotations

import errno
import mmap
import os
import select
from pathlib import Path

import pytest

from openrknn.board import streams
from openrknn.chips import TaskList, chip_named
from openrknn.fakekernel.device import Device
from openrknn.uapi import dmabuf, drm, rknpu
from openrknn.uapi.ioctl import Ioctl
from openrknn.uapi.rknpu import Action, JobFlag, MemoryFlag
from tests.fakekernel.board import CACHED, allocate, product, task
from tests.fakekernel.client import Client, File, RefusedError, refused
from tests.npu.chip_models import GOLDENS, place

UNKNOWN = 12345


def test_who_it_is(npu: File) -> None:
    answer = npu.ioctl(drm.VERSION, name_len=3, date_len=100, desc_len=100)
    assert answer.texts == [b"rkn", b"20240828", b"RKNPU driver"]  # as much of the name as there is room for
    values = answer.values
    assert (values["version_major"], values["version_minor"], values["version_patchlevel"]) == (0, 9, 8)
    assert (values["name_len"], values["date_len"], values["desc_len"]) == (5, 8, 12)
    assert npu.ioctl(drm.GET_UNIQUE, unique_len=100).texts == [b"fdab0000.npu"]


def test_capabilities(npu: File) -> None:
    assert npu.ioctl(drm.GET_CAP, capability=drm.CAP_PRIME).values["value"] == 3
    for other in (drm.CAP_DUMB_BUFFER, 8, 0x999):  # a driver without a display is asked for four, and for no others
        with refused(errno.EOPNOTSUPP):
            npu.ioctl(drm.GET_CAP, capability=other)


@pytest.mark.parametrize(
    ("action", "value"),
    [
        (Action.GET_HW_VERSION, 0x46495245),
        (Action.GET_DRV_VERSION, 908),
        (Action.GET_FREQ, 1_000_000_000),
        (Action.GET_VOLT, 800_000),
        (Action.GET_IOMMU_EN, 1),
        (Action.GET_TOTAL_SRAM_SIZE, 0),
        (Action.GET_IOMMU_DOMAIN_ID, 0),
        (Action.GET_TOTAL_RW_AMOUNT, 77),  # no counters: left as it was
    ],
)
def test_answers(npu: File, action: Action, value: int) -> None:
    assert npu.ioctl(rknpu.ACTION, flags=action, value=77).values["value"] == value


def test_every_action_is_answered_or_refused(npu: File) -> None:
    refusals = set()
    for action in Action:
        try:
            npu.ioctl(rknpu.ACTION, flags=action)
        except RefusedError as error:
            refusals.add((action, error.errno))
    # Not implemented in 0.9.8, or only where there is a priority register.
    assert {code for _, code in refusals} == {errno.EINVAL}
    assert {action for action, _ in refusals} == {
        Action.SET_FREQ, Action.SET_VOLT, Action.POWER_ON, Action.POWER_OFF, Action.GET_BW_PRIORITY,
        Action.SET_BW_PRIORITY, Action.GET_BW_EXPECT, Action.SET_BW_EXPECT, Action.GET_BW_TW, Action.SET_BW_TW,
    }  # fmt: skip


def test_memory_is_zeroed_page_aligned_and_high(npu: File) -> None:
    made = npu.ioctl(rknpu.MEM_CREATE, flags=CACHED, size=5000).values
    assert (made["handle"], made["size"]) == (1, 8192)
    assert made["dma_addr"] % 8192 == 0
    assert made["dma_addr"] > 0xF000_0000
    assert made["obj_addr"] >> 32 == 0xFFFFFF80
    again = npu.ioctl(rknpu.MEM_CREATE, handle=1, flags=0, size=1).values  # a known handle is only described
    assert (again["dma_addr"], again["size"]) == (made["dma_addr"], 8192)
    memory = allocate(npu, 4096)
    assert memory.read(4096) == bytes(4096)
    assert memory.handle == 2


def test_handles_are_used_again_lowest_first(npu: File) -> None:
    first = [npu.ioctl(rknpu.MEM_CREATE, size=4096).values["handle"] for _ in range(4)]
    npu.ioctl(rknpu.MEM_DESTROY, handle=first[2])
    npu.ioctl(drm.GEM_CLOSE, handle=first[1])
    assert npu.ioctl(rknpu.MEM_CREATE, size=4096).values["handle"] == first[1]
    assert npu.ioctl(rknpu.MEM_CREATE, size=4096).values["handle"] == first[2]


@pytest.mark.parametrize(
    ("ioctl", "values", "code"),
    [
        (rknpu.MEM_CREATE, {"size": 0}, errno.EINVAL),
        (rknpu.MEM_CREATE, {"size": 1 << 40}, errno.ENOMEM),
        (rknpu.MEM_CREATE, {"size": 4096, "iommu_domain_id": 16}, errno.EINVAL),
        (rknpu.MEM_CREATE, {"size": 4096, "iommu_domain_id": -1}, errno.EINVAL),
        (rknpu.MEM_MAP, {"handle": UNKNOWN}, errno.ENOENT),
        (rknpu.MEM_DESTROY, {"handle": UNKNOWN}, errno.EINVAL),
        (rknpu.MEM_SYNC, {"obj_addr": UNKNOWN}, errno.EINVAL),
        (drm.GEM_CLOSE, {"handle": UNKNOWN}, errno.EINVAL),
        (drm.GEM_FLINK, {"handle": UNKNOWN}, errno.ENOENT),
        (drm.GEM_OPEN, {"name": UNKNOWN}, errno.ENOENT),
        (drm.PRIME_HANDLE_TO_FD, {"handle": UNKNOWN}, errno.ENOENT),
        (drm.PRIME_HANDLE_TO_FD, {"handle": UNKNOWN, "flags": 1 << 20}, errno.EINVAL),
        (drm.PRIME_FD_TO_HANDLE, {"fd": -1}, errno.EBADF),
        (rknpu.SUBMIT, {"flags": 1, "task_number": 0}, errno.EINVAL),
        (rknpu.SUBMIT, {"flags": 1, "task_number": 1, "core_mask": 8}, errno.EINVAL),
        (rknpu.SUBMIT, {"flags": 1, "task_number": 1, "task_obj_addr": 0}, errno.EINVAL),
    ],
)
def test_refusals(npu: File, ioctl: Ioctl, values: dict[str, int], code: int) -> None:
    with refused(code):
        npu.ioctl(ioctl, **values)


def test_an_unknown_ioctl_is_refused(npu: File) -> None:
    with refused(errno.EINVAL):
        npu.send(rknpu.ACTION, {}, request=0xC008647F)


def test_sync_needs_cacheable_memory(npu: File) -> None:
    npu.ioctl(rknpu.MEM_SYNC, obj_addr=allocate(npu, 4096).object, flags=3)
    with refused(errno.EINVAL):
        npu.ioctl(rknpu.MEM_SYNC, obj_addr=allocate(npu, 4096, MemoryFlag.WRITE_COMBINE).object, flags=3)


def test_mapping_wants_the_right_offset_length_and_file(board: Device, npu: File) -> None:
    made = npu.ioctl(rknpu.MEM_CREATE, size=8192).values
    offset = npu.ioctl(rknpu.MEM_MAP, handle=made["handle"]).values["offset"]
    assert len(npu.map(offset, 4096)) == 4096
    for wrong, size, code in ((offset + 4096, 4096, errno.EINVAL), (offset, 12288, errno.EINVAL)):
        with pytest.raises(OSError, match=os.strerror(code)):
            npu.map(wrong, size)
    with Client(board.folder) as client:
        other = client.open("/dev/dri/renderD129")
        with pytest.raises(PermissionError):
            other.map(offset, 4096)
        other.close()


def test_older_programs_pass_shorter_arguments(npu: File) -> None:
    old = rknpu.mem_create_for((0, 8, 8))
    values = npu.ioctl(old, size=4096, flags=CACHED).values
    assert values["dma_addr"]
    assert old.argument.size == 40


def test_names_cross_files_on_primary_nodes_only(board: Device, npu: File) -> None:
    memory = allocate(npu, 4096)
    memory.write(b"hello")
    name = npu.ioctl(drm.GEM_FLINK, handle=memory.handle).values["name"]
    assert npu.ioctl(drm.GEM_FLINK, handle=memory.handle).values["name"] == name
    with Client(board.folder) as client:
        primary, render = client.open("/dev/dri/card1"), client.open("/dev/dri/renderD129")
        opened = primary.ioctl(drm.GEM_OPEN, name=name).values
        assert opened["size"] == 4096
        offset = primary.ioctl(rknpu.MEM_MAP, handle=opened["handle"]).values["offset"]
        npu.ioctl(rknpu.MEM_DESTROY, handle=memory.handle)  # the other file keeps it
        assert primary.map(offset, 4096)[:5] == b"hello"
        for ioctl in (drm.GEM_FLINK, drm.GEM_OPEN, drm.SET_CLIENT_CAP):
            with refused(errno.EACCES):
                render.ioctl(ioctl)
        primary.close()
        render.close()


def test_dma_bufs_go_out_and_come_back(board: Device, npu: File) -> None:
    memory = allocate(npu, 8192)
    memory.write(b"shared")
    exported = npu.ioctl(drm.PRIME_HANDLE_TO_FD, handle=memory.handle, flags=drm.CLOEXEC | drm.RDWR)
    assert os.pread(exported.descriptor, 6, 0) == b"shared"
    assert os.fstat(exported.descriptor).st_size == 8192
    with pytest.raises(PermissionError):
        os.ftruncate(exported.descriptor, 0)  # it would crash who computes
    again = npu.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=exported.descriptor).values
    assert again["handle"] == memory.handle
    with Client(board.folder) as client:
        other = client.open("/dev/dri/renderD129")
        handle = other.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=exported.descriptor).values["handle"]
        described = other.ioctl(rknpu.MEM_CREATE, handle=handle).values
        assert described["dma_addr"] == memory.address  # one buffer, one address
        other.close()
    os.close(exported.descriptor)


def test_foreign_memory_can_be_imported(npu: File) -> None:
    foreign = os.memfd_create("camera", os.MFD_ALLOW_SEALING)  # as a dma-buf, it keeps its size from now on
    os.ftruncate(foreign, 12288)
    handle = npu.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=foreign).values["handle"]
    described = npu.ioctl(rknpu.MEM_CREATE, handle=handle).values
    assert described["size"] == 12288
    assert described["dma_addr"]
    with refused(errno.EINVAL):  # mapped through its own descriptor
        npu.ioctl(rknpu.MEM_MAP, handle=handle)
    os.close(foreign)


def test_what_is_no_memory_cannot_be_imported(npu: File, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    for descriptor in (os.open(tmp_path / "small", os.O_RDWR), os.open(tmp_path, os.O_RDONLY), *os.pipe()):
        with refused(errno.EINVAL):
            npu.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=descriptor)
        os.close(descriptor)


# ---------------------------------------------------------------------------------------------------------- jobs


def test_a_job_computes(npu: File) -> None:
    job = product(npu)
    answer = job.submit().values
    assert job.result == job.wanted
    assert answer["task_counter"] == 1
    assert answer["hw_elapse_time"] > 0
    assert job.status == 0x100


@pytest.mark.parametrize(("mask", "entry"), [(0, 0), (1, 0), (2, 1), (4, 2)])
def test_one_core_takes_its_own_range(npu: File, mask: int, entry: int) -> None:
    job = product(npu)
    ranges = {"subcore1": 0} | {f"subcore{2 * number + 1}": 1 for number in ((0, 1, 2) if mask == 0 else (entry,))}
    job.submit(core_mask=mask, **ranges)
    assert job.result == job.wanted


def test_a_core_without_tasks_never_reports(npu: File) -> None:
    job = product(npu)
    with refused(errno.ETIMEDOUT):
        job.submit(core_mask=2)  # the range of core 1 is empty
    with refused(errno.ETIMEDOUT):
        job.submit(subcore1=1000)  # more tasks than the buffer holds


@pytest.mark.parametrize("mask", [5, 6])
def test_core_masks_that_never_start(npu: File, mask: int) -> None:
    with refused(errno.EINVAL):
        product(npu).submit(core_mask=mask, subcore3=1, subcore5=1)


@pytest.mark.parametrize(("mask", "entries"), [(3, (0, 1)), (7, (2, 3, 4))])
def test_several_cores_share_a_job(npu: File, mask: int, entries: tuple[int, ...]) -> None:
    """Each core has a task of its own; three cores take the ranges 2 to 4."""
    job = product(npu, 1)
    others = [product(npu, 2 + number) for number in range(len(entries) - 1)]
    tasks = [job, *others]
    job.tasks.write(b"".join(task(one.commands.address, one.amount) for one in tasks))
    ranges = {"subcore1": 0}
    for number, entry in enumerate(entries):
        ranges |= {f"subcore{2 * entry}": number, f"subcore{2 * entry + 1}": 1}
    answer = job.submit(core_mask=mask, task_number=len(tasks), **ranges).values
    assert [one.result for one in tasks] == [one.wanted for one in tasks]
    assert answer["task_counter"] == len(tasks)


def test_the_commands_lead_from_task_to_task(npu: File) -> None:
    """The second descriptor is not looked at: the hardware follows the link at the end of the first task."""
    first, second = product(npu, 1), product(npu, 2)
    body = streams.product_body(first.a.address, first.b.address, first.c.address)
    end = streams.tail(streams.PRODUCT_MASK, second.commands.address, (second.amount + 5) // 2 - 1)
    first.commands.write(streams.to_bytes(body + end))
    first.tasks.write(task(first.commands.address, first.amount) + task(0xDEAD0000, 1))
    first.submit(task_number=2, subcore1=2)
    assert (first.result, second.result) == (first.wanted, second.wanted)


def test_a_chain_that_ends_early_times_out(npu: File, caplog: pytest.LogCaptureFixture) -> None:
    job = product(npu)
    job.tasks.write(task(job.commands.address, job.amount) * 2)
    with refused(errno.ETIMEDOUT):
        job.submit(task_number=2, subcore1=2)
    assert "do not lead to a next task" in caplog.text


def test_the_wrong_interrupt_times_out(npu: File) -> None:
    job = product(npu)
    job.tasks.write(task(job.commands.address, job.amount, mask=0xC00))  # waits for the PPU
    with refused(errno.ETIMEDOUT):
        job.submit()
    job.tasks.write(task(job.commands.address, job.amount, mask=0x300))
    job.submit()
    assert job.status == 0x100


def test_pooling_reports_through_the_ppu(npu: File) -> None:
    source, target, commands = allocate(npu, 4096), allocate(npu, 4096), allocate(npu, 4096)
    tasks = allocate(npu, 4096, CACHED | MemoryFlag.KERNEL_MAPPING)
    source.write(bytes([8]) * 1024)
    body = streams.pool_body(source.address, target.address)
    commands.write(streams.to_bytes(body + streams.tail(streams.POOL_MASK)))
    tasks.write(task(commands.address, len(body), mask=0xC00))
    npu.ioctl(
        rknpu.SUBMIT, flags=5, timeout=6000, task_number=1, task_obj_addr=tasks.object, core_mask=1, subcore1=1
    )
    assert target.read(256) == bytes([8]) * 256
    assert int.from_bytes(tasks.map[20:24], "little") == 0x400


def test_tasks_need_a_kernel_mapping_and_the_pc(npu: File) -> None:
    job = product(npu)
    with refused(errno.EINVAL):
        job.submit(task_obj_addr=job.a.object)
    with refused(errno.EINVAL):
        job.submit(flags=JobFlag.PINGPONG)


def test_memory_of_another_domain_is_not_seen(npu: File) -> None:
    job = product(npu)
    with refused(errno.ETIMEDOUT):
        job.submit(iommu_domain_id=3)
    made = npu.ioctl(rknpu.MEM_CREATE, size=4096, iommu_domain_id=3).values
    assert made["dma_addr"] == 0xFFFFF000  # an address space of its own
    assert npu.ioctl(rknpu.ACTION, flags=Action.GET_IOMMU_DOMAIN_ID).values["value"] == 3  # it stays switched on


# -------------------------------------------------------------------------------------------------------- fences


def readable(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def test_a_job_can_be_waited_for_by_its_fence(board: Device, npu: File) -> None:
    job = product(npu)
    fence = job.submit(flags=JobFlag.PC | JobFlag.PINGPONG | JobFlag.NONBLOCK | JobFlag.FENCE_OUT).descriptor
    assert readable(fence, 300)
    assert job.result == job.wanted
    file = File(npu.client, fence, 0)
    info = file.ioctl(dmabuf.FENCE_INFO, num_fences=1)
    assert (info.values["status"], info.values["num_fences"]) == (1, 1)
    assert info.texts[0][32:37] == b"rknpu"
    merged = file.ioctl(dmabuf.FENCE_MERGE, descriptor=fence).descriptor
    assert readable(merged, 300)
    os.close(merged)
    os.close(fence)


def test_a_failed_job_signals_its_fence_with_the_error(npu: File) -> None:
    job = product(npu)
    job.commands.write(streams.to_bytes(streams.product_body(0x1000, 0x1000, 0x1000)))
    fence = job.submit(flags=JobFlag.PC | JobFlag.NONBLOCK | JobFlag.FENCE_OUT).descriptor
    assert readable(fence, 300)
    file = File(npu.client, fence, 0)
    assert file.ioctl(dmabuf.FENCE_INFO).values["status"] == -errno.ETIMEDOUT
    os.close(fence)


def test_a_job_waits_for_a_fence(npu: File) -> None:
    job = product(npu)
    reading, writing = os.pipe()
    with refused(errno.ETIMEDOUT):
        job.submit(flags=JobFlag.PC | JobFlag.FENCE_IN, timeout=50, descriptor=reading)
    os.write(writing, b"x")
    values = job.submit(flags=JobFlag.PC | JobFlag.FENCE_IN, descriptor=reading).values
    assert values["fence_fd"] == -1
    assert job.result == job.wanted
    with refused(errno.EINVAL):
        job.submit(flags=JobFlag.PC | JobFlag.FENCE_IN)
    os.close(reading)
    os.close(writing)


def test_addresses_that_count_from_a_base(npu: File) -> None:
    """What PC.TASK_DMA_BASE_ADDR is for: images that are linked at 0, as those of RV1103 and RV1106 are."""
    job = product(npu)
    job.submit(task_base_addr=job.count_from_base())
    assert job.result == job.wanted
    job.c.write(bytes(len(job.wanted)))
    with refused(errno.ETIMEDOUT):
        job.submit()


# --------------------------------------------------------------------------------------------- the other flavour


def test_the_character_device_of_rv1106() -> None:
    """/dev/rknpu: no DRM, a handle is a descriptor, memory comes from dma-heaps too."""
    assert chip_named("rv1106").driver_nodes == ("/dev/rknpu",)
    create, destroy = rknpu.MISC_MEM_CREATE, rknpu.MISC_IOCTLS[4]
    with Device("rv1106") as device, Client(device.folder) as client:
        npu, heap = client.open("/dev/rknpu"), client.open("/dev/dma_heap/cma")
        assert npu.ioctl(rknpu.MISC_IOCTLS[0], flags=Action.GET_DRV_VERSION).values["value"] == 908
        made = npu.ioctl(create, size=5000)
        assert os.fstat(made.descriptor).st_size == 8192
        given = heap.ioctl(dmabuf.HEAP_ALLOC, len=4096, fd_flags=os.O_RDWR | os.O_CLOEXEC).descriptor
        taken = npu.ioctl(create, descriptor=given, handle=given, size=4096).values
        assert taken["dma_addr"] != made.values["dma_addr"]
        for values, code in (({"size": 4096, "flags": 1}, errno.EINVAL), ({"size": 0}, errno.EINVAL)):
            with refused(code):
                npu.ioctl(create, **values)
        with refused(errno.EINVAL):
            npu.ioctl(rknpu.MISC_IOCTLS[3], handle=1)
        assert device.status.buffers == 2
        npu.ioctl(destroy, obj_addr=made.values["obj_addr"])
        assert device.status.buffers == 1
        with pytest.raises(OSError, match="No such device"):
            npu.map(0, 4096)
        for descriptor in (made.descriptor, given, npu.descriptor, heap.descriptor):
            os.close(descriptor)


@pytest.mark.parametrize("chip", ["rv1103", "rv1106", "rv1103b", "rv1106b"])
def test_an_image_that_is_linked_at_zero_runs_where_it_was_loaded(chip: str) -> None:
    """The whole file as one piece of memory, not relocated: the base does it."""
    placed = place(GOLDENS / f"residual_{chip}_i8.rknn")
    (image,) = placed.memory
    before = image.data.tobytes()
    placed.program().run()
    entries = [placed.graph.tasks[number] for number in placed.graph.task_lists[TaskList(1, 0)]]
    create, submit = rknpu.MISC_MEM_CREATE, rknpu.MISC_IOCTLS[1]
    with Device(chip) as device, Client(device.folder) as client:
        npu = client.open("/dev/rknpu")
        assert npu.ioctl(rknpu.MISC_IOCTLS[0], flags=Action.GET_IOMMU_EN).values["value"] == 0
        memory = npu.ioctl(create, size=len(before))
        base = memory.values["dma_addr"]
        records = b"".join(
            task(base + entry.address, entry.amount, entry.int_mask, entry.op_index) for entry in entries
        )
        tasks = npu.ioctl(create, size=len(records), flags=MemoryFlag.KERNEL_MAPPING)
        with mmap.mmap(memory.descriptor, len(before)) as data, mmap.mmap(tasks.descriptor, len(records)) as listed:
            data[:], listed[:] = before, records
            npu.ioctl(
                submit, flags=JobFlag.PC | JobFlag.PINGPONG, timeout=6000, task_number=len(entries),
                task_obj_addr=tasks.values["obj_addr"], task_base_addr=base, fence_fd=-1,
            )  # fmt: skip
            assert data[:] == image.data.tobytes()
        for descriptor in (memory.descriptor, tasks.descriptor, npu.descriptor):
            os.close(descriptor)
