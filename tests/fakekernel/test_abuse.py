"""Programs that behave badly: nobody else is harmed, and nothing is left behind."""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openrknn.board import streams
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.gem import Buffers
from openrknn.fakekernel.protocol import KIND_BITS, MAX_PAYLOAD, REQUEST, Op
from openrknn.uapi import dmabuf, drm, rknpu
from openrknn.uapi.ioctl import Ioctl
from openrknn.uapi.rknpu import JobFlag, MemoryFlag
from openrknn.uapi.tables import TABLES
from tests.fakekernel.board import CACHED, Product, allocate, prepare, product, rocket_allocate, rocket_submit, task
from tests.fakekernel.client import Client, File, RefusedError, refused
from tests.fakekernel.waiting import wait_until

MANY = 10_000


def own_descriptors() -> list[str]:
    """What this process has open: where the server is, buffers, sockets and pipes show."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the one that lists
            continue
    return sorted(links)


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        bytes(REQUEST.size),
        REQUEST.pack(99, 0, 0, 0, 0),
        REQUEST.pack(Op.IOCTL, 0, 1, rknpu.SUBMIT.request, 0),
        REQUEST.pack(Op.IOCTL, MAX_PAYLOAD + 1, 0, 0, 0),
        REQUEST.pack(Op.IOCTL, 1000, 0, 0, 0) + b"short",
        REQUEST.pack(Op.OPEN, 0, 0, 1 << 40, 0),
        REQUEST.pack(Op.MMAP, 0, 5, 0, 0),
        REQUEST.pack(Op.KIND, 0, (1 << 64) - 1, 0, 0),
        os.urandom(4096),
    ],
)
def test_garbage_on_the_socket(data: bytes) -> None:
    with Device("rk3588") as device:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(device.folder / "socket"))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(300)
            try:
                while connection.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        with Client(device.folder) as client:
            client.open("/dev/dri/card1").close()


def test_a_request_that_is_cut_off_takes_no_descriptor_with_it() -> None:
    """FINDINGS 9: 50 tries lost 50 descriptors."""
    heads = (
        REQUEST.pack(Op.IOCTL, 1000, 0, 0, 0) + b"short", b"x", REQUEST.pack(Op.IOCTL, MAX_PAYLOAD + 1, 0, 0, 0),
    )  # fmt: skip
    with Device("rk3588") as device, open(os.devnull, "rb") as file:
        before = len(own_descriptors())
        for head in heads * 17:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(device.folder / "socket"))
                socket.send_fds(connection, [head], [file.fileno()])
        wait_until(lambda: len(own_descriptors()) <= before)
        assert is_well(device)


def foreign_memory(size: int, flags: int = os.MFD_ALLOW_SEALING) -> int:
    descriptor = os.memfd_create("foreign", flags)
    os.ftruncate(descriptor, size)
    return descriptor


def test_memory_that_is_no_dma_buf_is_refused() -> None:
    """FINDINGS 10c: 5,000 bytes are no whole pages, and the engine crashed at every map. What cannot be sealed could be
    shortened later."""
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        engine = device.engine_process
        for descriptor in (foreign_memory(5000), foreign_memory(0), foreign_memory(8192, 0)):
            with refused(errno.EINVAL):
                npu.ioctl(drm.PRIME_FD_TO_HANDLE, fd=descriptor, descriptor=descriptor)
            os.close(descriptor)
        npu.close()
        assert is_well(device)
        assert device.engine_process == engine


def test_memory_that_was_imported_cannot_be_shortened() -> None:
    """FINDINGS 9: a program that did so crashed the engine at every map, and jobs of other programs failed."""
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        engine = device.engine_process
        descriptor = foreign_memory(8192)
        npu.ioctl(drm.PRIME_FD_TO_HANDLE, fd=descriptor, descriptor=descriptor)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        heap = client.open("/dev/dma_heap/system")
        memory = heap.ioctl(dmabuf.HEAP_ALLOC, len=4096, fd_flags=os.O_RDWR).descriptor
        with pytest.raises(PermissionError):
            os.ftruncate(memory, 0)
        assert is_well(device)
        assert device.engine_process == engine
        for number in (descriptor, memory, heap.descriptor):
            os.close(number)
        npu.close()


def test_memory_that_the_engine_cannot_map_harms_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever the reason: here nobody checks, and the memory has no whole pages."""
    with Device("rk3588") as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        engine = device.engine_process
        descriptor = foreign_memory(5000)
        with monkeypatch.context() as patch:
            patch.setattr(Buffers, "adopt", lambda self, fd, flags, space: self._add(os.dup(fd), flags, space))
            npu.ioctl(drm.PRIME_FD_TO_HANDLE, fd=descriptor, descriptor=descriptor)
        assert is_well(device)
        assert device.engine_process == engine
        assert "cannot be mapped" in capfd.readouterr().err
        os.close(descriptor)
        npu.close()


