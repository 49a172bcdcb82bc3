"""The hook sees everything, in order, with the memory as it was."""

from __future__ import annotations

import errno

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.events import Called, Closed, Event, Finished, Opened, Submitted
from openrknn.uapi import rknpu
from tests.fakekernel.board import allocate, product
from tests.fakekernel.client import Client, RefusedError


def test_everything_is_told() -> None:
    events: list[Event] = []
    copies: list[dict[int, bytes]] = []

    def hook(event: Event) -> None:
        events.append(event)
        if isinstance(event, Submitted):
            copies.append({buffer.address: buffer.read(0, buffer.size) for buffer in event.buffers})

    with Device("rk3588", hook=hook) as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/renderD129")
        job = product(npu)
        job.submit()
        with pytest.raises(RefusedError):
            npu.ioctl(rknpu.MEM_MAP, handle=99)
        npu.close()
        while not isinstance(events[-1], Closed):
            pass
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds[-1]) == (Opened, Closed)
    opened = events[0]
    assert isinstance(opened, Opened)
    assert opened.file.node.path == "/dev/dri/renderD129"
    at = kinds.index(Submitted)
    assert kinds[at : at + 3] == [Submitted, Finished, Called]
    submitted, finished, called = events[at : at + 3]
    assert isinstance(submitted, Submitted)
    assert isinstance(finished, Finished)
    assert isinstance(called, Called)
    assert finished.job is submitted.job
    assert finished.outcome.macs == 16 * 32 * 16
    assert (called.name, called.result, called.before["task_counter"], called.after["task_counter"]) == (
        "SUBMIT", 0, 0, 1,
    )  # fmt: skip
    assert copies[0][job.c.address] == bytes(4096)  # before it ran
    assert copies[0][job.a.address][:16] == job.a.read(16)
    refused = events[at + 3]
    assert isinstance(refused, Called)
    assert (refused.name, refused.result) == ("MEM_MAP", -errno.ENOENT)


def test_unknown_ioctls_are_told_too() -> None:
    events: list[Event] = []
    with Device("rk3588", hook=events.append) as device, Client(device.folder) as client:
        npu = client.open("/dev/dri/card1")
        allocate(npu, 4096)
        with pytest.raises(RefusedError):
            npu.send(rknpu.ACTION, {}, request=0xC0086477)
        npu.close()
    unknown = [event for event in events if isinstance(event, Called) and event.name == "unknown"]
    assert [event.request for event in unknown] == [0xC0086477]
