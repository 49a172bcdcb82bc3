"""The software NPU as a device: memory, addresses, jobs, and what it refuses."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.container.load import load
from openrknn.device import Device, DeviceBuffer, Job, PreparedJob, SoftwareDevice, open_device
from openrknn.errors import AccessError, DeviceError, UnsupportedError
from tests.runtime.cases import GOLDENS

RK3588 = CHIPS["rk3588"]


def test_it_is_a_device() -> None:
    with SoftwareDevice(RK3588) as device:
        assert isinstance(device, Device)
        assert (device.name, device.chip, device.cores) == ("software:rk3588", RK3588, 3)
        buffer = device.allocate(100, "some")
        assert isinstance(buffer, DeviceBuffer)
        assert isinstance(device.prepare(Job((), ((),))), PreparedJob)


def test_memory_is_zeroed_whole_pages_at_its_own_address() -> None:
    with SoftwareDevice(RK3588) as device:
        first, second = device.allocate(5000, "first"), device.allocate(1, "second")
        assert first.array.nbytes == 8192
        assert not first.array.any()
        assert first.address % 4096 == second.address % 4096 == 0
        assert second.address >= first.address + first.array.nbytes + 4096  # a page between them catches overruns


def test_freed_room_is_used_again() -> None:
    with SoftwareDevice(RK3588) as device:
        first, second = device.allocate(8192, "first"), device.allocate(4096, "second")
        device.free(first)
        assert device.allocate(4096, "third").address == first.address
        assert device.allocate(8192, "fourth").address > second.address


def test_the_address_space_ends() -> None:
    with SoftwareDevice(RK3588) as device:
        with pytest.raises(DeviceError, match="no room for"):
            device.allocate(1 << 32, "huge")
        with pytest.raises(ValueError, match="cannot have 0 bytes"):
            device.allocate(0, "nothing")
        device.allocate(1, "still works")


def test_a_closed_device_says_so() -> None:
    device = SoftwareDevice(RK3588)
    buffer = device.allocate(1, "a")
    device.close()
    device.close()
    device.free(buffer)
    with pytest.raises(DeviceError, match="is closed"):
        device.allocate(1, "b")
    with pytest.raises(DeviceError, match="is closed"):
        device.prepare(Job((), ((),)))


def test_commands_outside_memory_are_an_access_error() -> None:
    task = load(GOLDENS / "conv_rk3588_i8.rknn").graphs[0].tasks[0]
    with SoftwareDevice(RK3588) as device, pytest.raises(AccessError, match="PC fetch") as caught:
        device.prepare(Job((task,), ((0,),)))
    assert caught.value.task == 0


def test_an_access_behind_a_buffer_is_caught() -> None:
    with SoftwareDevice(RK3588) as device:
        buffer = device.allocate(4096, "small")
        with pytest.raises(AccessError, match="'small' before it ends"):
            device._memory.view(buffer.address + 4090, 10, "a test")


@pytest.mark.parametrize("text", ["auto", "software", "software:rk3588", "software:RK3588"])
def test_names_of_devices(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), open_device(text, RK3588) as device:
        assert device.name == "software:rk3588"
    assert "took software:rk3588" in caplog.text


def test_wrong_names_say_what_there_is() -> None:
    with pytest.raises(ValueError, match="there are: auto, software"):
        open_device("gpu", RK3588)
    with pytest.raises(ValueError, match="there are: auto, software"):
        open_device("auto:rk3588", RK3588)
    with pytest.raises(UnsupportedError, match="no chip is called"):
        open_device("software:rk9999", RK3588)
    with pytest.raises(UnsupportedError, match="the model is for RK3588, and 'software:rk3566' is a RK3566"):
        open_device("software:rk3566", RK3588)


def test_the_memory_map_of_a_running_job_never_changes() -> None:
    """Jobs of one session look addresses up while another session allocates."""
    with SoftwareDevice(RK3588) as device:
        buffer = device.allocate(4096, "first")
        before = list(device._memory)
        seen = iter(device._memory)
        device.allocate(4096, "second")
        device.free(buffer)
        assert list(seen) == before
        assert [entry.name for entry in device._memory] == ["second"]
        assert np.all(buffer.array == 0)
