"""What the tests of programs that behave badly share."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openrknn.board import streams
from openrknn.fakekernel.device import Device
from openrknn.uapi import rknpu
from openrknn.uapi.rknpu import MemoryFlag
from tests.fakekernel.board import CACHED, Product, allocate, prepare, product, rocket_allocate, rocket_submit, task
from tests.fakekernel.client import Client, File
from tests.fakekernel.waiting import wait_until


def own_descriptors() -> list[str]:
    """What this process has open: where the server is, buffers, sockets and pipes show."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the one that lists
            continue
    return sorted(links)


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """No descriptor, thread or process more than before."""
    before, threads = len(own_descriptors()), threading.active_count()
    yield
    wait_until(lambda: threading.active_count() <= threads)
    gc.collect()  # maps of the tests themselves, in the tracebacks of errors that they expected
    assert len(own_descriptors()) <= before, own_descriptors()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    engines = [pid for pid in children if b"fakekernel.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert engines == []


def is_well(device: Device, **changes: int) -> bool:
    """Another program can still use the device."""
    with Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        job = product(npu, 7)
        job.submit(**changes)
        npu.close()
        return job.result == job.wanted


def rocket_product(accel: File) -> Callable[..., None]:
    """A product of the mainline driver: runs it, in one job of so many bytes a task, and looks at the result."""
    a, b, c, commands = (rocket_allocate(accel, 4096) for _ in range(4))
    left, right, wanted = streams.operands(5)
    a.write(left)
    b.write(right)
    body = streams.product_body(a.address, b.address, c.address)
    commands.write(streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK)))

    def run(times: int = 1, gap: int = 0) -> None:
        c.write(bytes(len(wanted)))
        rocket_submit(accel, [(commands.address, len(body) + 4)] * times, [a.handle, b.handle], [c.handle], gap=gap)
        prepare(accel, c.handle, 300)
        assert c.read(len(wanted)) == wanted

    return run


def make_long(job: Product, tasks: int) -> None:
    """The same task again and again, linked to itself: it takes seconds."""
    body = streams.product_body(job.a.address, job.b.address, job.c.address)
    end = streams.tail(streams.PRODUCT_MASK, job.commands.address, (job.amount + 5) // 2 - 1)
    job.commands.write(streams.to_bytes(body + end))
    job.tasks.write(task(job.commands.address, job.amount) * tasks)


def long_job(device: Device, client: Client, tasks: int) -> Product:
    npu = client.open("/dev/dri/card1")
    job = product(npu)
    large = allocate(npu, tasks * rknpu.TASK.size, CACHED | MemoryFlag.KERNEL_MAPPING)
    job.tasks = large
    make_long(job, tasks)
    return job
