"""Programs whose memory and jobs are bad: no other program is affected, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openrknn.board import streams
from openrknn.fakekernel.device import Device
from openrknn.uapi import rknpu
from openrknn.uapi.rknpu import JobFlag
from tests.fakekernel.abuse import is_well, leaves_nothing, long_job, rocket_product
from tests.fakekernel.board import CACHED, Product, product, task
from tests.fakekernel.client import Client, RefusedError, refused
from tests.fakekernel.waiting import wait_until

MANY = 10_000
pytestmark = pytest.mark.usefixtures("leaves_nothing")

__all__ = ["leaves_nothing"]


def test_ten_thousand_buffers() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < MANY + 1000:
        pytest.skip(f"this system allows fewer than {MANY + 1000} open files (raise the hard limit of `ulimit -n`)")
    with Device("rk3588") as device:
        with Client(device.folder) as client:
            npu = client.open("/dev/dri/card1")
            made = [npu.ioctl(rknpu.MEM_CREATE, size=4096, flags=CACHED).values for _ in range(MANY)]
            assert len({values["dma_addr"] for values in made}) == MANY
            assert [values["handle"] for values in made] == list(range(1, MANY + 1))
            assert device.status.buffers == MANY
            job = product(npu)  # the NPU sees all of them
            job.submit()
            assert job.result == job.wanted
            npu.close()
        wait_until(lambda: device.status.buffers == 0)
        assert is_well(device)


def test_a_full_address_space() -> None:
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        quarter = npu.ioctl(rknpu.MEM_CREATE, size=1 << 30).values["handle"]
        for _ in range(2):
            npu.ioctl(rknpu.MEM_CREATE, size=1 << 30)
        with refused(errno.ENOMEM):
            npu.ioctl(rknpu.MEM_CREATE, size=1 << 30)
        npu.ioctl(rknpu.MEM_DESTROY, handle=quarter)
        npu.ioctl(rknpu.MEM_CREATE, size=1 << 30)
        npu.close()


def fault(job: Product, field: int) -> None:
    """One address of the product points nowhere."""
    addresses = [job.a.address, job.b.address, job.c.address]
    addresses[field] = 0x7000_0000
    job.commands.write(streams.to_bytes(streams.product_body(*addresses) + streams.tail(streams.PRODUCT_MASK)))


@pytest.mark.parametrize("field", [0, 1, 2], ids=["features", "weights", "result"])
def test_an_address_in_no_buffer_fails_that_job_only(field: int, caplog: pytest.LogCaptureFixture) -> None:
    with Device("rk3588") as device, Client(device.folder) as client, Client(device.folder) as other:
        npu, good = client.open("/dev/dri/card1"), other.open("/dev/dri/card1")
        bad, well = product(npu, 1), product(good, 2)
        fault(bad, field)
        for _ in range(3):
            with refused(errno.ETIMEDOUT):
                bad.submit()
            well.c.write(bytes(len(well.wanted)))
            well.submit()
            assert well.result == well.wanted
        assert "0x70000000" in caplog.text
        assert device.status.totals.failed == 3
        npu.close()
        good.close()


@pytest.mark.parametrize(
    "words",
    [
        [0xFFFF_FFFF_FFFF_FFFF] * 8,
        [0x0201_FFFF_FFFF_1020] * 8,  # undeclared bits
        [0x0201_0000_0001_1FFC],  # no such register
        [0x0041 << 48, 0x0081_0000_007F_0008],  # everything at once
    ],
)
def test_nonsense_instead_of_commands(words: list[int]) -> None:
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        job = product(npu)
        job.commands.write(streams.to_bytes(words + streams.tail(streams.PRODUCT_MASK)))
        job.tasks.write(task(job.commands.address, len(words)))
        with refused(errno.ETIMEDOUT):
            job.submit()
        job.tasks.write(task(0xFFFF_FFFF_FFFF_0000, 0xFFFF_FFFF))
        with refused(errno.ETIMEDOUT):
            job.submit()
        npu.close()
        assert is_well(device)


def test_endless_submits_do_not_stop_others() -> None:
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        job = product(npu)
        for _ in range(1000):
            job.submit(flags=JobFlag.PC | JobFlag.NONBLOCK, core_mask=1)
        with Client(device.folder) as other:
            good = other.open("/dev/dri/card1")
            elsewhere = product(good, 3)
            elsewhere.submit(core_mask=2, subcore1=0, subcore3=1)
            assert elsewhere.result == elsewhere.wanted
            good.close()
        npu.close()  # what still waits is dropped
        wait_until(lambda: device.status.buffers == 0)


KILLED = """
import sys
from pathlib import Path
from tests.fakekernel.client import Client
from tests.fakekernel.test_abuse import long_job
client = Client(Path(sys.argv[1]))
job = long_job(None, client, 4000)
print("go", flush=True)
job.submit(task_number=4000, subcore1=4000)
"""


def test_a_program_killed_while_its_job_runs() -> None:
    with Device("rk3588") as device:
        command = [sys.executable, "-c", KILLED, str(device.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"go\n"
            wait_until(lambda: device._system.scheduler.is_busy(0))
            assert device.status.processes == 1
            process.send_signal(signal.SIGKILL)
        wait_until(lambda: device.status.files == 0)
        wait_until(lambda: device.status.buffers == 0)  # the tasks stay until the job is through
        assert not device._system.scheduler.is_busy(0)
        assert is_well(device)


ROCKET_KILLED = """
import sys
from pathlib import Path
from openrknn.board import streams
from tests.fakekernel.board import rocket_allocate, rocket_submit
from tests.fakekernel.client import Client
accel = Client(Path(sys.argv[1])).open("/dev/accel/accel0")
a, b, c, commands = (rocket_allocate(accel, 4096) for _ in range(4))
body = streams.product_body(a.address, b.address, c.address)
commands.write(streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK)))
rocket_submit(accel, [(commands.address, len(body) + 4)] * 4000, [a.handle, b.handle], [c.handle])
print("go", flush=True)
sys.stdin.read()
"""


def test_a_program_of_the_mainline_driver_killed_while_its_job_runs() -> None:
    """Its address space goes at once, the buffers that the job writes later."""
    with Device("rk3588", driver="rocket") as device:
        command = [sys.executable, "-c", ROCKET_KILLED, str(device.folder)]
        root = Path(__file__).parents[2]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"go\n"
            wait_until(lambda: device._system.scheduler.is_busy(0))
            engine = device.engine_process
            process.kill()
        wait_until(lambda: device.status.buffers == 0)
        with Client(device.folder) as client:
            accel = client.open("/dev/accel/accel0")
            job = rocket_product(accel)
            job()
            accel.close()
        assert device.engine_process == engine


def test_the_engine_killed_while_a_job_runs(caplog: pytest.LogCaptureFixture) -> None:
    with Device("rk3588") as device, Client(device.folder) as client:
        job = long_job(device, client, 4000)
        result: list[int] = []

        def submit() -> None:
            try:
                job.submit(task_number=4000, subcore1=4000)
            except RefusedError as error:
                result.append(error.errno or 0)

        thread = threading.Thread(target=submit)
        thread.start()
        wait_until(lambda: device._system.scheduler.is_busy(0))
        assert device.engine_process is not None
        os.kill(device.engine_process, signal.SIGKILL)
        thread.join(300)
        assert result == [errno.ETIMEDOUT]
        assert "crashed" in caplog.text
        job.file.close()
        assert is_well(device)


def test_a_job_that_takes_too_long() -> None:
    with Device("rk3588", time_scale=1) as device, Client(device.folder) as client:
        assert is_well(device, timeout=600_000)  # the engine is ready
        before = device.engine_process
        job = long_job(device, client, 4000)
        with refused(errno.ETIMEDOUT):
            job.submit(task_number=4000, subcore1=4000, timeout=200)
        assert device.engine_process != before
        job.file.close()
        wait_until(lambda: device.status.buffers == 0)
