"""Programs whose requests are bad: no other program is affected, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import random
import socket

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.gem import Buffers
from openrknn.fakekernel.protocol import KIND_BITS, MAX_PAYLOAD, REQUEST, Op
from openrknn.uapi import dmabuf, drm, rknpu
from openrknn.uapi.ioctl import Ioctl
from openrknn.uapi.tables import TABLES
from tests.fakekernel.abuse import is_well, leaves_nothing, own_descriptors, rocket_product
from tests.fakekernel.board import allocate
from tests.fakekernel.client import Client, RefusedError, refused
from tests.fakekernel.waiting import wait_until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

__all__ = ["leaves_nothing"]


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
