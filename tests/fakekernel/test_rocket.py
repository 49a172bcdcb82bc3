"""The mainline driver: its rules about structs, handles, waiting, and tasks that raise no interrupt it knows."""

from __future__ import annotations

import errno
import os
import signal
import time

import pytest

from openrknn.board import streams
from openrknn.fakekernel.device import Device
from openrknn.uapi import drm, rocket
from tests.fakekernel.board import Memory, prepare, rocket_allocate, rocket_submit
from tests.fakekernel.client import Client, File, block, refused
from tests.fakekernel.waiting import wait_until

Setup = tuple[list[Memory], list[tuple[int, int]], bytes]


def setup(accel: File, seed: int = 0) -> Setup:
    """A, B, C and the commands of a product; its one task; the right C."""
    memories = [rocket_allocate(accel, 4096) for _ in range(4)]
    a, b, c, commands = memories
    left, right, wanted = streams.operands(seed)
    a.write(left)
    b.write(right)
    stream = streams.product_body(a.address, b.address, c.address) + streams.tail(streams.PRODUCT_MASK)
    commands.write(streams.to_bytes(stream))
    return memories, [(commands.address, len(stream))], wanted


def run(accel: File, made: Setup, **changes: int) -> bytes:
    (a, b, c, commands), tasks, wanted = made
    rocket_submit(accel, tasks, [a.handle, b.handle, commands.handle], [c.handle], **changes)
    prepare(accel, c.handle)
    return c.read(len(wanted))


def test_who_it_is(accel: File) -> None:
    answer = accel.ioctl(drm.VERSION, name_len=100, desc_len=100)
    assert (answer.texts[0], answer.texts[2]) == (b"rocket", b"rocket DRM")


def test_addresses_are_per_file_and_lowest_first(rocket_board: Device, accel: File) -> None:
    first = [accel.ioctl(rocket.CREATE_BO, size=size).values["dma_address"] for size in (4096, 5000, 4096)]
    assert first == [0, 4096, 12288]
    with Client(rocket_board.folder) as client:
        other = client.open("/dev/accel/accel0")
        assert other.ioctl(rocket.CREATE_BO, size=4096).values["dma_address"] == 0
        other.close()


def test_a_job_computes(accel: File) -> None:
    made = setup(accel)
    assert run(accel, made) == made[2]


def test_each_task_is_a_run_of_its_own(accel: File) -> None:
    """Several tasks in a job; the links at the end of their commands are not followed."""
    first, second = setup(accel, 1), setup(accel, 2)
    both = first[1] + second[1]
    written = [first[0][2].handle, second[0][2].handle]
    rocket_submit(accel, both, [], written)
    for memories, _, wanted in (first, second):
        prepare(accel, memories[2].handle)
        assert memories[2].read(len(wanted)) == wanted


def test_newer_programs_pass_larger_structs(accel: File) -> None:
    (a, _, c, _), [(address, count)], wanted = setup(accel)
    job = rocket.JOB.pack({
        "tasks": 1, "in_bo_handles": 1, "out_bo_handles": 1, "task_count": 1, "task_struct_size": 16,
        "in_bo_handle_count": 1, "out_bo_handle_count": 1,
    }).ljust(48, b"\xff")  # fmt: skip
    task = rocket.TASK.pack({"regcmd": address, "regcmd_count": count}).ljust(16, b"\xff")
    handles = [block(memory.handle.to_bytes(4, "little")) for memory in (a, c)]
    blocks = block(job) + block(task) + handles[0] + handles[1]
    accel.send(rocket.SUBMIT, {"jobs": 1, "job_count": 1, "job_struct_size": 48}, blocks=blocks)
    prepare(accel, c.handle)
    assert c.read(len(wanted)) == wanted


def test_no_jobs_are_no_problem(accel: File) -> None:
    accel.ioctl(rocket.SUBMIT, job_count=0, reserved=5)


@pytest.mark.parametrize(
    "changes", [{"job_struct_size": rocket.JOB.size - 1}, {"reserved": 1}], ids=lambda changes: next(iter(changes))
)
def test_wrong_submits_are_refused(accel: File, changes: dict[str, int]) -> None:
    made = setup(accel)
    with refused(errno.EINVAL):
        rocket_submit(accel, made[1], [], [made[0][2].handle], **changes)


@pytest.mark.parametrize(
    "changes", [{"task_count": 0}, {"task_struct_size": 4}], ids=lambda changes: next(iter(changes))
)
def test_wrong_jobs_are_dropped_in_silence(accel: File, changes: dict[str, int]) -> None:
    """The ioctl returns 0 whatever becomes of single jobs."""
    made = setup(accel)
    assert run(accel, made, **changes) == bytes(len(made[2]))


@pytest.mark.parametrize("lists", [("abk", "ck"), ("aab", "c"), ("ab", "cc")], ids=["both", "inputs", "outputs"])
def test_a_buffer_that_is_named_twice_drops_the_job_in_silence(accel: File, lists: tuple[str, str]) -> None:
    """The kernel locks every buffer of a job, and none twice: SUBMIT and PREP_BO return 0, and nothing runs."""
    memories, tasks, wanted = setup(accel)
    handles = {name: memory.handle for name, memory in zip("abck", memories, strict=True)}
    read, written = ([handles[name] for name in names] for names in lists)
    rocket_submit(accel, tasks, read, written)
    prepare(accel, handles["c"])
    assert memories[2].read(len(wanted)) == bytes(len(wanted))
    assert run(accel, (memories, tasks, wanted)) == wanted