ODD = (0, 1, 2, 3, 8, 4095, 4096, 0xFFFF, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)


def odd_values(ioctl: Ioctl, dice: random.Random) -> dict[str, int]:
    """Numbers that a program should not use; what the driver would wait for is kept short."""
    values = {}
    for field in ioctl.argument.fields:
        value = dice.choice(ODD) if dice.random() < 0.7 else dice.getrandbits(dice.choice((4, 16, 32, 64)))
        bits = 8 * field.element_bytes
        value &= (1 << bits) - 1
        value -= (1 << bits) if field.type.startswith("s") and value >> (bits - 1) else 0
        for name in [field.name] if field.count == 1 else [f"{field.name}{index}" for index in range(field.count)]:
            values[name] = min(value, 20) if name == "timeout" else value
    return values


@pytest.mark.parametrize(
    ("chip", "driver", "path"),
    [
        ("rk3588", "rknpu", "/dev/dri/card1"),
        ("rk3588", "rknpu", "/dev/dri/renderD129"),
        ("rk3588", "rocket", "/dev/accel/accel0"),
        ("rv1106", "rknpu", "/dev/rknpu"),
        ("rk3588", "rknpu", "/dev/dma_heap/system"),
    ],
)
def test_odd_numbers_in_every_ioctl(chip: str, driver: str, path: str) -> None:
    dice = random.Random(path)
    with Device(chip, driver=driver, time_scale=1) as device, Client(device.folder) as client:
        file = client.open(path)
        table = TABLES[file.value & ((1 << KIND_BITS) - 1)]
        reading, writing = os.pipe()
        refusals = 0
        for _ in range(400):
            ioctl = dice.choice(table.ioctls)
            blocks = dice.randbytes(dice.choice((0, 3, 64))) if dice.random() < 0.3 else b""
            try:
                answer = file.send(
                    ioctl, odd_values(ioctl, dice), blocks=blocks, descriptor=dice.choice((-1, reading))
                )
            except RefusedError:
                refusals += 1
                continue
            if answer.descriptor >= 0:
                os.close(answer.descriptor)
        assert refusals > 100
        file.close()
        os.close(reading)
        os.close(writing)
        wait_until(lambda: device.status.files == 0)
        client.open(path).close()


def test_a_long_request_after_a_short_one() -> None:
    with Device("rk3588", driver="rocket") as device, Client(device.folder) as client:
        accel = client.open("/dev/accel/accel0")
        job = rocket_product(accel)
        job()
        job(20, 4096)  # more than the server has room for at first
        accel.close()


def test_a_fault_of_ours_does_not_make_the_device_deaf(
    monkeypatch: pytest.MonkeyPatch, faults: list[str]
) -> None:
    with Device("rk3588") as device:
        with monkeypatch.context() as patch, Client(device.folder) as client:
            patch.setattr(DrmDriver, "close", lambda self, file: 1 // 0)
            client.open("/dev/dri/card1").close()
            wait_until(lambda: device.status.files == 0)
        assert is_well(device)
        wait_until(lambda: device.status.files == 0)
        with monkeypatch.context() as patch, Client(device.folder) as client:
            patch.setattr(DrmDriver, "ioctl", lambda self, file, call: 1 // 0)
            npu = client.open("/dev/dri/card1")
            with pytest.raises(ConnectionResetError):
                npu.ioctl(rknpu.MEM_CREATE, size=4096)
            npu.close()
        assert is_well(device)
    assert len(faults) == 2
    assert all("ZeroDivisionError" in text for text in faults)
    faults.clear()


def test_a_recorder_that_fails_is_not_asked_again(faults: list[str]) -> None:
    def hook(event: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with Device("rk3588", hook=hook) as device:
        assert is_well(device)
        assert isinstance(device.hook_error, OSError)
    assert faults == ["recording ended: OSError: [Errno 28] the disk is full"]
    faults.clear()


class FullListener(socket.socket):
    """There is no descriptor left for the first few connections."""

    refusals = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_no_descriptors_are_left_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("openrknn.fakekernel.tree.socket.socket", FullListener)
    with Device("rk3588") as device:
        monkeypatch.undo()
        assert is_well(device)
        assert caplog.text.count("cannot connect: Too many open files") == 3


def test_programs_that_are_connected_when_the_device_ends() -> None:
    with Device("rk3588") as device:
        client = Client(device.folder)
        npu = client.open("/dev/dri/card1")
        allocate(npu, 4096)
    with pytest.raises(OSError, match=r"hung up|reset|Broken"):
        npu.ioctl(rknpu.MEM_CREATE, size=4096)
    npu.close()
    client.close()


def test_devices_come_and_go() -> None:
    for _ in range(5):
        with Device("rk3588"):
            pass
