"""Emulated boards for the tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from openrknn.fakekernel.device import Device
from openrknn.fakekernel.log import LOG
from tests.fakekernel.client import Client, File


class _Faults(logging.Handler):
    """Collects what only a fault of ours can write."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@pytest.fixture(autouse=True)
def faults() -> Iterator[list[str]]:
    """A device outlives its own faults, so the log has to tell of them; a test that provokes some clears the list."""
    handler = _Faults()
    LOG.addHandler(handler)
    yield handler.texts
    LOG.removeHandler(handler)
    assert handler.texts == []


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
