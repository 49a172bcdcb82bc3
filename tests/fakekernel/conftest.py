"""Emulated boards for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openrknn.fakekernel.device import Device
from tests.fakekernel.client import Client, File


@pytest.fixture(scope="module")
def board() -> Iterator[Device]:
    """An RK3588 with the vendor's driver."""
    with Device("rk3588") as device:
        yield device


@pytest.fixture(scope="module")
def rocket_board() -> Iterator[Device]:
    """An RK3588 with the mainline driver."""
    with Device("rk3588", driver="rocket") as device:
        yield device


@pytest.fixture
def npu(board: Device) -> Iterator[File]:
    """An open node of the vendor's driver."""
    with Client(board.folder) as client:
        file = client.open("/dev/dri/card1")
        yield file
        file.close()


@pytest.fixture
def accel(rocket_board: Device) -> Iterator[File]:
    """An open node of the mainline driver."""
    with Client(rocket_board.folder) as client:
        file = client.open("/dev/accel/accel0")
        yield file
        file.close()