def test_a_job_that_takes_too_long_is_dropped_in_silence() -> None:
    """The core is reset after 500 ms, and PREP_BO returns 0."""
    with Device("rk3588", driver="rocket", time_scale=1) as device, Client(device.folder) as client:
        accel = client.open("/dev/accel/accel0")
        made = setup(accel)
        # The engine is ready after this. A job that is too late, as on a busy machine, would have it started anew, and
        # the time that it takes to start counts for no job.
        wait_until(lambda: run(accel, made) == made[2])
        made = setup(accel, 1)
        assert device.engine_process is not None
        os.kill(device.engine_process, signal.SIGSTOP)
        assert run(accel, made) == bytes(len(made[2]))
        accel.close()


def test_a_job_that_faults_keeps_its_core_until_its_time_is_over(accel: File) -> None:
    """The driver waits for an interrupt alone: PREP_BO returns 0 after 500 ms, and the next job runs."""
    made = setup(accel)
    (_, _, c, _), _, wanted = made
    assert run(accel, made) == wanted
    begun = time.monotonic()
    rocket_submit(accel, [(1 << 31, 44)], [], [c.handle])
    prepare(accel, c.handle)
    assert time.monotonic() - begun >= 0.45
    other = setup(accel, 1)
    assert run(accel, other) == other[2]


def test_a_task_without_commands_and_an_unknown_handle_drop_the_job(accel: File) -> None:
    (_, _, c, commands), tasks, wanted = setup(accel)
    rocket_submit(accel, [(commands.address, 0)], [], [c.handle])
    rocket_submit(accel, tasks, [12345], [c.handle])
    prepare(accel, c.handle)
    assert c.read(len(wanted)) == bytes(len(wanted))


def test_a_task_that_ends_in_the_ppu_is_lost(accel: File, caplog: pytest.LogCaptureFixture) -> None:
    """It works, but raises no interrupt that the driver waits for: what follows in the job never runs."""
    made = setup(accel)
    source, target, commands = (rocket_allocate(accel, 4096) for _ in range(3))
    source.write(bytes([8]) * 1024)
    pool = streams.pool_body(source.address, target.address) + streams.tail(streams.POOL_MASK)
    commands.write(streams.to_bytes(pool))
    c = made[0][2]
    rocket_submit(accel, [(commands.address, len(pool)), *made[1]], [], [c.handle, target.handle])
    prepare(accel, c.handle)
    assert c.read(len(made[2])) == bytes(len(made[2]))
    assert target.read(256) == bytes([8]) * 256
    assert "task 0 does not end in the DPU" in caplog.text
    assert run(accel, made) == made[2]  # the core was reset, the next job is well


def test_preparing(accel: File) -> None:
    handle = accel.ioctl(rocket.CREATE_BO, size=4096).values["handle"]
    accel.ioctl(rocket.PREP_BO, handle=handle, timeout_ns=0)  # nobody writes it
    accel.ioctl(rocket.FINI_BO, handle=handle)
    for ioctl in (rocket.PREP_BO, rocket.FINI_BO):
        with refused(errno.ENOENT):
            accel.ioctl(ioctl, handle=777)
        with refused(errno.EINVAL):
            accel.ioctl(ioctl, handle=handle, reserved=1)


def test_preparing_waits_until_its_deadline(rocket_board: Device) -> None:
    """While the engine stands still: the deadline is absolute, and 0 means at once."""
    with Device("rk3588", driver="rocket") as device, Client(device.folder) as client:
        accel = client.open("/dev/accel/accel0")
        made = setup(accel)
        c = made[0][2]
        assert device.engine_process is not None
        os.kill(device.engine_process, signal.SIGSTOP)
        rocket_submit(accel, made[1], [], [c.handle])
        with refused(errno.EBUSY):
            accel.ioctl(rocket.PREP_BO, handle=c.handle, timeout_ns=0)
        with refused(errno.ETIMEDOUT):
            prepare(accel, c.handle, 0.01)
        os.kill(device.engine_process, signal.SIGCONT)
        prepare(accel, c.handle)
        assert c.read(len(made[2])) == made[2]
        accel.close()


def test_own_buffers_come_back_foreign_memory_does_not(accel: File) -> None:
    handle = accel.ioctl(rocket.CREATE_BO, size=4096).values["handle"]
    exported = accel.ioctl(drm.PRIME_HANDLE_TO_FD, handle=handle).descriptor
    assert accel.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=exported).values["handle"] == handle
    foreign = os.memfd_create("foreign")
    os.ftruncate(foreign, 4096)
    with refused(errno.EINVAL):
        accel.ioctl(drm.PRIME_FD_TO_HANDLE, descriptor=foreign)
    os.close(foreign)
    os.close(exported)


def test_sizes(accel: File) -> None:
    with refused(errno.ENOSPC):  # as the mainline kernel answers
        accel.ioctl(rocket.CREATE_BO, size=0)
    large = 0xFFFFF000
    accel.ioctl(rocket.CREATE_BO, size=large)
    with refused(errno.ENOMEM):
        accel.ioctl(rocket.CREATE_BO, size=large)
